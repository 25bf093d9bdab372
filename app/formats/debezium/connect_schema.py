"""Connect schemas: the JSON beside a payload -> fields, and what they need of the registered table.

A field has a type of Connect and often the name of a semantic type, which says what its values mean. Sources: Kafka
Connect's JsonConverter; "Data type mappings" in Debezium's descriptions of its connectors; docs/reference/types.md.

A Connect schema has no version, and a record of an older one can arrive again. So a column that a schema lacks remains
in the table; each change says which columns its row has. A column keeps its type: the schema's must be one whose values
the column holds exactly (docs/contribute/decisions/0047).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec

from app.domain.model.table import Table
from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import MAX_DECIMAL_DIGITS, Column, ColumnType, TableSchema, TypeName
from app.domain.model.written_values import JSON_ENCODER
from app.formats.debezium.events import METADATA, WrongEvent
from mirrorgate.errors import Code, RejectedInput

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
_MAX_CACHED_BYTES: Final = 2**16


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
        """The digits after the point of a Decimal. Raises WrongEvent `bad_schema`."""
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
    """Return a schema as it is written beside a payload. Raises WrongEvent `bad_schema`."""
    encoded = JSON_ENCODER.encode(written)
    return _cached(encoded) if len(encoded) <= _MAX_CACHED_BYTES else _field(msgspec.json.decode(encoded))


@lru_cache(2_048)
def _cached(encoded: bytes) -> ConnectField:
    return _field(msgspec.json.decode(encoded))


def _field(written: Any, of: str = "", at: str = "/schema") -> ConnectField:
    if not isinstance(written, dict):
        raise WrongEvent(Code.BAD_SCHEMA, f"the schema{of} is not an object", at)
    kind = written.get("type")
    if not isinstance(kind, str) or kind not in BY_KIND:
        raise WrongEvent(Code.BAD_SCHEMA, f"the schema{of} has no type of Kafka Connect", f"{at}/type")
    parameters = written.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise WrongEvent(Code.BAD_SCHEMA, f"the parameters of the schema{of} are not an object", f"{at}/parameters")
    inner_key = "items" if kind == "array" else "values"
    inner = written.get(inner_key) if kind in _CONTAINERS else None
    fields = written.get("fields") if kind == "struct" else ()
    if not isinstance(fields, list | tuple):
        raise WrongEvent(Code.BAD_SCHEMA, f"the fields of the schema{of} are not a list", f"{at}/fields")
    read = ConnectField(
        _text(written.get("field")),
        kind,
        _text(written.get("name")),
        written.get("optional") is True,
        written.get("default") is not None,
        {name: str(value) for name, value in parameters.items()},
        tuple(_field(one, " of a field", f"{at}/fields/{index}") for index, one in enumerate(fields)),
        None if inner is None else _field(inner, " of an element", f"{at}/{inner_key}"),
    )
    _ = read.column_type, read.scale if read.meaning == DECIMAL else 0  # a wrong number in it is an error here
    return read


def _text(written: Any) -> str:
    return written if isinstance(written, str) else ""


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise WrongEvent(Code.BAD_SCHEMA, "a precision or scale of the schema is not a number", "/schema") from None


_INTEGER_DIGITS: Final = {TypeName.INT16: 5, TypeName.INT32: 10, TypeName.INT64: 19}
_FLOAT_DIGITS: Final = {TypeName.FLOAT32: 24, TypeName.FLOAT64: 53}
_INTEGER_BITS: Final = {TypeName.INT16: 16, TypeName.INT32: 32, TypeName.INT64: 64}
_EXACT: Final = frozenset({*_INTEGER_DIGITS, TypeName.DECIMAL})
_NUMBERS: Final = _EXACT | {*_FLOAT_DIGITS}
_READ_FROM_TEXT: Final = frozenset(
    {TypeName.DECIMAL, TypeName.DATE, TypeName.TIMESTAMP, TypeName.JSON, TypeName.BINARY}
)
_DAYS: Final = frozenset({TypeName.DATE, TypeName.TIMESTAMP})


def row_fields(row: ConnectField, table: Table | None, *, is_flattened: bool) -> list[ConnectField]:
    """Return the fields of a row that are columns: those that a transformation adds are none."""
    if not is_flattened:
        return list(row.fields)
    known = frozenset() if table is None else frozenset(table.schema.names)
    return [one for one in row.fields if one.name in known or not METADATA.fullmatch(one.name)]


def wanted_schema(
    fields: Sequence[ConnectField], keys: Sequence[str] | None, table: Table | None
) -> TableSchema | None:
    """Return the schema to register for rows of these fields; None if the table is as they need it.

    `keys` are the key columns that the request or the record names, None if neither does, empty if the source table
    has none. Raises RejectedInput `bad_schema`, `incompatible_schema` or `column_renamed`.
    """
    options = DEFAULT_OPTIONS if table is None else table.options
    present_types = {} if table is None else {column.name: column.type for column in table.schema.columns}
    columns = [_column(one, keys or (), options, present_types) for one in fields if one.name not in options.exclude]
    if table is None:
        return _first(columns, keys)
    present = table.schema
    known = {column.name: column for column in present.columns}
    given = {column.name for column in columns}
    by_name = {one.name: one for one in fields}
    _check_letter_case(columns, present)
    for column in columns:
        old = known.get(column.name)
        overridden = column.name in options.columns and options.columns[column.name].type is not None
        if old is not None and not overridden and not fits(by_name[column.name], old.type):
            detail = f"column {column.name!r} is {old.type} and cannot become {column.type}"
            raise RejectedInput(Code.INCOMPATIBLE_SCHEMA, detail)
    stays = [column for column in present.columns if column.name in given or column.name not in table.left_columns]
    kept = [
        column if _stays_required(column, present, given, by_name) else replace(column, nullable=True)
        for column in stays
    ]
    added = [replace(column, nullable=True) for column in columns if column.name not in known]
    new_keys = present.key_columns or tuple(keys or ())
    if not added and kept == stays and new_keys == present.key_columns:
        return None
    return TableSchema.declare((*kept, *added), new_keys)


def check_keys(keys: Sequence[str] | None, table: Table) -> None:
    """Raise RejectedInput `incompatible_schema` if a request or record names other keys than the table has."""
    own = table.schema.key_columns
    if keys and own and {*keys} != {*own}:
        detail = (
            f"the key is ({', '.join(keys)}) here and ({', '.join(own)}) in table {table.name}; "
            f"key_columns={','.join(own)} ignores the records' own keys"
        )
        raise RejectedInput(Code.INCOMPATIBLE_SCHEMA, detail)


def renamed_columns(fields: Sequence[ConnectField], table: Table) -> Iterator[tuple[str, str]]:
    """Yield the columns that a schema lacks, each with a new one of its type that can be the same column.

    Both are between the same columns that the table and the schema have. A database appends new columns, so a renamed
    one has none before it there but others that are absent: those may have been dropped.
    """
    gone: dict[str, list[Column]] = {}
    known, given = {*table.schema.names}, {one.name for one in fields}
    before = ""
    for column in table.schema.columns:
        if column.name in given:
            before = column.name
        elif column.name not in table.left_columns:
            gone.setdefault(before, []).append(column)
    before, place = "", 0
    for one in fields:
        if one.name in known:
            before, place = one.name, 0
        elif one.name not in table.options.exclude:
            yield from ((old.name, one.name) for old in gone.get(before, [])[place:] if old.type == one.column_type)
            place += 1


def filled_columns(fields: Sequence[ConnectField], table: Table) -> frozenset[str]:
    """Return the columns that a schema adds to a table, and in which the source's present rows are not NULL.

    `ADD COLUMN` with a default, or of a required column, gives rows a value without an event for them.
    """
    known = {*table.schema.names, *table.options.exclude}
    return frozenset(one.name for one in fields if one.name not in known and (one.has_default or not one.optional))


def fits(field: ConnectField, present: ColumnType) -> bool:
    """Return True if a column of this type can hold the values of a field; a value that does not fit is rejected alone.

    Wider types of the same kind do not fit, because most rows would until one is rejected.
    """
    wanted = field.column_type
    if wanted is None:
        return present.name in {TypeName.DECIMAL, TypeName.STRING}
    if field.kind.startswith("int") and _holds(present, field.plain_type):
        return True
    if wanted.name is TypeName.STRING and field.kind == "string" and present.name in _READ_FROM_TEXT:
        return True
    if field.meaning == VARIABLE_DECIMAL and present.name in _EXACT:
        return True
    return _holds(present, wanted)


def _holds(present: ColumnType, wanted: ColumnType) -> bool:
    if present == wanted or present.name is TypeName.STRING:
        return True
    if present.name is TypeName.BOOLEAN:
        return wanted.name is TypeName.INT16  # MySQL's TINYINT(1)
    if present.name in _DAYS and wanted.name in _DAYS:
        return True
    if not {present.name, wanted.name} <= _NUMBERS:
        return False
    if present.name in _INTEGER_BITS and wanted.name in _INTEGER_BITS:
        return _INTEGER_BITS[wanted.name] <= _INTEGER_BITS[present.name]
    if present.name in _FLOAT_DIGITS:
        bits = _FLOAT_DIGITS | {TypeName.INT16: 16, TypeName.INT32: 32}
        return bits.get(wanted.name, 99) <= _FLOAT_DIGITS[present.name]
    if present.name is wanted.name is TypeName.DECIMAL:
        before_point = present.precision - present.scale
        return wanted.scale <= present.scale and wanted.precision - wanted.scale <= before_point
    return True  # numbers of another kind: each one that is exact fits


def _first(columns: Sequence[Column], keys: Sequence[str] | None) -> TableSchema:
    if keys is None:
        detail = (
            "the events do not name the key of their table; send each record with its key, as "
            '{"key": …, "value": …}, or give key_columns=, or PUT the table first'
        )
        raise RejectedInput(Code.BAD_SCHEMA, detail)
    return TableSchema.declare(tuple(columns), tuple(keys))


def _column(
    field: ConnectField, keys: Sequence[str], options: TableOptions, present: Mapping[str, ColumnType]
) -> Column:
    column_type = field.column_type or present.get(field.name)
    if column_type is None:
        override = options.columns.get(field.name)
        if override is None or override.type is None:
            detail = (
                f"column {field.name!r} is a decimal with a precision or scale that no column type has; PUT the table "
                "first, with its key columns alone and the type of this column in its option `columns`"
            )
            raise RejectedInput(Code.INCOMPATIBLE_SCHEMA, detail)
        column_type = ColumnType.parse(override.type)
    return Column(field.name, column_type, field.optional and field.name not in keys)


def _stays_required(column: Column, present: TableSchema, given: set[str], by_name: dict[str, ConnectField]) -> bool:
    """Return True if a column keeps its nullability: it is a key, or the source still requires it."""
    if column.nullable or column.name in present.key_set:
        return True
    return column.name in given and not by_name[column.name].optional


def _check_letter_case(columns: Sequence[Column], present: TableSchema) -> None:
    """Raise RejectedInput `column_renamed` for a column that the table has in another letter case."""
    known = {name.casefold(): name for name in present.names}
    for column in columns:
        old = known.get(column.name.casefold(), column.name)
        if old != column.name:
            detail = f"column {old!r} of the table is now {column.name!r}, in another letter case"
            raise RejectedInput(Code.COLUMN_RENAMED, detail)
