"""Replicate metadata (MD) messages: a table's columns, keys and types.

Sources: "Metadata message" in Qlik's description of the message structure; docs/reference/replicate-metadata.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from app.domain.model.names import MAX_TEXT_BYTES, SourceName, TableName, is_bounded
from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import MAX_DECIMAL_DIGITS, Column, ColumnType, TableSchema, TypeName
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

TYPES: Final = {
    "BOOLEAN": TypeName.BOOLEAN,
    "INT1": TypeName.INT16,
    "INT2": TypeName.INT16,
    "UINT1": TypeName.INT16,
    "INT4": TypeName.INT32,
    "UINT2": TypeName.INT32,
    "INT8": TypeName.INT64,
    "UINT4": TypeName.INT64,
    "REAL4": TypeName.FLOAT32,
    "REAL8": TypeName.FLOAT64,
    "DATE": TypeName.DATE,
    "DATETIME": TypeName.TIMESTAMP,
    "BYTES": TypeName.BINARY,
    "BLOB": TypeName.BINARY,
}
STRING_TYPES: Final = frozenset({"STRING", "WSTRING", "CLOB", "NCLOB", "TIME"})
_UINT8: Final = ColumnType(TypeName.DECIMAL, 20, 0)
_STRING: Final = ColumnType(TypeName.STRING)
MAX_ORDINAL: Final = 10_000
"""More columns than any source has; the ordinal of a column is the position of its bit in a mask."""


class Lineage(msgspec.Struct, gc=False):
    """The origin of the described table: server, task, name and version."""

    table: str
    schema: str | UnsetType | None = UNSET
    server: str | UnsetType | None = UNSET
    task: str | UnsetType | None = UNSET
    tableVersion: int | UnsetType = UNSET
    timestamp: Any = UNSET


class ColumnFacts(msgspec.Struct, gc=False):
    """One column as an MD message describes it."""

    ordinal: int
    type: str
    length: Any = UNSET
    precision: int | UnsetType | None = UNSET
    scale: int | UnsetType | None = UNSET
    primaryKeyPosition: int | UnsetType = UNSET
    nullable: bool | UnsetType | None = UNSET

    @property
    def key_position(self) -> int:
        """Position in the key, from 1; 0 for a column outside the key."""
        return self.primaryKeyPosition or 0


class TableStructure(msgspec.Struct, gc=False):
    """The columns of the described table, by name."""

    tableColumns: dict[str, ColumnFacts]


class SourceColumn(NamedTuple):
    """The facts of a column for masks and value ranges."""

    ordinal: int
    type: str
    key: bool


@dataclass(frozen=True, slots=True)
class MetadataMessage:
    """An MD message: the table, its schema and the version of that schema."""

    index: int
    source: SourceName
    schema: TableSchema
    schema_id: str | None
    table_version: int
    at: str
    """JSON Pointer of the message's body, for error messages."""
    columns: Mapping[str, SourceColumn]
    nullability_unknown: frozenset[str] = frozenset()
    """Columns for which the message does not say whether they can be NULL."""
    not_decimal: frozenset[str] = frozenset()
    """NUMERIC columns with a precision or scale that no decimal has; their type in `schema` is a placeholder."""
    unknown_types: frozenset[str] = frozenset()
    """Columns of a type that Replicate does not have. They become text, except keys: those need an explicit type."""
    task: str | None = None
    data_schema: str | None = None
    """The Avro schema of the table's data messages, if it is given."""
    destination: TableName | None = None
    """The table that the source feeds, if it has another name."""

    @property
    def table(self) -> TableName:
        """The described table. Raises RejectedInput `bad_name` if no table can have the source's name."""
        return self.destination or self.source.table

    def _check_typed(self, code: Code, name: str, reason: str, options: TableOptions) -> None:
        """Raise RejectedInput for a column whose type must come from the table's option `columns` and does not."""
        if name not in options.columns or options.columns[name].type is None:
            detail = f"column {name!r} {reason}; PUT the table first, with the column's type in its option `columns`"
            pointer = pointer_to(f"{self.at}/tableStructure/tableColumns", name)
            raise RejectedInput.at(code, detail, self.index, pointer, name)

    def schema_after(self, current: TableSchema | None, options: TableOptions = DEFAULT_OPTIONS) -> TableSchema:
        """Return the schema to register over `current`; the table's `options` can give types of columns.

        A present column remains nullable if the source no longer allows NULL or does not say. A new column is nullable,
        because earlier rows have no value for it. Raises RejectedInput `incompatible_schema` or `bad_type` for a
        column that needs a type from the options and has none.
        """
        for name in sorted(self.not_decimal.difference(options.exclude)):
            reason = "is NUMERIC with a precision or scale that no decimal has"
            self._check_typed(Code.INCOMPATIBLE_SCHEMA, name, reason, options)
        for name in sorted(self.unknown_types & self.schema.key_set):
            self._check_typed(Code.BAD_TYPE, name, "is a key column of a type that Replicate does not have", options)
        if current is None:
            return self.schema
        known = {column.name: column for column in current.columns}
        columns = []
        for column in self.schema.columns:
            old = known.get(column.name)
            keeps = old is not None and (not column.nullable or column.name in self.nullability_unknown)
            nullable = old.nullable if old is not None and keeps else True
            columns.append(replace(column, nullable=nullable))
        return replace(self.schema, columns=tuple(columns))


def read_metadata(
    index: int, schema_id: str | None, lineage: Lineage | None, structure: TableStructure, at: str
) -> MetadataMessage:
    """Return what an MD message declares. Raises RejectedInput."""
    if lineage is None:
        problem = Problem(Code.MALFORMED_MESSAGE, "a metadata message needs lineage", index, f"{at}/lineage")
        raise RejectedInput.of((problem,))
    _check_bounded(index, {"schemaId": schema_id}, at)
    _check_bounded(index, {"server": lineage.server or None, "task": lineage.task or None}, f"{at}/lineage")
    facts = sorted(structure.tableColumns.items(), key=lambda item: item[1].ordinal)
    columns = tuple(_column(name, column) for name, column in facts)
    keys = sorted((column.key_position, name) for name, column in facts if column.key_position)
    schema = TableSchema.declare(columns, tuple(name for _, name in keys))
    _check_positions("ordinal", [column.ordinal for _, column in facts])
    _check_positions("primaryKeyPosition", [position for position, _ in keys])
    return MetadataMessage(
        index,
        SourceName.of(None, lineage.schema or None, lineage.table),
        schema,
        schema_id,
        lineage.tableVersion or 0,
        at,
        {name: SourceColumn(c.ordinal, c.type.upper(), c.key_position > 0) for name, c in facts},
        frozenset(name for name, column in facts if not isinstance(column.nullable, bool)),
        frozenset(name for name, column in facts if column.type.upper() == "NUMERIC" and not _is_decimal(column)),
        frozenset(name for name, column in facts if not _is_known(column.type.upper())),
        "/".join(name for name in (lineage.server, lineage.task) if name) or None,
    )


def _check_bounded(index: int, texts: Mapping[str, str | None], at: str) -> None:
    """Raise RejectedInput `unstorable` for a string that is too long for an index."""
    problems = [
        Problem(Code.UNSTORABLE, f"{name} is longer than {MAX_TEXT_BYTES} UTF-8 bytes", index, f"{at}/{name}")
        for name, text in texts.items()
        if not is_bounded(text)
    ]
    if problems:
        raise RejectedInput.of(tuple(problems))


def _check_positions(what: str, positions: Sequence[int]) -> None:
    if any(not 1 <= position <= MAX_ORDINAL for position in positions) or len(set(positions)) < len(positions):
        raise RejectedInput(Code.BAD_SCHEMA, f"each column needs its own {what} from 1 to {MAX_ORDINAL}")


def _is_known(kind: str) -> bool:
    return kind in TYPES or kind in STRING_TYPES or kind in {"UINT8", "NUMERIC"}


def _is_decimal(column: ColumnFacts) -> bool:
    precision, scale = column.precision or 0, column.scale or 0
    return 1 <= precision <= MAX_DECIMAL_DIGITS and 0 <= scale <= precision


def _column(name: str, column: ColumnFacts) -> Column:
    nullable = column.key_position == 0 and column.nullable is not False
    kind = column.type.upper()
    if kind == "UINT8":
        return Column(name, _UINT8, nullable)
    if kind == "NUMERIC":
        if not _is_decimal(column):
            return Column(name, _STRING, nullable)
        return Column(name, ColumnType(TypeName.DECIMAL, column.precision or 0, column.scale or 0), nullable)
    return Column(name, ColumnType(TYPES[kind]) if kind in TYPES else _STRING, nullable)


def by_table(metadata: Iterable[MetadataMessage]) -> dict[str, list[MetadataMessage]]:
    """Return the MD messages of each table in order, by folded name."""
    tables: dict[str, list[MetadataMessage]] = {}
    for entry in metadata:
        tables.setdefault(entry.table.folded, []).append(entry)
    return tables
