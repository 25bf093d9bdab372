"""Send the records of a batch: one request for each run of records of one table, and what happens to rejected ones.

A rejected record: the records before it are sent first. Then it is put aside, if the operator asked for that, or the
partition stops there. Invariant: requests are sent in the order of offsets, and their positions only increase.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from app.bridge.kafka.partition.elements import (
    Elements,
    Fault,
    Record,
    line_of,
    malformed,
    parameters_of,
    values_as_lines,
)
from app.bridge.kafka.partition.rejected import keep_record
from app.bridge.kafka.records import RecordRejected
from app.client.http import RejectedByGateway
from app.client.producer import ChangeRequest, Producer
from app.errors import Code
from app.errors.codes import Kind

if TYPE_CHECKING:
    from app.bridge.kafka.partition.partition import Partition

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


class Delivery:
    """Delivers the batches of one partition through its producer."""

    def __init__(self, partition: "Partition", producer: Producer) -> None:
        self._partition = partition
        self._producer = producer
        self._decoder = partition.around.decoder_of(partition.rule)
        self._fixed_table = partition.rule.fixed_table(partition.topic)
        self._asks_record = partition.rule.table is not None and self._fixed_table is None
        own = (partition.topic, partition.number)
        self._has_skips = any(skip[:2] == own for skip in partition.around.choices.skips)

    def deliver(self, records: Sequence[Record]) -> None:
        """Make all records durable.

        Raises Held at a record that is rejected, ProducerConflict, Stopped, and TemporarilyUnavailable while a schema
        registry does not answer. The records before that are durable and out of the buffer.
        """
        elements = None if self._asks_record or self._has_skips else values_as_lines(self._partition.rule, records)
        if elements is not None:
            self._send(elements, self._fixed_table, elements.offset(-1))
        else:
            self._deliver_each(records)

    def _deliver_each(self, records: Sequence[Record]) -> None:
        """Deliver records whose lines are made one by one, and which can have different tables."""
        read: list[Record] = []
        lines: list[bytes] = []
        table = self._fixed_table
        last = -1

        def send() -> None:
            self._send(Elements.of(read, lines), table, last)

        for record in records:
            offset = record.offset() or 0
            try:
                line, record_table = self._read(record, offset)
            except RecordRejected as error:
                fault = Fault(offset, Code.UNREADABLE_RECORD, error.detail, error.remedy, can_be_skipped=True)
                if not self._put_aside(record, fault):
                    send()
                    raise Held(fault) from None
                line = None
            except Exception:  # raised again: a record that waits for a registry does not hold back those before it
                send()
                raise
            if line is not None:
                if lines and record_table != table:
                    send()
                    read, lines = [], []
                table = record_table
                read.append(record)
                lines.append(line)
            last = offset
        send()

    def _read(self, record: Record, offset: int) -> tuple[bytes | None, str | None]:
        partition = self._partition
        if (partition.topic, partition.number, offset) in partition.around.choices.skips:
            partition.counters.skipped += 1
            partition.around.log.warning(
                "record_skipped",
                about=(partition.name, offset),
                topic=partition.topic,
                partition=partition.number,
                offset=offset,
            )
            return None, None
        line = line_of(partition.rule, self._decoder, partition.topic, record)
        if line is None:
            partition.counters.ignored += 1
        elif self._asks_record:
            return line, partition.rule.record_table(partition.topic, record.key(), record.headers())
        return line, self._fixed_table

    def _send(self, elements: Elements, table: str | None, last: int) -> None:
        """Make the elements durable, with the position `last`. Raises what `deliver` raises."""
        while elements:
            try:
                answer = self._post(elements, table, last)
            except RejectedByGateway as error:
                self._partition.counters.rejections += 1
                elements = self._without_faults(elements, table, error)
            else:
                self._count(elements, answer)
                break
        if last >= 0:
            self._partition.buffer.drop_through(last)
            self._partition.last_offset = last

    def _post(self, elements: Elements, table: str | None, last: int) -> Any:
        partition = self._partition
        request = ChangeRequest(
            partition.rule.format,
            elements.body,
            parameters_of(partition.rule, partition.topic, partition.number, table),
            position=partition.position_text(last),
        )
        return self._producer.send(request)

    def _without_faults(self, elements: Elements, table: str | None, error: RejectedByGateway) -> Elements:
        """Return what remains to be sent after a rejection. Raises Held if the partition cannot pass it."""
        faults = malformed(elements) or _faults_of(elements, error)
        if error.code in _WITHOUT_INDEX and len(elements) > 1 and (error.code in _TOO_LARGE or not faults):
            half = len(elements) // 2
            self._send(elements.part(0, half), table, elements.offset(half - 1))
            return elements.part(half, len(elements))
        first = min(faults, default=None)
        if first is None:
            begin, end = elements.offset(0), elements.offset(-1)
            detail = f"{error.detail} (records {begin} to {end})"
            raise Held(Fault(begin, error.code, detail, error.remedy))
        if all(self._put_aside(elements.records[index], fault) for index, fault in sorted(faults.items())):
            return elements.without(faults)
        if first:
            self._send(elements.part(0, first), table, elements.offset(first - 1))
        raise Held(faults[first])

    def _put_aside(self, record: Record, fault: Fault) -> bool:
        """Keep a rejected record in the folder, if the operator asked for it; return False if the partition stops."""
        partition = self._partition
        folder = partition.rejected_folder
        if folder is None or not fault.can_be_skipped:
            return False
        try:
            path = keep_record(folder, partition.topic, partition.number, record, fault)
        except OSError as error:
            detail = f"the folder of rejected records is not writable: {error.strerror}"
            raise Held(Fault(fault.offset, Code.BAD_SETTING, detail, f"Make {folder} writable.")) from error
        partition.counters.set_aside += 1
        partition.around.log.warning(
            "record_rejected",
            about=partition.name,
            topic=partition.topic,
            partition=partition.number,
            offset=fault.offset,
            code=fault.code,
            detail=fault.detail,
            pointer=fault.pointer,
            file=str(path),
        )
        return True

    def _count(self, elements: Elements, answer: Any) -> None:
        counters = self._partition.counters
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
