"""Connect schemas: the JSON beside a payload -> fields, and the column type of each field.

A field has a type of Connect and often the name of a semantic type, which says what its values mean. Sources: Kafka
Connect's JsonConverter; "Data type mappings" in Debezium's descriptions of its connectors; docs/reference/types.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec

from app.domain.model.table_schema import MAX_DECIMAL_DIGITS, ColumnType, TypeName
from app.domain.model.written_values import as_json

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"
_JSON: Final = "io.debezium.data.Json"
_CONTAINERS: Final = frozenset({"array", "map", "struct"})
BY_KIND: Final = {
    "boolean": TypeName.BOOLEAN,
    "int8": TypeName.INT16,
    "int16": TypeName.INT16,
    "int32": TypeName.INT32,
    "int64": TypeName.INT64,
    "float": TypeName.FLOAT32,
    "float32": TypeName.FLOAT32,
    "double": TypeName.FLOAT64,
    "float64": TypeName.FLOAT64,
    "string": TypeName.STRING,
    "bytes": TypeName.BINARY,
    "array": TypeName.JSON,
    "map": TypeName.JSON,
    "struct": TypeName.JSON,
}
BY_MEANING: Final = {
    "io.debezium.time.Date": TypeName.DATE,
    "io.debezium.time.IsoDate": TypeName.DATE,
    "org.apache.kafka.connect.data.Date": TypeName.DATE,
    "io.debezium.time.Timestamp": TypeName.TIMESTAMP,
    "io.debezium.time.MicroTimestamp": TypeName.TIMESTAMP,
    "io.debezium.time.NanoTimestamp": TypeName.TIMESTAMP,
    "io.debezium.time.IsoTimestamp": TypeName.TIMESTAMP,
    "io.debezium.time.ZonedTimestamp": TypeName.TIMESTAMP,
    "org.apache.kafka.connect.data.Timestamp": TypeName.TIMESTAMP,
    "io.debezium.time.Time": TypeName.STRING,
    "io.debezium.time.MicroTime": TypeName.STRING,
    "io.debezium.time.NanoTime": TypeName.STRING,
    "io.debezium.time.IsoTime": TypeName.STRING,
    "io.debezium.time.ZonedTime": TypeName.STRING,
    "org.apache.kafka.connect.data.Time": TypeName.STRING,
    "io.debezium.time.StructuredDate": TypeName.DATE,
    "io.debezium.time.StructuredTimestamp": TypeName.TIMESTAMP,
    "io.debezium.time.StructuredZonedTimestamp": TypeName.TIMESTAMP,
    "io.debezium.time.StructuredTime": TypeName.STRING,
    "io.debezium.time.StructuredZonedTime": TypeName.STRING,
    VARIABLE_DECIMAL: TypeName.STRING,
    _JSON: TypeName.JSON,
}
_NUMERIC_SOURCE: Final = re.compile(r"(DECIMAL|NUMERIC|NUMBER|DEC|FIXED)\b.*", re.IGNORECASE | re.DOTALL)
_UNSIGNED_SOURCE: Final = re.compile(r"(?:BIGINT|INT8|SERIAL)\b.*\bUNSIGNED|SERIAL\b", re.IGNORECASE | re.DOTALL)
_SOURCE_COLUMN: Final = "__debezium.source.column."
MAX_SCALE: Final = 1_000
"""The largest scale of a numeric of Postgres, whose connector reads eleven bits of a scale without their sign."""
_SCALES: Final = 2**11
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_json)
_MAX_CACHED_BYTES: Final = 2**16


class WrongSchema(ValueError):
    """A schema that Connect does not write; the text says why, without a value of the body."""


@dataclass(frozen=True, eq=False)
class ConnectField:
    """One field of a Connect schema, or the schema itself."""

    name: str
    kind: str
    """The type of Connect, such as `int32` or `struct`."""
    meaning: str = ""
    """The name of the semantic type, or of the schema of a struct."""
    optional: bool = False
    has_default: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: tuple["ConnectField", ...] = ()
    """Of a struct."""
    items: "ConnectField | None" = None
    """Of an array, and the values of a map."""

    @cached_property
    def by_name(self) -> Mapping[str, "ConnectField"]:
        """The fields of a struct by name."""
        return {one.name: one for one in self.fields}

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the fields of a struct."""
        return frozenset(self.by_name)

    @cached_property
    def column_type(self) -> ColumnType | None:
        """The type of a column for the values of this field; None for a decimal that no column type holds."""
        if self.meaning == DECIMAL:
            digits = self.parameters.get("connect.decimal.precision") or self.parameters.get(f"{_SOURCE_COLUMN}length")
            return self._decimal(digits or str(MAX_DECIMAL_DIGITS), self.parameters.get("scale") or "0")
        return self._refined or ColumnType(BY_MEANING.get(self.meaning) or BY_KIND[self.kind])

    @cached_property
    def plain_type(self) -> ColumnType:
        """The type of a column for the values as they are written, whatever they mean."""
        return ColumnType(BY_KIND[self.kind])

    @property
    def scale(self) -> int:
        """The digits after the point of a Decimal. Raises WrongSchema."""
        return _number(self.parameters.get("scale", "0"))

    @cached_property
    def is_unsigned(self) -> bool:
        """True for a `BIGINT UNSIGNED` of MySQL in 64 bits, where a number of 2^63 or more becomes negative."""
        of_source = self.parameters.get(f"{_SOURCE_COLUMN}type") or ""
        return self.kind == "int64" and not self.meaning and _UNSIGNED_SOURCE.match(of_source) is not None

    @cached_property
    def _refined(self) -> ColumnType | None:
        """The decimal that the column has at the source, for digits that Debezium writes as a string."""
        if self.meaning not in {"", VARIABLE_DECIMAL} or (self.kind != "string" and not self.meaning):
            return None
        of_source = {name: self.parameters.get(_SOURCE_COLUMN + name) for name in ("type", "length", "scale")}
        if not (_NUMERIC_SOURCE.fullmatch(of_source["type"] or "") and of_source["length"] and of_source["scale"]):
            return None
        return self._decimal(of_source["length"], of_source["scale"])

    @staticmethod
    def _decimal(precision: str, scale: str) -> ColumnType | None:
        digits, behind = _number(precision), _number(scale)
        if behind > MAX_SCALE:  # Postgres's numeric(8,-2) comes with the scale 2046
            behind -= _SCALES
        if behind < 0:  # Oracle's NUMBER(5,-2): seven digits, the last two of them zeros
            digits, behind = digits - behind, 0
        digits = max(digits, behind)  # numeric(5,8): five digits behind three zeros
        if not 1 <= digits <= MAX_DECIMAL_DIGITS:
            return None
        return ColumnType(TypeName.DECIMAL, digits, behind)


def read_schema(written: Mapping[str, Any]) -> ConnectField:
    """Return a schema as it is written beside a payload. Raises WrongSchema."""
    encoded = _ENCODER.encode(written)
    return _cached(encoded) if len(encoded) <= _MAX_CACHED_BYTES else _field(msgspec.json.decode(encoded), "")


@lru_cache(2_048)
def _cached(encoded: bytes) -> ConnectField:
    return _field(msgspec.json.decode(encoded), "")


def _field(written: Any, at: str) -> ConnectField:
    if not isinstance(written, dict):
        raise WrongSchema(f"the schema{at} is not an object")
    kind = written.get("type")
    if not isinstance(kind, str) or kind not in BY_KIND:
        raise WrongSchema(f"the schema{at} has no type of Kafka Connect")
    parameters = written.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise WrongSchema(f"the parameters of the schema{at} are not an object")
    inner = written.get("items" if kind == "array" else "values") if kind in _CONTAINERS else None
    fields = written.get("fields") if kind == "struct" else ()
    if not isinstance(fields, list | tuple):
        raise WrongSchema(f"the fields of the schema{at} are not a list")
    read = ConnectField(
        _text(written.get("field")),
        kind,
        _text(written.get("name")),
        written.get("optional") is True,
        written.get("default") is not None,
        {name: str(value) for name, value in parameters.items()},
        tuple(_field(one, " of a field") for one in fields),
        None if inner is None else _field(inner, " of an element"),
    )
    _ = read.column_type, read.scale if read.meaning == DECIMAL else 0  # a wrong number in it is an error here
    return read


def _text(written: Any) -> str:
    return written if isinstance(written, str) else ""


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise WrongSchema("a precision or scale of the schema is not a number") from None
