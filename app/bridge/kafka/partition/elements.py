"""Records as elements of a request's body: which table they go to, and the line that each becomes.

Bodies are NDJSON: the records' values, or `{"key":…,"value":…}` where a format needs the key. Invariant: element i of a
body is one record, so that the index in the gateway's answer names its offset.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

import msgspec

from app.bridge.kafka.records import RecordDecoder, RecordRejected
from app.bridge.kafka.topics import TopicRule
from mirrorgate.avro_envelope import MAGIC

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
