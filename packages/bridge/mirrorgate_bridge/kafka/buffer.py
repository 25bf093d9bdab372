"""The records of one partition between Kafka and the gateway, and the position from which they are read.

`RecordBuffer` is bounded by bytes. Records leave it when they are durable. They remain in the runs in which the
consumer handed them over. The buffer cuts batches from runs, so no Python code runs for a single record (performance
notebook).

`Elements` are the records of a request and its body in NDJSON: the records' values, or `{"key":…,"value":…}` where a
format needs the key. Invariant: element i of a body is one record, so that the index in the gateway's answer names its
offset.

`Position` is the position of a partition at the gateway, in JSON: the offset of the last durable record, and what
identifies the log that the offset is of. Brokers from Kafka 2.8 give a topic an id; for others only the first and last
offset tell that a topic was recreated.

`next_offset` decides where to read next. Invariant: the bridge never guesses: when the log does not continue the
position, the operator chooses, on the command line (`Choices`). Such a choice is safe to leave there: a skip concerns
one offset, and a start applies only where the bridge would otherwise stop.
"""

import hashlib
import re
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, Protocol, Self

import msgspec

from mirrorgate.avro_envelope import MAGIC
from mirrorgate.errors import Code, MirrorgateError, RejectedInput
from mirrorgate_bridge.kafka.settings import BatchSettings, RecordDecoder, RecordRejected, TopicRule

_MAX_NAME: Final = 128
_DELETE: Final = b"DELETE"
_SEARCHED: Final = 128
"""Values that are searched together for what a line cannot have."""


class Record(Protocol):
    """The parts of a `confluent_kafka.Message` that the bridge reads."""

    def offset(self) -> int | None:
        """Return the offset."""

    def key(self) -> Any:
        """Return the key's bytes, or None."""

    def value(self) -> Any:
        """Return the value's bytes; None for a tombstone."""

    def headers(self) -> Any:
        """Return the headers as pairs, or None."""

    def timestamp(self) -> tuple[int, int]:
        """Return the type of the timestamp, and its milliseconds."""

    def __len__(self) -> int:
        """Return the bytes of the value."""


@dataclass(frozen=True, slots=True)
class Elements:
    """Records of a request, the line that each becomes, and the NDJSON body of these lines."""

    records: Sequence[Record]
    lines: Sequence[bytes]
    body: bytes

    @classmethod
    def of(cls, records: Sequence[Record], lines: Sequence[bytes]) -> Self:
        """Join the lines of some records."""
        return cls(records, lines, b"\n".join(lines))

    def __len__(self) -> int:
        return len(self.records)

    def offset(self, index: int) -> int:
        """Return the offset of one record."""
        return self.records[index].offset() or 0

    def part(self, start: int, end: int) -> "Elements":
        """Return the elements from `start` to before `end`."""
        return Elements.of(self.records[start:end], self.lines[start:end])

    def without(self, indexes: Container[int]) -> "Elements":
        """Return the elements that are not at these indexes."""
        kept = [index for index in range(len(self)) if index not in indexes]
        return Elements.of([self.records[index] for index in kept], [self.lines[index] for index in kept])


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault of one record, in the gateway's or the decoder's words; never a value."""

    offset: int
    code: str
    detail: str
    remedy: str
    pointer: str | None = None
    can_be_skipped: bool = False


def line_of(rule: TopicRule, decoder: RecordDecoder, topic: str, record: Record) -> bytes | None:
    """Return the line of a record; None for a tombstone that the format has no use for.

    Raises what `RecordDecoder.decode` raises.
    """
    raw_value = record.value()
    key, value = decoder.decode(topic, record.key() if _needs_key(rule, raw_value) else None, raw_value)
    if value is not None and (not value or value.isspace()):
        raise RecordRejected("the record's value is empty", "Correct the producer, or skip the record.")
    if rule.format == "debezium":
        if rule.key == "none":
            _check_meaning(rule, value)
            return value
        return b'{"key":%b,"value":%b}' % (key or b"null", value or b"null")
    if value is None:
        return _delete_of(key) if rule.format == "rows" and rule.tombstones == "delete" else None
    if rule.format == "replicate" and key is not None and (_DELETE in value or "layout" in rule.parameters):
        return b'{"key":%b,"value":%b}' % (key, value)
    return value


def values_as_lines(rule: TopicRule, records: Sequence[Record]) -> Elements | None:
    """Return the elements of records whose values are lines as they are, None if one of them may need `line_of`.

    The lines are those of `line_of`, at a tenth of its cost.
    """
    if rule.value != "json" or rule.format == "debezium" or "layout" in rule.parameters:
        return None
    values = [record.value() for record in records]
    if None in values or not all(values) or any(map(bytes.isspace, values)):
        return None
    unwanted = [b"\n", b"\r", *([_DELETE] if rule.format == "replicate" else ())]
    for at in range(0, len(values), _SEARCHED):
        text = b"".join(values[at : at + _SEARCHED])  # one search costs less than one of each value
        if any(part in text for part in unwanted):
            return None
    return Elements.of(records, values)


def parameters_of(rule: TopicRule, topic: str, partition: int, table: str | None) -> Mapping[str, str]:
    """Return the query parameters of a request. `table` is None if the messages name it."""
    given = dict(rule.parameters)
    if table is not None:
        given["table"] = table
    if rule.on_reject == "dead_letter":
        given["on_reject"] = "dead_letter"
    if rule.format != "rows":
        given["partition"] = f"{topic}/{partition}"[-_MAX_NAME:]
    return given


def malformed(elements: Elements) -> dict[int, Fault]:
    """Return the faults of elements that are not one JSON value each.

    The gateway accepts several values one after the other, so only this tells which record its index is in.
    """
    faults: dict[int, Fault] = {}
    for index, line in enumerate(elements.lines):
        try:
            msgspec.json.decode(line, type=msgspec.Raw)
        except (msgspec.DecodeError, ValueError, RecursionError):
            faults[index] = Fault(
                elements.offset(index),
                "malformed_json",
                "the record's value is not JSON",
                "Correct the producer of the topic, or set `value` to the encoding of its records.",
                can_be_skipped=True,
            )
    return faults


def _needs_key(rule: TopicRule, value: bytes | None) -> bool:
    """Return True if a record's key is decoded. A key that no table needs may be in any encoding.

    A Replicate DELETE may have no image; then only the key names the row. Its operation is text in JSON alone. In
    Avro, each message has its row.
    """
    if rule.format == "replicate" and rule.value == "avro" and value is not None and value.startswith(MAGIC):
        return False
    if rule.format == "replicate":
        is_text = rule.value == "json" and "layout" not in rule.parameters
        return value is not None and (not is_text or _DELETE in value)
    return rule.format == "debezium" or (rule.format == "rows" and value is None)


def _check_meaning(rule: TopicRule, value: bytes | None) -> None:
    """Raise RecordRejected for a tombstone that may be the only sign of a delete. Its key is not read."""
    if value is None and rule.parameters.get("tombstones") != "ignore":
        raise RecordRejected(
            "the record is a tombstone, which may delete a row, and `key: none` leaves out its key",
            "Remove `key: none` of the topic if tombstones are its deletes, else add `tombstones: ignore` to its "
            "`parameters`.",
        )


def _delete_of(key: bytes | None) -> bytes:
    if key is None or not key.startswith(b"{") or key == b"{}":
        raise RecordRejected(
            "the record is a tombstone, and its key is not a JSON object with the key columns",
            "Set `tombstones: ignore` for the topic, or let its producer write the key as an object.",
        )
    return b'{"__op__":"delete",' + key[1:]


_OVERHEAD: Final = 200
"""Bytes that a record takes beside its value, about."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Records with ascending offsets, at least one. `size` is the bytes of their values."""

    records: Sequence[Record]
    size: int

    @classmethod
    def of(cls, records: Sequence[Record]) -> "_Run":
        return cls(records, sum(map(len, records)))

    @property
    def bytes(self) -> int:
        return self.size + _OVERHEAD * len(self.records)


class RecordBuffer:
    """One thread puts records in, another one takes batches. A batch remains in the buffer until `drop_through`."""

    def __init__(self, settings: BatchSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._runs: deque[_Run] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._since = 0.0
        self.next_offset: int | None = None
        """The first offset that is accepted; None while the partition is not positioned, then none is."""
        self.bytes = 0
        self.records = 0
        self.room = 2 * settings.max_bytes
        """Bytes from which on the consumer waits. A batch is taken at half of them, so that a full buffer never waits
        for the age of a batch."""

    def begin(self, offset: int) -> None:
        """Forget all records and accept those from `offset` on."""
        with self._changed:
            self._clear()
            self.next_offset = offset

    def forget(self) -> None:
        """Forget all records and accept none until `begin`."""
        with self._changed:
            self._clear()
            self.next_offset = None

    def put(self, records: Sequence[Record]) -> None:
        """Add records in their order; those before `next_offset` are dropped."""
        with self._changed:
            if self.next_offset is None or self._is_closed:
                return
            if _offset(records[0]) < self.next_offset:
                records = [record for record in records if _offset(record) >= self.next_offset]
                if not records:
                    return
            if not self._runs:
                self._since = self._clock()
            self._add(_Run.of(records), self._runs.append)
            self.next_offset = _offset(records[-1]) + 1
            self._changed.notify()

    def take(self) -> list[Record]:
        """Wait until a batch is large or old enough and return it; an empty one after `close`."""
        limit = self._settings
        with self._changed:
            while not self._is_closed:
                if not self._runs:
                    self._changed.wait()
                    continue
                age = self._clock() - self._since
                if self.bytes >= self._max_bytes or self.records >= limit.max_messages or age >= limit.max_age:
                    self._since = self._clock()
                    return self._first()
                self._changed.wait(limit.max_age - age)
        return []

    def drop_through(self, offset: int) -> None:
        """Remove the records up to `offset`, which are durable or need no request."""
        with self._changed:
            while self._runs and _offset(self._runs[0].records[0]) <= offset:
                run = self._runs.popleft()
                self.bytes -= run.bytes
                self.records -= len(run.records)
                dropped = bisect_right(run.records, offset, key=_offset)
                if dropped < len(run.records):
                    self._add(_Run.of(run.records[dropped:]), self._runs.appendleft)
            self._changed.notify_all()

    @property
    def is_full(self) -> bool:
        """Return True if the consumer has to wait."""
        return self.bytes >= self.room

    def wait_for_room(self, seconds: float) -> bool:
        """Wait until the buffer is not full, for `seconds` at most; return True if it is not."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.is_full or self._is_closed, seconds)

    def close(self) -> None:
        """Let `take` return, and accept no more records."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @property
    def _max_bytes(self) -> int:
        """Return the bytes of a batch."""
        return min(self._settings.max_bytes, self.room // 2)

    def _add(self, run: _Run, add: Callable[[_Run], None]) -> None:
        add(run)
        self.bytes += run.bytes
        self.records += len(run.records)

    def _clear(self) -> None:
        self._runs.clear()
        self.bytes = self.records = 0

    def _first(self) -> list[Record]:
        """Return records from the start up to the limits, at least one."""
        batch: list[Record] = []
        room, places = self._max_bytes, self._settings.max_messages
        for run in self._runs:
            if run.size > room or len(run.records) > places:
                fitting = min(bisect_right([*accumulate(map(len, run.records))], room), places)
                batch += run.records[: fitting if batch else max(fitting, 1)]
                break
            batch += run.records
            room -= run.size
            places -= len(run.records)
        return batch


def _offset(record: Record) -> int:
    return record.offset() or 0


MAX_POSITION_CHARACTERS: Final = 256


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last durable record of a partition."""

    offset: int
    topic_id: str | None = None
    partitions: int | None = None
    """The number of partitions that the topic had."""

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read a position. Raises CannotContinue for a string that is not one of a Kafka bridge."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise CannotContinue(
                Code.PRODUCER_SHARED,
                "the gateway stores a position under this producer that is not a position of a Kafka bridge",
                "Give the bridge another `cluster` or `group`, or its key to no other program.",
            ) from None

    def text(self) -> str:
        """Return the form that the gateway stores."""
        return msgspec.json.encode(self).decode()


SNAPSHOTS_REMEDY: Final = (
    "Set the table's options `reload=upsert` and `insert_marker=upsert`: the topic has several partitions, so snapshot "
    "rows of one can follow changes of another."
)


class CannotContinue(MirrorgateError):
    """The bridge does not read a partition until the operator has chosen. The remedy names the choices."""

    def __init__(self, code: Code, detail: str, remedy: str) -> None:
        super().__init__(code, detail, remedy=remedy)


@dataclass(frozen=True)
class Log:
    """A broker's facts about a partition: offsets from `low` to before `high` exist."""

    low: int
    high: int
    topic_id: str | None
    partitions: int


def next_offset(position: Position, log: Log, *, accepted_partitions: int | None, needs_order: bool) -> int:
    """Return the offset after the position. Raises CannotContinue when the log does not continue it."""
    if position.topic_id and log.topic_id and position.topic_id != log.topic_id:
        raise _lost(f"the topic was deleted and created again since offset {position.offset}", log)
    if position.offset + 1 > log.high:
        raise _lost(
            f"the log ends at offset {log.high}, before the durable offset {position.offset}: the topic was created "
            "again or cut off",
            log,
        )
    if position.offset + 1 < log.low:
        missing = log.low - position.offset - 1
        raise _lost(f"{missing} offsets from {position.offset + 1} on are deleted and were never read", log)
    if needs_order:
        check_partitions(position.partitions, log.partitions, accepted_partitions)
    return position.offset + 1


def check_partitions(known: int | None, found: int, accepted: int | None) -> None:
    """Raise CannotContinue if the number of partitions has changed and the operator has not accepted the new one."""
    if known is None or known == found or accepted == found:
        return
    raise CannotContinue(
        Code.SOURCE_ORDER_UNSAFE,
        f"the topic has {found} partitions now and had {known}: records of one key may be in two partitions, so a "
        "newer change could land before an older one",
        f"Once the records from before the change are mirrored, or if keys never change partition, write "
        f"`partitions: {found}` for the topic and start the bridge again.",
    )


def _lost(detail: str, log: Log) -> CannotContinue:
    return CannotContinue(
        Code.SOURCE_POSITION_LOST,
        detail,
        f"Choose where to continue: `--from TOPIC/PARTITION@earliest` reads from offset {log.low}, `@latest` from "
        f"{log.high}, `@N` from offset N. Reload the tables from their source if records are missing in between.",
    )


def log_ended(last_offset: int | None) -> CannotContinue:
    """Return the reason to stop a partition whose log was cut off or created again while it was read."""
    return CannotContinue(
        Code.SOURCE_POSITION_LOST,
        f"the brokers no longer have the offset after {last_offset}: it was deleted, or the topic was created again",
        "Start the bridge again: it names the offsets that are left, and the choices.",
    )


def producer_name(cluster: str, group: str, topic: str, partition: int) -> str:
    """Return the producer's name at the gateway: visible ASCII, at most 255 characters.

    Cluster and group have 100 characters at most and a topic 249, so a long topic is named by its hash.
    """
    name = f"kafka:{cluster}/{group}/{topic}/{partition}"
    if len(name) <= 255:
        return name
    return f"kafka:{cluster}/{group}/sha256-{hashlib.sha256(topic.encode()).hexdigest()[:32]}/{partition}"


_SKIP: Final = re.compile(r"([A-Za-z0-9._-]+)/(\d+)@(\d+)")
_FROM: Final = re.compile(r"([A-Za-z0-9._-]+)/(\d+|\*)@(\d+|earliest|latest)")


@dataclass(frozen=True)
class Choices:
    """The options of the command line, read."""

    skips: frozenset[tuple[str, int, int]] = frozenset()
    starts: dict[tuple[str, int | None], str] = field(default_factory=dict)

    @classmethod
    def parse(cls, skips: Iterable[str], starts: Iterable[str]) -> "Choices":
        """Read `TOPIC/PARTITION@OFFSET` and `TOPIC/PARTITION@earliest|latest|OFFSET`. Raises RejectedInput."""
        skipped, chosen = set(), {}
        for text in skips:
            found = _SKIP.fullmatch(text)
            if found is None:
                raise _wrong("--skip", text, "orders/0@1234")
            skipped.add((found[1], int(found[2]), int(found[3])))
        for text in starts:
            found = _FROM.fullmatch(text)
            if found is None:
                raise _wrong("--from", text, "orders/0@earliest, orders/*@latest or orders/0@1234")
            chosen[found[1], None if found[2] == "*" else int(found[2])] = found[3]
        return cls(frozenset(skipped), chosen)

    def start(self, topic: str, partition: int, log: Log) -> int | None:
        """Return the offset that was chosen for a partition, None without a choice."""
        chosen = self.starts.get((topic, partition)) or self.starts.get((topic, None))
        if chosen is None:
            return None
        return {"earliest": log.low, "latest": log.high}.get(chosen) if not chosen.isdigit() else int(chosen)


def _wrong(option: str, text: str, example: str) -> RejectedInput:
    return RejectedInput(
        Code.BAD_REQUEST, f"{option} {text!r} has the wrong form", remedy=f"Write for example {example}."
    )
