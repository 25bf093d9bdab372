"""Turn the key and value of a Kafka record into JSON bytes that a request's body can hold.

`JsonDecoder` passes JSON through unparsed, because the gateway parses it anyway: parsing twice would halve the rate.
Decoders of other encodings implement `RecordDecoder`. Invariant: a decoder never changes a value; what it cannot read
it rejects with a detail and a remedy, without a string of the record.
"""

from typing import Protocol

import msgspec


class RecordRejected(Exception):
    """A record that cannot become JSON. The bridge stops its partition there, or puts the record aside."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy


class RecordDecoder(Protocol):
    """Decoder of the records in the topics of one rule. Threads of several partitions share it."""

    def decode(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return key and value as JSON bytes; None for a record without a key or value (a tombstone).

        Raises RecordRejected for a record that cannot be read, and TemporarilyUnavailable `source_unavailable` while a
        schema registry does not answer: the partition then waits and decodes the record again.
        """


class JsonDecoder:
    """Values are JSON, passed through. Keys as `key` says: `auto`, `json`, `text` or `none`."""

    def __init__(self, key: str = "auto") -> None:
        self._key = key

    def decode(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return the record with its key as JSON. `auto` reads a key that is not JSON as text."""
        if value is not None:
            value = on_one_line(value)
        return (None if key is None or self._key == "none" else self._json_key(key)), value

    def _json_key(self, key: bytes) -> bytes:
        if self._key != "text":
            try:
                msgspec.json.decode(key, type=msgspec.Raw)
                return on_one_line(key)
            except msgspec.DecodeError:
                if self._key == "json":
                    raise RecordRejected(
                        "the record's key is not JSON", "Set `key: text` or `key: none` for the topic."
                    ) from None
        try:
            return msgspec.json.encode(key.decode())
        except UnicodeDecodeError:
            raise RecordRejected(
                "the record's key is neither JSON nor UTF-8 text",
                "Set `key: none` for the topic, or `key: avro` if a schema registry describes its keys.",
            ) from None


def on_one_line(value: bytes) -> bytes:
    """Return JSON without line breaks between its tokens; text that is not JSON is left to the gateway to reject."""
    if b"\n" not in value and b"\r" not in value:
        return value
    try:
        return msgspec.json.format(value, indent=-1)
    except msgspec.DecodeError:
        return value
