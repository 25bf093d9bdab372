"""Rebuild the Kafka Connect schema that an Avro schema was written from, as JsonConverter writes it.

The gateway registers and evolves tables from a Connect schema, so a table is the same whether a connector writes JSON
or Avro. A converter keeps what Avro has no word for in `connect.*` properties; without them (`connect.meta.data=false`,
or Avro that no connector wrote) logical types give the names. Sources: Confluent AvroConverter (AvroData), Kafka
JsonConverter.
"""

from typing import Any, Final

from app.bridge.kafka.avro.semantics import CONNECT_NAMES, meaning_of, scale_of
from app.bridge.kafka.avro.tree import Node, unsupported

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


def connect_schema(node: Node) -> dict[str, Any]:
    """Return the schema as the member `schema` of JSON. Raises RecordRejected for a union of several types."""
    branches = node.not_null
    if len(branches) != 1:
        raise unsupported(
            "has a union of several types, which no column holds", "Land the topic with `format: rows` instead."
        )
    [inner] = branches
    written: dict[str, Any] = {"type": _type(inner), "optional": node.optional}
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
        if "precision" in properties:
            parameters.setdefault("connect.decimal.precision", str(properties["precision"]))
    found = {
        "name": name,
        "version": properties.get("connect.version", 1 if meaning and name else None),
        "parameters": parameters or None,
        "default": properties.get("connect.default"),
    }
    return {key: value for key, value in found.items() if value is not None}
