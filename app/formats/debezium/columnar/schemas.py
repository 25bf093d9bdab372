"""Cuts the Connect schemas out of a body of events.

JsonConverter repeats the schema in each event, and it takes five times the bytes of the payload. The same schema is
written with the same bytes, so it is read once; finding it again compares bytes, without decoding them.

Invariant: the content means what the body means with the schema in each place of its number. A schema that follows
`"schema":` begins with a brace, so in valid JSON that is a key and not the end of a text; and a JSON value in place of
another leaves JSON valid or not. A body that has such a number itself is declined, so each one that an event names
was put in place of a schema; and if events name as many as were put, each schema was that of an event.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from app.formats.debezium.connect_schema import ConnectField, WrongSchema, read_schema
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.nested_values import MAX_NESTED_VALUES, count_brackets
from app.formats.json.quote_accounting import is_all_read
from app.formats.json.texts import has_suspicious_escape
from app.formats.not_columnar import NotColumnar

_SCHEMA: Final = b'"schema":'
_PAYLOAD: Final = b'"payload":'
_BLANKS: Final = b" \t\r\n"
_NUMBER: Final = b"7" * 17
"""What numbers of schemas begin with, two digits before their end: 0.15 µs to count in an event, other digits 0.28."""

_FIRST: Final = int(_NUMBER + b"00")
_MAX_SCHEMAS: Final = 64
"""Schemas of one body; each is looked for at each place where the one before it is not."""

_MAX_SCHEMA_BYTES: Final = 2**16
_MAX_CACHED: Final = 256


class CutBody(NamedTuple):
    """A body with the number of a schema in the place of each schema."""

    content: bytes
    schemas: Sequence[ConnectField]
    cuts: int
    """How many schemas were replaced."""

    def schema_of(self, number: int | None) -> ConnectField | None:
        """Return the schema that was replaced by a number, None for None. Raises NotColumnar for another number."""
        if number is None:
            return None
        if not _FIRST <= number < _FIRST + len(self.schemas):
            raise NotColumnar
        return self.schemas[number - _FIRST]

    def count(self, numbers: Sequence[int | None]) -> int:
        """Return how many schemas were replaced by these numbers. Raises NotColumnar for another number."""
        for number in {*numbers}:
            self.schema_of(number)
        return len(numbers) - numbers.count(None)


class _Known(NamedTuple):
    """A schema of a body, as it is written and as it is replaced."""

    written: bytes
    number: bytes
    brackets: int
    size: int


_NONE: Final = _Known(b"none", b"", 0, 0)


def cut_schemas(body: bytes) -> CutBody:
    """Return a body without its schemas. Raises NotColumnar for one that JsonConverter does not write."""
    schemas = _Schemas(body)
    parts: list[bytes] = []
    schema = _NONE
    copied = brackets = 0
    key = _key_of(body)
    place = body.find(key)
    while place >= 0:
        start = place + len(key) - 1
        if not body.startswith(schema.written, start):
            schema = schemas.at(start)
        parts += (body[copied:start], schema.number)
        brackets += schema.brackets
        copied = start + schema.size
        place = body.find(key, copied)
    parts.append(body[copied:])
    content, cuts = b"".join(parts), len(parts) // 2
    if cuts and content.count(_NUMBER) != cuts:
        raise NotColumnar
    if brackets + len(content) > MAX_NESTED_VALUES and brackets + count_brackets(content) > MAX_NESTED_VALUES:
        raise NotColumnar
    return CutBody(content, schemas.fields, cuts)


def _key_of(body: bytes) -> bytes:
    """Return the key of a schema and the brace after it as the first event has them; a long text is found faster."""
    start = body.find(_SCHEMA) + len(_SCHEMA)
    return _SCHEMA + (b" {" if body.startswith(b" ", start) else b"{")


class _Schemas:
    """The schemas of one body, in order of first appearance."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._known: list[_Known] = []
        self.fields: list[ConnectField] = []

    def at(self, start: int) -> _Known:
        """Return the schema that is written here; in an event, the payload follows it. Raises NotColumnar."""
        for schema in self._known:
            if self._body.startswith(schema.written, start):
                return schema
        end = self._body.find(_PAYLOAD, start, start + _MAX_SCHEMA_BYTES)
        written = self._body[start:end].rstrip(_BLANKS)
        if end < 0 or not written.endswith(b",") or len(self._known) == _MAX_SCHEMAS:
            raise NotColumnar
        written = written[:-1].rstrip(_BLANKS)
        self.fields.append(_checked_schema(written))
        schema = _Known(written, b"%d" % (_FIRST + len(self._known)), count_brackets(written), len(written))
        self._known.append(schema)
        return schema


@lru_cache(_MAX_CACHED)
def _checked_schema(schema: bytes) -> ConnectField:
    """Return a schema that hides nothing. Raises NotColumnar."""
    try:
        decoded: Any = msgspec.json.decode(schema)
        if is_all_read(schema, [decoded]) and not has_suspicious_escape(schema):
            return read_schema(decoded)
    except (WrongSchema, *DECODE_ERRORS):
        pass
    raise NotColumnar
