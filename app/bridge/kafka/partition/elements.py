"""Records as elements of a request's body: which table they go to, and the line that each becomes.

Bodies are NDJSON: the records' values, or `{"key":…,"value":…}` where a format needs the key. Invariant: element i of a
body is one record, so that the index in the gateway's answer names its offset.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from app.bridge.kafka.records import RecordDecoder, RecordRejected
from app.bridge.kafka.topics import TopicRule

_MAX_NAME: Final = 128
_DELETE: Final = b"DELETE"


class Record(Protocol):
    """What the bridge reads of a `confluent_kafka.Message`."""

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
class Element:
    """One record of a request."""

    record: Record
    offset: int
    line: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one record, in the gateway's or the decoder's words; never a value."""

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
    if rule.source_format == "debezium":
        return (
            value
            if key is None and value is not None
            else b'{"key":%b,"value":%b}' % (key or b"null", value or b"null")
        )
    if value is None:
        return _delete_of(key) if rule.source_format == "rows" and rule.tombstones == "delete" else None
    if rule.source_format == "replicate" and key is not None and (_DELETE in value or "layout" in rule.parameters):
        return b'{"key":%b,"value":%b}' % (key, value)
    return value


def body_of(elements: Sequence[Element]) -> bytes:
    """Return the NDJSON body."""
    return b"\n".join([element.line for element in elements])


def parameters_of(rule: TopicRule, topic: str, partition: int, table: str | None) -> Mapping[str, str]:
    """Return the query parameters of a request. `table` is None if the messages name it."""
    given = dict(rule.parameters)
    if table is not None:
        given["table"] = table
    if rule.on_reject == "dead_letter":
        given["on_reject"] = "dead_letter"
    if rule.source_format == "replicate":
        given["partition"] = f"{topic}/{partition}"[-_MAX_NAME:]
    return given


def malformed(elements: Iterable[Element]) -> dict[int, Fault]:
    """Return the faults of elements that are not one JSON value each.

    The gateway accepts several values one after the other, so only this tells which record its index is in.
    """
    faults: dict[int, Fault] = {}
    for index, element in enumerate(elements):
        try:
            msgspec.json.decode(element.line, type=msgspec.Raw)
        except (msgspec.DecodeError, ValueError, RecursionError):
            faults[index] = Fault(
                element.offset,
                "malformed_json",
                "the record's value is not JSON",
                "Correct the producer of the topic, or set `value` to the encoding of its records.",
                can_be_skipped=True,
            )
    return faults


def _needs_key(rule: TopicRule, value: bytes | None) -> bool:
    """Tell whether a record's key is decoded. A key that no table needs may be in any encoding.

    A Replicate DELETE may have no image; then only the key names the row. Its operation is text in JSON alone.
    """
    if rule.source_format == "replicate":
        is_text = rule.value == "json" and "layout" not in rule.parameters
        return value is not None and (not is_text or _DELETE in value)
    return rule.source_format == "debezium" or (rule.source_format == "rows" and value is None)


def _delete_of(key: bytes | None) -> bytes:
    if key is None or not key.startswith(b"{") or key == b"{}":
        raise RecordRejected(
            "the record is a tombstone, and its key is not a JSON object with the key columns",
            "Set `tombstones: ignore` for the topic, or let its producer write the key as an object.",
        )
    return b'{"__op__":"delete",' + key[1:]
