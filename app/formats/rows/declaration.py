"""The table that a request of plain rows declares: `columns=id:int64,name:string!` and `key_columns=id`, or its schema.

Nothing is inferred from values. Invariant: a declaration only adds. What contradicts the registered table is rejected,
and a column that is not declared remains, because a row need not give every column.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from app.domain.model.table_schema import MAX_DECIMAL_DIGITS, Column, ColumnType, TableSchema, TypeName
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

_COLUMN: Final = re.compile(
    r"""\s*+(?:"(?P<quoted>(?:[^"]|"")++)"\s*+|(?P<plain>[^\s:,"][^:,"]*+)):\s*+
        (?P<type>\w++(?:\s*+\(\s*+\d++\s*+,\s*+\d++\s*+\))?+)\s*+(?P<required>!?)\s*+(?:,|\Z)""",
    re.VERBOSE,
)
_NAME: Final = re.compile(r'\s*+(?:"(?P<quoted>(?:[^"]|"")++)"\s*+|(?P<plain>[^\s,"][^,"]*+))(?:,|\Z)')
_EXAMPLE: Final = "for example columns=id:int64,name:string!,total:decimal(12,2)"
_BLANKS: Final = re.compile(r"\s+")
_SIMPLE: Final = {
    pa.bool_(): TypeName.BOOLEAN,
    pa.int8(): TypeName.INT16,
    pa.uint8(): TypeName.INT16,
    pa.int16(): TypeName.INT16,
    pa.uint16(): TypeName.INT32,
    pa.int32(): TypeName.INT32,
    pa.uint32(): TypeName.INT64,
    pa.int64(): TypeName.INT64,
    pa.float16(): TypeName.FLOAT32,
    pa.float32(): TypeName.FLOAT32,
    pa.float64(): TypeName.FLOAT64,
    pa.date32(): TypeName.DATE,
    pa.date64(): TypeName.DATE,
    pa.string(): TypeName.STRING,
    pa.large_string(): TypeName.STRING,
    pa.binary(): TypeName.BINARY,
    pa.large_binary(): TypeName.BINARY,
}
"""The declared types that hold every value of an Arrow type."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The columns and keys that a request declares for its table."""

    columns: tuple[Column, ...]
    key_columns: tuple[str, ...]
    are_kinds: bool = False
    """True if a column of another type of the same kind fits too, as in Arrow streams; values are checked later."""

    @property
    def schema(self) -> TableSchema:
        """Return the schema of a new table: key columns are required. Raises RejectedInput `bad_schema` or others."""
        keys = {*self.key_columns}
        columns = tuple(
            replace(column, nullable=column.nullable and column.name not in keys) for column in self.columns
        )
        return TableSchema.declare(columns, self.key_columns)

    def is_met_by(self, schema: TableSchema, excluded: Collection[str] = ()) -> bool:
        """Return True if a registered table has all that is declared, except the columns that it excludes."""
        present = {column.name: column.type for column in schema.columns}
        return self.key_columns == schema.key_columns and all(
            column.name in excluded
            or (column.name in present and (self.are_kinds or present[column.name] == column.type))
            for column in self.columns
        )

    def added_to(self, schema: TableSchema, left: frozenset[str] = frozenset()) -> TableSchema:
        """Return the registered schema with the declared columns that it lacks, which are nullable.

        Columns that have `left` the source return if they are declared. Raises RejectedInput `incompatible_schema`
        naming what is declared and what is registered.
        """
        if schema.key_columns != self.key_columns:
            detail = f"the request declares {_keys(self.key_columns)}, and the table has {_keys(schema.key_columns)}"
            raise RejectedInput(Code.INCOMPATIBLE_SCHEMA, detail)
        present = {column.name: column for column in schema.columns}
        declared = {column.name for column in self.columns}
        problems = [
            Problem(
                Code.INCOMPATIBLE_SCHEMA,
                f"the request declares {column.type}, and the table has {present[column.name].type}",
                pointer=pointer_to("", column.name),
                column=column.name,
            )
            for column in self.columns
            if not self.are_kinds and column.name in present and present[column.name].type != column.type
        ]
        if problems:
            raise RejectedInput.of(tuple(problems))
        kept = [column for column in schema.columns if column.name in declared or column.name not in left]
        added = [replace(column, nullable=True) for column in self.columns if column.name not in present]
        return replace(schema, columns=(*kept, *added))


def parse_declaration(columns: str, key_columns: str | None) -> Declaration:
    """Read `columns` and `key_columns` of a query. Raises RejectedInput `bad_request`, `bad_type` or `bad_schema`."""
    found: list[Column] = []
    for match in _matches(_COLUMN, columns, f"columns must be name:type pairs, {_EXAMPLE}"):
        name = _name(match)
        try:
            of_type = ColumnType.parse(_BLANKS.sub("", match["type"]))
        except RejectedInput as error:
            raise RejectedInput(error.code, f"{error.detail} for column {name!r}") from None
        found.append(Column(name, of_type, nullable=not match["required"]))
    declared = Declaration(tuple(found), parse_names(key_columns))
    _ = declared.schema
    return declared


def parse_names(names: str | None) -> tuple[str, ...]:
    """Read names that commas separate; one with a comma is in quotes. Raises RejectedInput `bad_request`."""
    if not names:
        return ()
    return tuple(map(_name, _matches(_NAME, names, "key_columns must be column names that commas separate")))


def declaration_of(fields: Iterable[pa.Field], key_columns: tuple[str, ...]) -> Declaration:
    """Return what the fields of an Arrow stream declare. A column of type `null` declares nothing: it fits any type.

    Raises RejectedInput `bad_type` for a column whose values no declared type holds.
    """
    problems: list[Problem] = []
    columns: list[Column] = []
    for field in fields:
        if pa.types.is_null(field.type):
            continue
        of_type = _declared_type(field.type)
        if isinstance(of_type, str):
            problems.append(Problem(Code.BAD_TYPE, of_type, pointer=pointer_to("", field.name), column=field.name))
        else:
            columns.append(Column(field.name, of_type, field.nullable))
    if problems:
        raise RejectedInput.of(tuple(problems))
    return Declaration(tuple(columns), key_columns, are_kinds=True)


def _declared_type(given: pa.DataType) -> ColumnType | str:
    """Return the declared type of an Arrow type, or why there is none."""
    if given in _SIMPLE:
        return ColumnType(_SIMPLE[given])
    types = pa.types
    if types.is_fixed_size_binary(given):
        return ColumnType(TypeName.BINARY)
    if types.is_timestamp(given):
        return ColumnType(TypeName.TIMESTAMP)
    if types.is_nested(given):
        return ColumnType(TypeName.JSON)
    if types.is_decimal(given) and given.precision <= MAX_DECIMAL_DIGITS:
        return ColumnType(TypeName.DECIMAL, given.precision, given.scale)
    if types.is_null(given):
        return "a column of type null declares no type"
    return f"no column type holds every value of {given}; register the table first"


def _matches(pattern: "re.Pattern[str]", text: str, otherwise: str) -> Sequence["re.Match[str]"]:
    """Return consecutive matches that cover a string. Raises RejectedInput `bad_request`."""
    found: list[re.Match[str]] = []
    end = 0
    while end < len(text) or text.endswith(","):
        match = pattern.match(text, end)
        if match is None:
            raise RejectedInput(Code.BAD_REQUEST, otherwise)
        found.append(match)
        end = match.end()
    return found


def _name(match: "re.Match[str]") -> str:
    quoted = match["quoted"]
    return match["plain"].rstrip() if quoted is None else quoted.replace('""', '"')


def _keys(names: Sequence[str]) -> str:
    return f"the key columns {', '.join(names)}" if names else "no key columns"
