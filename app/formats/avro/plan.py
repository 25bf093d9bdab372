"""Decode a record of one schema into JSON.

fastavro decodes and msgspec encodes, both in C. Between them Python touches only the values that neither writes as the
gateway reads them: decimals, bytes, floats, nanoseconds. Records of other columns cost nothing there. A record with a
day beyond the calendar fails in fastavro and is read again with functions of `values`, which keep such a number.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from io import BytesIO
from secrets import token_bytes
from typing import Any, Final, NoReturn

import fastavro
import msgspec
from fastavro.schema import SchemaParseException, parse_schema

from app.formats.avro import values
from app.formats.avro.tree import Node, map_entry, meaning_of, scale_of, unsupported
from app.formats.avro.values import Convert
from mirrorgate.errors import Code, RejectedInput

ENCODE: Final = msgspec.json.Encoder().encode

_TYPES: Final[Mapping[str, type]] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "fixed": bytes,
    "string": str,
    "enum": str,
    "record": dict,
    "map": dict,
    "array": list,
}
_MASKS: Final = frozenset({"columnMask", "changeMask"})
"""Bytes of a Replicate message that are not a value of a column."""
_UNREADABLE: Final = (EOFError, IndexError, KeyError, OverflowError, TypeError, ValueError, MemoryError)
"""Exceptions of fastavro for bytes that are not of the schema."""

_MAX_TOGETHER: Final = 20_000
"""Values that are decoded by one call; they are in memory together."""
_BETWEEN: Final = token_bytes(16)
"""Separates records that are decoded together. It is random, so no sender can write it into a record."""


class Style(StrEnum):
    """The style of written values."""

    TEXT = "text"
    r"""As rows, Arcion and Replicate have them: decimals and times as text, bytes as hexadecimal digits after `\x`."""
    CONNECT = "connect"
    """As Kafka Connect's JsonConverter writes them: numbers remain numbers, decimals and bytes are base64."""


class DecodePlan:
    """The decoder of records of one schema; safe in threads."""

    def __init__(self, schema: Node, style: Style, *, max_values: int | None = None) -> None:
        """Build the plan. Raises RejectedInput `malformed_avro` for a schema that has no one reading.

        With `max_values`, a record with lists or maps that has more values is rejected before it is decoded: a byte can
        become many objects. Other records have at most as many values as their schema has types.
        """
        self._fast, self._fast_convert = _built(schema, style, native=style is Style.TEXT)
        self._exact, self._exact_convert = _built(schema, style, native=False)
        end = {"type": "fixed", "name": "end", "size": len(_BETWEEN)}
        fields = [{"name": "record", "type": self._fast}, {"name": "end", "type": end}]
        self._items = parse_schema({"type": "array", "items": {"type": "record", "name": "item", "fields": fields}})
        self._at_a_time = max(1, _MAX_TOGETHER // _count_types(schema))
        self._key = (str(self._fast), str(self._exact), style)
        self._max_values = max_values
        self._counted = schema if max_values is not None and _has_lists(schema) else None

    def __eq__(self, other: object) -> bool:
        """Return whether both read the same bytes into the same values, whatever their types are called."""
        return isinstance(other, DecodePlan) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def json(self, payload: bytes) -> bytes:
        """Return the JSON of a record. Raises RejectedInput `malformed_avro` if the bytes are not of the schema."""
        if self._counted is not None and self._max_values is not None:
            _ValueCount(payload, self._max_values).skip(self._counted, 0)
        try:
            return ENCODE(_converted(_read(payload, self._fast), self._fast_convert))
        except _UNREADABLE:
            pass
        try:
            return ENCODE(_converted(_read(payload, self._exact), self._exact_convert))
        except _UNREADABLE as error:
            detail = f"the bytes are not of the Avro schema that they name ({type(error).__name__})"
            raise RejectedInput(Code.MALFORMED_AVRO, detail) from None

    def json_in_parts(self, payloads: Sequence[bytes]) -> Iterator[list[bytes]]:
        """Yield the JSON of many records, some at a time. Raises RejectedInput `malformed_avro`.

        Records are decoded by one call, as the items of an array, because a call costs as much as a short record. A
        secret between them tells that each ended where its bytes do.
        """
        for start in range(0, len(payloads), self._at_a_time):
            part = payloads[start : start + self._at_a_time]
            yield self._json_together(part) or [*map(self.json, part)]

    def _json_together(self, payloads: Sequence[bytes]) -> list[bytes] | None:
        """Return the JSON of records that are decoded together, None if one of them needs to be read alone."""
        if self._counted is not None:
            return None
        content = b"%b%b%b\0" % (_varint(len(payloads)), _BETWEEN.join(payloads), _BETWEEN)
        try:
            items = _read(content, self._items)
            if {item["end"] for item in items} != {_BETWEEN}:
                return None
            convert = self._fast_convert
            return [ENCODE(item["record"] if convert is None else convert(item["record"])) for item in items]
        except _UNREADABLE:
            return None


def _varint(number: int) -> bytes:
    """Return a number as Avro writes it."""
    left, written = 2 * number, bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*written, left])


def _read(payload: bytes, schema: Any) -> Any:
    stream = BytesIO(payload)
    record = fastavro.schemaless_reader(stream, schema, None)
    if stream.tell() != len(payload):
        raise ValueError("bytes after the record")
    return record


def _converted(record: Any, convert: Convert | None) -> Any:
    return record if convert is None or record is None else convert(record)


def _built(schema: Node, style: Style, *, native: bool) -> tuple[Any, Convert | None]:
    builder = _Builder(style, native)
    try:
        return parse_schema(builder.schema(schema)), builder.convert(schema)
    except (SchemaParseException, ValueError, TypeError) as error:
        raise unsupported(f"cannot be read ({type(error).__name__})") from None


def _has_lists(node: Node) -> bool:
    inner = (*node.children, *(field.type for field in node.fields))
    return node.kind in ("array", "map") or any(map(_has_lists, inner))


def _count_types(node: Node) -> int:
    return 1 + sum(map(_count_types, node.children)) + sum(_count_types(field.type) for field in node.fields)


_FIXED_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class _ValueCount:
    """Walk over a record that counts its values without making them."""

    def __init__(self, payload: bytes, max_values: int) -> None:
        self._payload = payload
        self._left = max_values

    def skip(self, node: Node, at: int) -> int:
        """Return the position after a value. Raises RejectedInput `malformed_avro` for too many, or a wrong one."""
        self._left -= 1
        if self._left < 0:
            raise RejectedInput(Code.MALFORMED_AVRO, "the record has more values in lists and maps than are read")
        match node.kind:
            case "record":
                for field in node.fields:
                    at = self.skip(field.type, at)
                return at
            case "union":
                branch, at = self._long(at)
                return self.skip(node.children[branch], at) if 0 <= branch < len(node.children) else self._wrong()
            case "array" | "map":
                return self._blocks(node, at)
            case "string" | "bytes":
                return self._text(at)
            case "int" | "long" | "enum":
                return self._long(at)[1]
        return self._within(at + (_FIXED_BYTES.get(node.kind) or node.properties.get("size") or 0))

    def _blocks(self, node: Node, at: int) -> int:
        count, at = self._long(at)
        while count:
            if count < 0:
                _, at = self._long(at)
            for _ in range(abs(count)):
                at = self.skip(node.children[0], self._text(at) if node.kind == "map" else at)
            count, at = self._long(at)
        return at

    def _text(self, at: int) -> int:
        length, at = self._long(at)
        return self._within(at + length) if length >= 0 else self._wrong()

    def _long(self, at: int) -> tuple[int, int]:
        value = 0
        for place in range(10):
            byte = self._payload[self._within(at + 1) - 1]
            at += 1
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), at
        return self._wrong(), at

    def _within(self, at: int) -> int:
        return at if at <= len(self._payload) else self._wrong()

    def _wrong(self) -> NoReturn:
        raise RejectedInput(Code.MALFORMED_AVRO, "the bytes are not of the Avro schema that they name")


class _Builder:
    """Builder of the schema that fastavro reads, with our names, and of the function for what it gives."""

    def __init__(self, style: Style, native: bool) -> None:
        self._style = style
        self._native = native
        self._names = 0

    def schema(self, node: Node) -> Any:
        match node.kind:
            case "union":
                return [self.schema(branch) for branch in node.children]
            case "record":
                fields = [{"name": field.name, "type": self.schema(field.type)} for field in node.fields]
                return {"type": "record", "name": self._name(), "fields": fields}
            case "array":
                return {"type": "array", "items": self.schema(node.children[0])}
            case "map":
                return {"type": "map", "values": self.schema(node.children[0])}
            case "enum":
                return {"type": "enum", "name": self._name(), "symbols": node.properties.get("symbols")}
            case "fixed":
                return {"type": "fixed", "name": self._name(), "size": node.properties.get("size")}
        meaning = meaning_of(node)
        if self._native and meaning in values.NATIVE:
            return {"type": node.kind, "logicalType": meaning}
        return node.kind

    def convert(self, node: Node) -> Convert | None:
        match node.kind:
            case "union":
                return self._of_union(node)
            case "record":
                return _of_record({field.name: self._of_field(field.name, field.type) for field in node.fields})
            case "array":
                entry = map_entry(node) if self._style is Style.CONNECT else None
                if entry is not None:
                    return _of_entries(self.convert(entry[0]), self.convert(entry[1]))
                return _of_list(self.convert(node.children[0]))
            case "map":
                return _of_map(self.convert(node.children[0]))
            case "float" | "double":
                return values.finite
        return self._of_scalar(node) if self._style is Style.TEXT else None

    def _of_field(self, name: str, node: Node) -> Convert | None:
        convert = self.convert(node)
        return values.digits if convert is values.hexadecimal and name in _MASKS else convert

    def _of_scalar(self, node: Node) -> Convert | None:
        meaning = meaning_of(node)
        if meaning == "decimal":
            return values.decimal_of(scale_of(node.properties))
        if meaning == "uuid":
            return values.uuid_text
        if meaning in values.TEMPORAL:
            return None if self._native and meaning in values.NATIVE else values.temporal(meaning)
        return values.hexadecimal if node.kind in ("bytes", "fixed") else None

    def _of_union(self, node: Node) -> Convert | None:
        branches = node.not_null
        if len(branches) < 2:
            return self.convert(branches[0]) if branches else None
        by_type: dict[type, Convert | None] = {}
        for branch in branches:
            convert, kind = self.convert(branch), _TYPES[branch.kind]
            if convert is not None and kind in by_type:
                raise unsupported("has a union of types that look the same once they are decoded")
            by_type[kind] = convert
        if not any(by_type.values()):
            return None

        def convert_one(value: Any) -> Any:
            convert = by_type.get(type(value))
            return value if convert is None else convert(value)

        return convert_one

    def _name(self) -> str:
        self._names += 1
        return f"t{self._names}"


def _of_record(fields: Mapping[str, Convert | None]) -> Convert | None:
    converted = [(name, convert) for name, convert in fields.items() if convert is not None]
    if not converted:
        return None

    def convert_fields(record: dict[str, Any]) -> dict[str, Any]:
        for name, convert in converted:
            value = record[name]
            if value is not None:
                record[name] = convert(value)
        return record

    return convert_fields


def _of_list(convert: Convert | None) -> Convert | None:
    return convert and (lambda items: [None if item is None else convert(item) for item in items])


def _of_entries(key: Convert | None, value: Convert | None) -> Convert:
    """Return the function that gives entries as JsonConverter writes a map without string keys: pairs in a list."""

    def convert_entries(items: list[dict[str, Any]]) -> list[list[Any]]:
        return [[_converted(item["key"], key), _converted(item["value"], value)] for item in items]

    return convert_entries


def _of_map(convert: Convert | None) -> Convert | None:
    return convert and (lambda items: {key: None if item is None else convert(item) for key, item in items.items()})
