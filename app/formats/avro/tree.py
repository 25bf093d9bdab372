"""Read an Avro schema into a tree of nodes, and rebuild the Kafka Connect schema that it was written from.

`read_schema` writes out every named type where it is used. A Connect converter defines `Value` once and names it again
for the other image, and a registry may give parts of a schema as references. Two builders walk the result, so names are
resolved once, here. Replicate puts names of tasks and tables into namespaces, with characters that Avro's grammar does
not have, so names are not checked against it. Invariant: the tree is finite and bounded; a type that contains itself is
rejected. Source: Apache Avro 1.12 specification, "Schema Declaration" and "Names".

`meaning_of` reads what values mean from their logical type, or from the semantic type that a Connect converter
recorded: Avro's logical types and the names of Kafka Connect and Debezium say the same things in two ways, and a
converter writes one, the other or both. `connect_schema` rebuilds a Connect schema as JsonConverter writes it, because
the gateway registers and evolves tables from a Connect schema; so a table is the same whether a connector writes JSON
or Avro. Without `connect.*` properties (`connect.meta.data=false`, or Avro that no connector wrote) logical types give
the names. Sources: Apache Avro 1.12, "Logical Types"; Kafka `org.apache.kafka.connect.data` and JsonConverter;
Debezium, "Temporal types"; Confluent AvroConverter (AvroData).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from mirrorgate.errors import Code, RejectedInput

MAX_NODES: Final = 20_000
"""Types in one schema, after named types are written out: a table has at most a few thousand columns."""
MAX_DEPTH: Final = 64
MAX_FIXED_BYTES: Final = 2**24

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


@dataclass(frozen=True, slots=True)
class Node:
    """A type. `kind` is Avro's name of it, or `union`; `properties` is the JSON object that declares it."""

    kind: str
    name: str = ""
    """The full name of a record, enum or fixed type."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    fields: tuple["Field", ...] = ()
    children: tuple["Node", ...] = ()
    """The branches of a union, the items of an array, the values of a map."""

    @property
    def not_null(self) -> tuple["Node", ...]:
        """Return the branches of a union that are not null; for another type, the type alone."""
        if self.kind != "union":
            return (self,)
        return tuple(branch for branch in self.children if branch.kind != "null")

    @property
    def takes_no_bytes(self) -> bool:
        """Return whether every value is written as nothing."""
        if self.kind == "record":
            return all(field.type.takes_no_bytes for field in self.fields)
        return self.kind == "null" or (self.kind == "fixed" and self.properties.get("size") == 0)

    @property
    def optional(self) -> bool:
        """Return whether a value may be null."""
        return self.kind == "null" or any(branch.kind == "null" for branch in self.children if self.kind == "union")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record; `properties` is the JSON object that declares it, with `default` and `doc`."""

    name: str
    type: Node
    properties: Mapping[str, Any]


def read_schema(text: str, references: Iterable[str] = ()) -> Node:
    """Return the tree of a schema; `references` are the schemas whose names it uses, each after those that it uses.

    Raises RejectedInput `malformed_avro` for a schema that is not Avro, contains itself, or is too large.
    """
    reader = _Reader()
    for reference in references:
        reader.read(_document(reference), "", 0)
    return reader.read(_document(text), "", 0)


def unsupported(detail: str, remedy: str = "Register a schema of this table's columns.") -> RejectedInput:
    """Return the error of a schema that cannot be used."""
    return RejectedInput(Code.MALFORMED_AVRO, f"the Avro schema {detail}", remedy=remedy)


def _document(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text  # the registry accepts a primitive type without quotes


class _Reader:
    """Reader of one schema; remembers the named types that were declared."""

    def __init__(self) -> None:
        self._declared: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._open: set[str] = set()
        self._nodes = 0

    def read(self, schema: Any, namespace: str, depth: int) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise unsupported(f"has more than {MAX_NODES:,} types, or nests deeper than {MAX_DEPTH}")
        match schema:
            case str():
                return self._by_name(schema, namespace, depth)
            case list():
                branches = tuple(self.read(branch, namespace, depth + 1) for branch in schema)
                return Node("union", children=branches)
            case {"type": str() as kind}:
                return self._declared_type(kind, schema, namespace, depth)
            case {"type": inner}:
                return self.read(inner, namespace, depth + 1)
        raise unsupported("is not written as the specification asks")

    def _by_name(self, name: str, namespace: str, depth: int) -> Node:
        if name in _PRIMITIVES:
            return Node(name)
        full_name = name if "." in name or not namespace else f"{namespace}.{name}"
        for candidate in (full_name, name):
            if candidate in self._declared:
                schema, its_namespace = self._declared[candidate]
                return self._named(str(schema["type"]), candidate, schema, its_namespace, depth)
        raise unsupported("names a type that it does not declare", "Register the type as a reference of the schema.")

    def _declared_type(self, kind: str, schema: Mapping[str, Any], namespace: str, depth: int) -> Node:
        if kind in _NAMED:
            name = schema.get("name")
            if not isinstance(name, str) or not name:
                raise unsupported(f"has a type {kind} without a name")
            if "." in name:
                namespace, full_name = name.rpartition(".")[0], name
            else:
                namespace = schema.get("namespace") or namespace
                full_name = f"{namespace}.{name}" if namespace else name
            self._declared[full_name] = (schema, namespace)
            return self._named(kind, full_name, schema, namespace, depth)
        if kind == "array":
            return Node(kind, "", schema, children=(self._item(schema.get("items"), namespace, depth),))
        if kind == "map":
            return Node(kind, "", schema, children=(self.read(schema.get("values"), namespace, depth + 1),))
        if kind in _PRIMITIVES:
            return Node(kind, "", schema)
        return self._by_name(kind, namespace, depth)

    def _item(self, items: Any, namespace: str, depth: int) -> Node:
        """Read the type of items; one that takes no bytes would let a short message become any number of values."""
        item = self.read(items, namespace, depth + 1)
        if item.takes_no_bytes:
            raise unsupported("has an array whose items take no bytes")
        return item

    def _named(self, kind: str, name: str, schema: Mapping[str, Any], namespace: str, depth: int) -> Node:
        if kind not in ("record", "error"):
            _check_properties(kind, schema)
            return Node(kind, name, schema)
        if name in self._open:
            raise unsupported("has a record that contains itself", "Land such data as text in a `json` column.")
        self._open.add(name)
        try:
            declared = schema.get("fields", [])
            if not isinstance(declared, list):
                raise unsupported("has a record whose fields are not a list")
            fields = tuple(self._field(one, namespace, depth) for one in declared)
        finally:
            self._open.discard(name)
        if len({one.name for one in fields}) < len(fields):
            raise unsupported("has a record with two fields of one name")
        return Node("record", name, schema, fields)

    def _field(self, declared: Any, namespace: str, depth: int) -> Field:
        match declared:
            case {"name": str() as name, "type": written}:
                return Field(name, self.read(written, namespace, depth + 1), declared)
        raise unsupported("has a field without a name or a type")


def _check_properties(kind: str, schema: Mapping[str, Any]) -> None:
    """Raise RejectedInput `malformed_avro` for an enum without symbols, or a fixed type without a size."""
    if kind == "enum":
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not symbols or not all(isinstance(one, str) for one in symbols):
            raise unsupported("has an enum whose symbols are not a list of strings")
    else:
        size = schema.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_FIXED_BYTES:
            raise unsupported("has a fixed type without a size that a value can have")


MAX_SCALE: Final = 6_144

CONNECT_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"

_BY_CONNECT_NAME: Final = {
    CONNECT_DECIMAL: "decimal",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "time-millis",
    "io.debezium.time.MicroTime": "time-micros",
    "io.debezium.time.NanoTime": "time-nanos",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
    "io.debezium.time.NanoTimestamp": "local-timestamp-nanos",
}

CONNECT_NAMES: Final = {
    "decimal": CONNECT_DECIMAL,
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
}
"""The Connect name of a logical type that has none, as when the converter leaves its metadata out."""

_CARRIERS: Final = {
    "decimal": ("bytes", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
    "uuid": ("fixed",),
}
"""The types that may carry a logical type; all others are longs. Another combination means nothing, as Avro has it."""


def meaning_of(node: Node) -> str | None:
    """Return the logical type of a node's values, None if they are what they are."""
    properties = node.properties
    meaning = _BY_CONNECT_NAME.get(str(properties.get("connect.name"))) or properties.get("logicalType")
    if not isinstance(meaning, str) or node.kind not in _CARRIERS.get(meaning, ("long",)):
        return None
    if meaning == "decimal" and not 0 <= scale_of(properties) <= MAX_SCALE:
        return None
    return meaning


def scale_of(properties: Mapping[str, object]) -> int:
    """Return the scale of a decimal: Avro's property, or the parameter of Connect; -1 if neither is a number."""
    parameters = properties.get("connect.parameters")
    written = properties.get("scale", parameters.get("scale", 0) if isinstance(parameters, dict) else 0)
    try:
        return int(str(written))
    except ValueError:
        return -1


_UNKNOWN_PRECISION: Final = 64
"""Confluent's converter writes this for a Decimal without a precision, because Avro requires one."""

_MAP_ENTRY: Final = "io.confluent.connect.avro.MapEntry"

_TYPES: Final = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "fixed": "bytes",
    "string": "string",
    "enum": "string",
    "array": "array",
    "map": "map",
    "record": "struct",
}


def map_entry(node: Node) -> tuple[Node, Node] | None:
    """Return the key and the value of the entries that a Connect converter writes for a map without string keys."""
    if node.kind != "array" or node.children[0].kind != "record":
        return None
    [item] = node.children
    is_entry = item.name == _MAP_ENTRY or item.properties.get("connect.internal.type") == "MapEntry"
    types = {field.name: field.type for field in item.fields}
    return (types["key"], types["value"]) if is_entry and types.keys() == {"key", "value"} else None


def connect_schema(node: Node) -> dict[str, Any]:
    """Return the schema as the member `schema` of JSON.

    Raises RejectedInput `malformed_avro` for a union of several types.
    """
    branches = node.not_null
    if len(branches) != 1:
        raise unsupported(
            "has a union of several types, which no column holds", "Land the topic with `format: rows` instead."
        )
    [inner] = branches
    written: dict[str, Any] = {"type": _type(inner), "optional": node.optional}
    if (entry := map_entry(inner)) is not None:
        key, value = entry
        return (
            written | {"type": "map", "keys": connect_schema(key), "values": connect_schema(value)} | _semantics(inner)
        )
    match inner.kind:
        case "record":
            written["fields"] = [connect_schema(field.type) | {"field": field.name} for field in inner.fields]
        case "array":
            written["items"] = connect_schema(inner.children[0])
        case "map":
            written["keys"] = {"type": "string", "optional": False}
            written["values"] = connect_schema(inner.children[0])
    return written | _semantics(inner)


def _type(node: Node) -> str:
    """Return the type; Avro has no 8-bit and 16-bit integers, so the converter notes them."""
    noted = node.properties.get("connect.type")
    return noted if node.kind == "int" and noted in ("int8", "int16") else _TYPES[node.kind]


def _semantics(node: Node) -> dict[str, Any]:
    properties, meaning = node.properties, meaning_of(node)
    name = properties.get("connect.name") or CONNECT_NAMES.get(meaning or "")
    if name is None and node.kind == "record":
        name = node.name
    parameters = dict(properties.get("connect.parameters") or {})
    if meaning == "decimal":
        parameters["scale"] = str(scale_of(properties))
        if properties.get("precision", _UNKNOWN_PRECISION) != _UNKNOWN_PRECISION:
            parameters.setdefault("connect.decimal.precision", str(properties["precision"]))
    found = {
        "name": name,
        "version": properties.get("connect.version", 1 if meaning and name else None),
        "parameters": parameters or None,
        "default": properties.get("connect.default"),
    }
    return {key: value for key, value in found.items() if value is not None}
