"""The schema of a table: its columns and keys, their Arrow form in landing files, and how a schema can evolve.

PyArrow is imported only where the Arrow form is needed: the client plans tables without it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NewType, assert_never

from app.domain.model.names import ROW_MARKER, check_column_name, check_new_column_name
from mirrorgate.errors import Code, Problem, RejectedInput

if TYPE_CHECKING:
    import pyarrow as pa

SchemaVersion = NewType("SchemaVersion", int)
"""Number of a column list within a generation, from 1."""

_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)", re.ASCII)
MAX_DECIMAL_DIGITS: Final = 38


class TypeName(StrEnum):
    """The declared types of columns."""

    BOOLEAN = "boolean"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    STRING = "string"
    BINARY = "binary"
    JSON = "json"


_SIMPLE_TYPES: Final = {name.value for name in TypeName} - {TypeName.DECIMAL.value}
_OF_DATABASES: Final = {
    "boolean": "bool bit",
    "int16": "smallint int2 tinyint short byte int8_t tinyintunsigned uint8",
    "int32": "int integer int4 mediumint serial smallintunsigned uint16",
    "int64": "bigint int8 long bigserial intunsigned uint32",
    "decimal(20,0)": "bigintunsigned unsignedbigint uint64 ubigint",
    "float32": "real float4 single",
    "float64": "double float float8 doubleprecision",
    "decimal(p,s)": "decimal numeric number dec money",
    "timestamp": "datetime datetime2 smalldatetime datetimeoffset timestamptz timestampwithtimezone "
    "timestampwithouttimezone",
    "string": "varchar varchar2 nvarchar nvarchar2 char nchar character charactervarying bpchar text ntext clob nclob "
    "time str uuid uniqueidentifier enum xml",
    "binary": "bytea blob varbinary bytes raw longblob image",
    "json": "jsonb object",
}
"""Types to write for those of databases and languages, by the declared type."""

_DECLARED: Final = {name: name for name in _SIMPLE_TYPES} | {
    name: declared for declared, names in _OF_DATABASES.items() for name in names.split()
}
_MAX_SHOWN: Final = 40


def _shown(text: str) -> str:
    """Return a given type for an error message."""
    return f"`{text}`" if len(text) <= _MAX_SHOWN and text.isprintable() and "`" not in text else "in the request"


def _advice(text: str) -> str:
    """Return what to write for a type of a database; its letter case, length and blanks do not count."""
    declared = _DECLARED.get(re.sub(r"\([^()]*\)|\s+", "", text.lower()))
    digits = re.search(r"\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\)", text, re.ASCII)
    if declared == "decimal(p,s)" and digits:
        declared = f"decimal({digits[1]},{digits[2] or 0})"
    return f"; write {declared}" if declared else ""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A declared type; precision and scale only for decimal (1 to 38 digits, 0 to precision)."""

    name: TypeName
    precision: int = 0
    scale: int = 0

    @classmethod
    def parse(cls, text: str) -> "ColumnType":
        """Read a declared type, for example `int64` or `decimal(12,2)`. Raises RejectedInput `bad_type`."""
        if match := _DECIMAL.fullmatch(text):
            precision, scale = int(match[1]), int(match[2])
            if not (1 <= precision <= MAX_DECIMAL_DIGITS and scale <= precision):
                raise RejectedInput(Code.BAD_TYPE, "decimal(p,s) needs 1 <= p <= 38 and 0 <= s <= p")
            return cls(TypeName.DECIMAL, precision, scale)
        if text in _SIMPLE_TYPES:
            return cls(TypeName(text))
        raise RejectedInput(Code.BAD_TYPE, f"unknown column type {_shown(text)}{_advice(text)}")

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name is TypeName.DECIMAL else str(self.name)

    @property
    def arrow(self) -> "pa.DataType":
        """The Arrow type in payloads and landing files: timestamps in UTC microseconds, JSON as string."""
        return _arrow_type(self)


@dataclass(frozen=True, slots=True)
class Column:
    """One declared column; `nullable=False` is enforced when a change is accepted."""

    name: str
    type: ColumnType
    nullable: bool = True


@dataclass(frozen=True)
class TableSchema:
    """Columns in file order and key columns in key order; without key columns a table takes inserts only."""

    columns: tuple[Column, ...]
    key_columns: tuple[str, ...] = ()
    bare: bool = False
    """True if files of this version have no row marker: inserts only, or in `lands_as` also upserts only."""
    lands_as: "TableSchema | None" = None
    """The schema of landing files, if it differs from that of the source's rows."""

    @classmethod
    def declare(cls, columns: tuple[Column, ...], key_columns: tuple[str, ...]) -> "TableSchema":
        """Return a consistent schema. Raises RejectedInput `bad_schema`, `bad_name` or `reserved_name`."""
        if not columns:
            raise RejectedInput(Code.BAD_SCHEMA, "a table needs at least one column")
        for column in columns:
            check_column_name(column.name)
        names = [column.name for column in columns]
        if len({name.casefold() for name in names}) != len(names):
            raise RejectedInput(Code.BAD_SCHEMA, "two columns have the same name (letter case does not count)")
        if len(set(key_columns)) != len(key_columns):
            raise RejectedInput(Code.BAD_SCHEMA, "a key column is named twice")
        for key in key_columns:
            if key not in names:
                raise RejectedInput(Code.BAD_SCHEMA, f"key column {key!r} is not among the columns")
        return cls(columns, key_columns)

    def to_json(self) -> dict[str, Any]:
        """Return the schema as it is stored."""
        columns = [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in self.columns]
        stored = {"columns": columns, "key_columns": list(self.key_columns), "bare": self.bare}
        return stored if self.lands_as is None else stored | {"lands_as": self.lands_as.to_json()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "TableSchema":
        """Read a stored schema."""
        columns = tuple(Column(c["name"], ColumnType.parse(c["type"]), c["nullable"]) for c in stored["columns"])
        lands_as = stored.get("lands_as")
        return cls(columns, tuple(stored["key_columns"]), stored["bare"], cls.from_json(lands_as) if lands_as else None)

    @property
    def landing(self) -> "TableSchema":
        """The schema of landing files and staged payloads."""
        return self.lands_as or self

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in file order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def key_set(self) -> frozenset[str]:
        """The names of the key columns."""
        return frozenset(self.key_columns)

    @property
    def can_need_marker(self) -> bool:
        """Return True if a change can need the row marker that files lack: a table without keys takes inserts only."""
        return self.bare and bool(self.key_columns)

    @cached_property
    def arrow(self) -> "pa.Schema":
        """The schema of typed rows, and of payloads for a schema that lands as it is: the columns, then the row marker.

        Only keys are required in it: a delete row has NULL in every other column.
        """
        import pyarrow as pa

        keys = set(self.key_columns)
        fields = [pa.field(column.name, column.type.arrow, column.name not in keys) for column in self.columns]
        return pa.schema([*fields, row_marker_field()])

    def file_schema(self, *, marker_first: bool) -> "pa.Schema":
        """Return the schema of landing files: `arrow` with the row marker first, last or, if not needed, absent."""
        import pyarrow as pa

        *columns, marker = self.arrow
        return pa.schema(columns if self.bare else [marker, *columns] if marker_first else [*columns, marker])


@cache
def _arrow_type(column_type: ColumnType) -> "pa.DataType":
    import pyarrow as pa

    match column_type.name:
        case TypeName.BOOLEAN:
            return pa.bool_()
        case TypeName.INT16:
            return pa.int16()
        case TypeName.INT32:
            return pa.int32()
        case TypeName.INT64:
            return pa.int64()
        case TypeName.FLOAT32:
            return pa.float32()
        case TypeName.FLOAT64:
            return pa.float64()
        case TypeName.DECIMAL:
            return pa.decimal128(column_type.precision, column_type.scale)
        case TypeName.DATE:
            return pa.date32()
        case TypeName.TIMESTAMP:
            return pa.timestamp("us", tz="UTC")
        case TypeName.STRING | TypeName.JSON:
            return pa.string()
        case TypeName.BINARY:
            return pa.binary()
    assert_never(column_type.name)


def row_marker_field() -> "pa.Field":
    """Return the Arrow field of the row marker: an int32 that is never NULL."""
    import pyarrow as pa

    return pa.field(ROW_MARKER, pa.int32(), nullable=False)


def _key_problems(current: "TableSchema", wanted: "TableSchema") -> "Iterator[Problem]":
    if current.key_columns and wanted.key_columns != current.key_columns:
        now, then = (", ".join(schema.key_columns) for schema in (current, wanted))
        yield Problem(Code.INCOMPATIBLE_SCHEMA, f"the key is ({now}) and cannot become ({then})")


def _why_not(column: "Column", new: "Column | None", *, is_key: bool) -> str | None:
    """Return why a column of a table cannot become another one, or be left out; None if it can."""
    if new is None:
        return None if column.nullable else f"column {column.name} is required and cannot be removed"
    if new.type != column.type:
        return f"column {column.name} is {column.type} and cannot become {new.type}"
    if column.nullable and not new.nullable:
        return f"column {column.name} is nullable and cannot become required"
    if new.nullable and not column.nullable and is_key:
        return f"the key column {column.name} is required and cannot become nullable"
    return None


def evolve(current: TableSchema, wanted: TableSchema) -> TableSchema:
    """Return the schema after `wanted` is registered over `current`; `current` itself if nothing is new.

    Nullable columns can be added, at the end. A nullable column that `wanted` omits remains. A required column outside
    the key can become nullable, which changes nothing in the files. A keyless table can get keys once. Files that have
    a row marker keep it. Raises RejectedInput `incompatible_schema` with everything that does not fit.
    """
    wanted_by_name = {column.name: column for column in wanted.columns}
    problems = list(_key_problems(current, wanted))
    kept: list[Column] = []
    for column in current.columns:
        new = wanted_by_name.pop(column.name, None)
        detail = _why_not(column, new, is_key=column.name in current.key_set)
        if detail is not None:
            problems.append(Problem(Code.INCOMPATIBLE_SCHEMA, detail, column=column.name))
        kept.append(column if new is None else new)
    for column in wanted_by_name.values():
        if not column.nullable:
            detail = f"new column {column.name} must be nullable, because existing rows do not have it"
            problems.append(Problem(Code.INCOMPATIBLE_SCHEMA, detail, column=column.name))
    if problems:
        raise RejectedInput.of(tuple(problems))
    added = tuple(column for column in wanted.columns if column.name in wanted_by_name)
    check_new_columns(added)
    return replace(TableSchema.declare((*kept, *added), wanted.key_columns), bare=current.bare and wanted.bare)


def check_new_columns(columns: Iterable[Column]) -> None:
    """Raise RejectedInput `bad_name` or `reserved_name`, with the column, for one that cannot be added."""
    for column in columns:
        try:
            check_new_column_name(column.name)
        except RejectedInput as error:
            raise RejectedInput.at(error.code, error.detail, column=column.name) from None


MAX_NAMES: Final = 20
"""Columns that a description of changes names."""


def column_changes(columns: Sequence[Column], before: Sequence[Column]) -> list[str]:
    """Return what became of columns, one line for each kind of change."""
    known = {column.name: column for column in before}
    stay = [(column, known[column.name]) for column in columns if column.name in known]
    found = {
        "added": [f"{column.name} {column.type}" for column in columns if column.name not in known],
        "removed": [column.name for column in before if column.name not in {other.name for other in columns}],
        "changed": [f"{new.name} {old.type} to {new.type}" for new, old in stay if new.type != old.type],
        "became nullable": [new.name for new, old in stay if new.nullable > old.nullable],
        "became required": [new.name for new, old in stay if new.nullable < old.nullable],
    }
    return [
        f"{what}: {', '.join(names[:MAX_NAMES])}{', …' if len(names) > MAX_NAMES else ''}"
        for what, names in found.items()
        if names
    ]
