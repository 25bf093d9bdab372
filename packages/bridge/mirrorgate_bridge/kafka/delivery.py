"""Send the records of a batch: one request for each run of records of one table, and what happens to rejected ones.

`Delivery` sends the records before a rejected one first. Then it puts the rejected record aside, if the operator asked
for that, or the partition stops there. Invariant: requests are sent in the order of offsets, and their positions only
increase.

`keep_record` writes a record that is put aside.
"""

import os
from base64 import b64encode
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import msgspec

from mirrorgate.errors import Code
from mirrorgate.errors.codes import Kind
from mirrorgate.http import RejectedByGateway
from mirrorgate.producer import ChangeRequest, Producer
from mirrorgate_bridge.kafka.buffer import (
    Elements,
    Fault,
    Record,
    line_of,
    malformed,
    parameters_of,
    values_as_lines,
)
from mirrorgate_bridge.kafka.settings import RecordDecoder, RecordRejected, TopicRule
from mirrorgate_bridge.log import BridgeLog

_TOO_LARGE: Final = frozenset(
    {Code.BODY_TOO_LARGE, Code.TOO_MANY_MESSAGES, Code.TOO_MANY_NESTED_VALUES, Code.BODY_EXPANDS_TOO_MUCH}
)
_WITHOUT_INDEX: Final = _TOO_LARGE | {Code.MALFORMED_JSON, Code.MALFORMED_MESSAGE, Code.BAD_ENCODING}
"""Codes that may be about one record although the answer names no index: halves of the request find the record."""

_OF_ONE_RECORD: Final = frozenset({Kind.MALFORMED, Kind.INVALID, Kind.TOO_LARGE})
"""Kinds of errors that can be about one record. States, rights and unknown tables concern all that follow, too."""


class Held(Exception):
    """The partition cannot pass a record: `fault` says which one and why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.detail)
        self.fault = fault


@dataclass
class Counters:
    """The counters of a partition for the metrics."""

    records: int = 0
    bytes: int = 0
    requests: int = 0
    retries: int = 0
    rejections: int = 0
    dead_letters: int = 0
    set_aside: int = 0
    skipped: int = 0
    ignored: int = 0
    conflicts: int = 0
    stops: int = 0

    def plus(self, other: "Counters") -> "Counters":
        """Return the sums."""
        return Counters(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


@dataclass
class Delivery:
    """Delivery of one partition's batches through its producer."""

    topic: str
    number: int
    rule: TopicRule
    producer: Producer
    decoder: RecordDecoder
    position_text: Callable[[int], str]
    """Returns the position after the record at an offset."""
    log: BridgeLog
    skips: Collection[int] = ()
    """Offsets that the operator leaves out."""
    rejected_folder: Path | None = None
    """Folder of rejected records; None if they stop the partition."""
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        """Find out whether each record has to be looked at."""
        self._fixed_table = self.rule.fixed_table(self.topic)
        self._asks_record = self.rule.table is not None and self._fixed_table is None

    def deliver(self, records: Sequence[Record]) -> Iterator[int]:
        """Make all records durable; yield the last offset that is durable or needs no request, after each step.

        Raises Held at a record that is rejected, ProducerConflict, Stopped, and TemporarilyUnavailable while a schema
        registry does not answer. The records before that are durable and were yielded.
        """
        elements = None if self._asks_record or self.skips else values_as_lines(self.rule, records)
        if elements is not None:
            yield from self._send(elements, self._fixed_table, elements.offset(-1))
        else:
            yield from self._deliver_each(records)

    def _deliver_each(self, records: Sequence[Record]) -> Iterator[int]:
        """Deliver records whose lines are made one by one, and which can have different tables."""
        read: list[Record] = []
        lines: list[bytes] = []
        table = self._fixed_table
        last = -1

        def send() -> Iterator[int]:
            return self._send(Elements.of(read, lines), table, last)

        for record in records:
            offset = record.offset() or 0
            try:
                line, record_table = self._read(record, offset)
            except RecordRejected as error:
                fault = Fault(offset, Code.UNREADABLE_RECORD, error.detail, error.remedy, can_be_skipped=True)
                if not self._put_aside(record, fault):
                    yield from send()
                    raise Held(fault) from None
                line = None
            except Exception:  # raised again: a record that waits for a registry does not hold back those before it
                yield from send()
                raise
            if line is not None:
                if lines and record_table != table:
                    yield from send()
                    read, lines = [], []
                table = record_table
                read.append(record)
                lines.append(line)
            last = offset
        yield from send()

    def _read(self, record: Record, offset: int) -> tuple[bytes | None, str | None]:
        if offset in self.skips:
            self.counters.skipped += 1
            where = {"topic": self.topic, "partition": self.number}
            self.log.warning("record_skipped", about=(self._name, offset), **where, offset=offset)
            return None, None
        line = line_of(self.rule, self.decoder, self.topic, record)
        if line is None:
            self.counters.ignored += 1
        elif self._asks_record:
            return line, self.rule.record_table(self.topic, record.key(), record.headers())
        return line, self._fixed_table

    def _send(self, elements: Elements, table: str | None, last: int) -> Iterator[int]:
        """Make the elements durable, with the position `last`, and yield it. Raises what `deliver` raises."""
        while elements:
            try:
                answer = self._post(elements, table, last)
            except RejectedByGateway as error:
                self.counters.rejections += 1
                elements = yield from self._without_faults(elements, table, error)
            else:
                self._count(elements, answer)
                break
        if last >= 0:
            yield last

    def _post(self, elements: Elements, table: str | None, last: int) -> Any:
        request = ChangeRequest(
            self.rule.format,
            elements.body,
            parameters_of(self.rule, self.topic, self.number, table),
            position=self.position_text(last),
        )
        return self.producer.send(request)

    def _without_faults(
        self, elements: Elements, table: str | None, error: RejectedByGateway
    ) -> Generator[int, None, Elements]:
        """Return what remains to be sent after a rejection. Raises Held if the partition cannot pass it."""
        faults = malformed(elements) or _faults_of(elements, error)
        if error.code in _WITHOUT_INDEX and len(elements) > 1 and (error.code in _TOO_LARGE or not faults):
            half = len(elements) // 2
            yield from self._send(elements.part(0, half), table, elements.offset(half - 1))
            return elements.part(half, len(elements))
        first = min(faults, default=None)
        if first is None:
            begin, end = elements.offset(0), elements.offset(-1)
            detail = f"{error.detail} (records {begin} to {end})"
            raise Held(Fault(begin, error.code, detail, error.remedy))
        held = next((at for at in sorted(faults) if not self._put_aside(elements.records[at], faults[at])), None)
        if held is None:
            return elements.without(faults)
        if held:
            yield from self._send(elements.part(0, held).without(faults), table, elements.offset(held - 1))
        raise Held(faults[held])

    def _put_aside(self, record: Record, fault: Fault) -> bool:
        """Keep a rejected record in the folder, if the operator asked for it; return False if the partition stops."""
        folder = self.rejected_folder
        if folder is None or not fault.can_be_skipped:
            return False
        try:
            path = keep_record(folder, self.topic, self.number, record, fault)
        except OSError as error:
            detail = f"the folder of rejected records is not writable: {error.strerror}"
            raise Held(Fault(fault.offset, Code.BAD_SETTING, detail, f"Make {folder} writable.")) from error
        self.counters.set_aside += 1
        self.log.warning(
            "record_rejected",
            about=self._name,
            topic=self.topic,
            partition=self.number,
            offset=fault.offset,
            code=fault.code,
            detail=fault.detail,
            pointer=fault.pointer,
            file=str(path),
        )
        return True

    @property
    def _name(self) -> str:
        return f"{self.topic}/{self.number}"

    def _count(self, elements: Elements, answer: Any) -> None:
        counters = self.counters
        counters.requests += 1
        counters.records += len(elements)
        counters.bytes += len(elements.body) - (len(elements) - 1)  # without the line breaks
        counters.dead_letters += int(answer.get("dead_letters") or 0)


def _faults_of(elements: Elements, error: RejectedByGateway) -> dict[int, Fault]:
    """Return the problems of the gateway's answer by element, the first one of each."""
    faults: dict[int, Fault] = {}
    for problem in error.errors:
        index = problem.get("index")
        if not isinstance(index, int) or not 0 <= index < len(elements) or index in faults:
            continue
        code = problem.get("code", error.code)
        kind = Code(code).kind if code in set(Code) else None
        remedy = Code(code).remedy if code in set(Code) and code != error.code else error.remedy
        faults[index] = Fault(
            elements.offset(index),
            code,
            str(problem.get("detail", error.detail)),
            remedy,
            problem.get("pointer"),
            kind in _OF_ONE_RECORD,
        )
    if not faults and len(elements) == 1 and error.code in _WITHOUT_INDEX:
        faults[0] = Fault(elements.offset(0), error.code, error.detail, error.remedy, can_be_skipped=True)
    return faults


def keep_record(folder: Path, topic: str, partition: int, record: Record, fault: Fault) -> Path:
    """Write the record with what is wrong with it; return the file. Raises OSError if that fails.

    The file is JSON, named by topic, partition and offset. It is written and synchronized before the position moves
    past its record. A record that is read again after a crash has the same name, so nothing is kept twice and nothing
    is lost.
    """
    path = folder / topic / str(partition) / f"{fault.offset}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "topic": topic,
        "partition": partition,
        "offset": fault.offset,
        "timestamp_ms": record.timestamp()[1],
        "problem": {"code": fault.code, "detail": fault.detail, "pointer": fault.pointer, "remedy": fault.remedy},
        "headers": [[name, _text(value)] for name, value in record.headers() or ()],
        "key": _text(record.key()),
        "value": _text(record.value()),
    }
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return path


def _text(value: bytes | None) -> dict[str, str] | None:
    """Return bytes as `{"text": …}`, or `{"base64": …}` for what is not UTF-8."""
    if value is None:
        return None
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}
