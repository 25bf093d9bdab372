"""The projection of a table: typed rows of its source -> rows of landing files, and back (decision 0071).

`filtered` applies the filter of a table to its complete rows, and `landed` makes rows of landing files once it is
certain which rows land. `source_rows_of` is the opposite, where there is one. `row_bytes` bounds the memory of rows.
Invariant: a table whose files have the columns of its source lands its rows as they are, at no cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.projection import AuditValue, Comparison, Constant, History, MaskMethod, RowFilter, bad_option
from app.domain.model.table import BatchSequence, Table
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema, TypeName, row_marker_field
from app.domain.rows.conversion import scalar
from app.domain.rows.derived_columns import carried_column, check_derived, is_carried_column
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.row_facts import carried
from app.domain.rows.row_rules import KeptByTable, RowMarker, RowRules

_KERNELS: Final = {
    Comparison.EQUAL: pc.equal,
    Comparison.NOT_EQUAL: pc.not_equal,
    Comparison.LESS: pc.less,
    Comparison.LESS_OR_EQUAL: pc.less_equal,
    Comparison.GREATER: pc.greater,
    Comparison.GREATER_OR_EQUAL: pc.greater_equal,
}


def check_literals(found: RowFilter | None, schema: TableSchema) -> None:
    """Raise RejectedInput `bad_option` for a literal that the type of its column cannot hold."""
    if found is None:
        return
    for comparison, path in found.comparisons("filter"):
        try:
            _literals(comparison, schema)
        except ValueError as error:
            member = "value" if comparison.values is None else "values"
            raise bad_option(f"a literal {error}", *path, member) from None


def filtered(typed: pa.RecordBatch, found: RowFilter, schema: TableSchema) -> pa.RecordBatch:
    """Return the rows that land, in order; `typed` has the columns of the source first and the row marker last.

    A row that matches the filter lands as it is. A delete lands as it is. An update or an upsert of a row that does not
    match lands as a delete, because an earlier version may be mirrored. An insert that does not match is left out,
    because its key is new; if nothing else is left of a batch, one insert lands as a delete, which changes nothing: a
    batch always has a row.
    """
    markers = typed.column(typed.num_columns - 1)
    lands = pc.or_(pc.fill_null(_matches(found, typed, schema), False), pc.equal(markers, int(RowMarker.DELETE)))
    if pc.all(lands).as_py() in {True, None}:
        return typed
    kept = pc.or_(lands, pc.not_equal(markers, int(RowMarker.INSERT)))
    if not pc.any(kept).as_py():
        kept = pa.array([True] + [False] * (typed.num_rows - 1))
    return _with_deletes(typed.filter(kept), lands.filter(kept), schema)


def _with_deletes(rows: pa.RecordBatch, lands: pa.BooleanArray, schema: TableSchema) -> pa.RecordBatch:
    """Return the rows with a delete of the key for each that does not land."""
    kept = {at for at, column in enumerate(schema.columns) if column.name in schema.key_set}
    carried_facts = range(len(schema.columns), rows.num_columns)
    kept.update(at for at in carried_facts if not is_carried_column(rows.schema.names[at]))
    columns = [array if at in kept else pc.if_else(lands, array, None) for at, array in enumerate(rows.columns)]
    deletes = pa.scalar(int(RowMarker.DELETE), columns[-1].type)
    columns[-1] = pc.if_else(lands, columns[-1], deletes)
    operation = rows.schema.get_field_index(carried(AuditValue.OPERATION))
    if operation >= 0:
        columns[operation] = pc.if_else(lands, columns[operation], "delete")
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _matches(found: RowFilter, typed: pa.RecordBatch, schema: TableSchema) -> pa.BooleanArray:
    """Return which rows match; NULL where a comparison with NULL decides."""
    if found.column is not None:
        return _compared(found, typed, schema)
    matches = [_matches(part, typed, schema) for part in found.all or found.any or ()]
    return reduce(pc.and_kleene if found.all else pc.or_kleene, matches)


def _compared(found: RowFilter, typed: pa.RecordBatch, schema: TableSchema) -> pa.BooleanArray:
    assert found.column is not None
    assert found.op is not None
    column = typed.column(schema.names.index(found.column))
    if found.op is Comparison.IS_NULL:
        return pc.is_null(column)
    if found.op is Comparison.IS_NOT_NULL:
        return pc.is_valid(column)
    literals = pa.array(_literals(found, schema), column.type)
    if found.op in _KERNELS:
        return _KERNELS[found.op](column, literals[0])
    are_in = reduce(pc.or_, [pc.equal(column, literal) for literal in literals])  # `pc.is_in` tells 0 from -0
    return are_in if found.op is Comparison.IN else pc.invert(are_in)


def _literals(found: RowFilter, schema: TableSchema) -> list[Any]:
    """Return the typed literals. Raises ValueError with a reason that omits the literal."""
    [of_type] = [column.type for column in schema.columns if column.name == found.column]
    return [scalar(literal, of_type) for literal in found.literals]


ROW_BYTES: Final = 48
"""Bytes of a row beside its values: its change, its marker, and the lists that have an entry for each row."""

VALUE_BYTES: Final = 8
"""Bytes of a value that is not a decimal. While its row is typed, one takes about 40, also if its message lacks it."""

_HASH_BYTES: Final = 64
_OPERATION_BYTES: Final = 8

_DECIMAL_BYTES: Final = 16
_WRITTEN: Final = {
    TypeName.BOOLEAN: 6,
    TypeName.INT16: 7,
    TypeName.INT32: 12,
    TypeName.INT64: 21,
    TypeName.FLOAT32: 18,
    TypeName.FLOAT64: 27,
    TypeName.DECIMAL: 43,
    TypeName.DATE: 13,
    TypeName.TIMESTAMP: 37,
}
"""Bytes of the longest value of a type in a row image, with its comma. Strings are counted with the body."""
_NULL_WRITTEN: Final = 5

MAX_BLOCK_BYTES: Final = 64 * 2**20
"""Bytes of the rows that a gateway itself makes one block of: of row images, for a rebuild or a new generation."""

_KEPT: Final = KeptByTable[int]()


def row_bytes(rules: RowRules | Table) -> int:
    """Return the maximum bytes of a landed row of a table, without the bytes of the strings in its change.

    A message of three bytes can become a row of thousands of columns, of constants, audit columns and masks. So the
    size of a body does not bound the memory of its rows, before they are typed and when they land; their number and
    their table do. The API reserves this bound before it builds rows, and the drain cuts its work by it.

    Invariant: with the strings of its values, which the body has, no row takes more. An option that adds a column, or
    makes a value longer, adds its bytes here.
    """
    return _KEPT.get(rules) or _KEPT.keep(rules, None, _row_bytes(rules.schema, rules.options))


def rows_of_block(rules: RowRules, most: int) -> int:
    """Return how many rows make one block of MAX_BLOCK_BYTES, at most `most` and at least one."""
    return max(1, min(most, MAX_BLOCK_BYTES // row_bytes(rules)))


def _row_bytes(schema: TableSchema, options: TableOptions) -> int:
    decimals = sum(column.type.name is TypeName.DECIMAL for column in schema.landing.columns)
    landed = VALUE_BYTES * (len(schema.landing.columns) - decimals) + _DECIMAL_BYTES * decimals
    constants = sum(len(constant.value.encode()) for constant in options.constants.values())
    hashed = sum(mask.method is MaskMethod.HASH for mask in options.masks.values())
    literals = sum(len(text.encode()) for text in options.derive.values())
    operation = _OPERATION_BYTES if AuditValue.OPERATION in options.audit_columns.named else 0
    images = sum(_WRITTEN.get(column.type.name, _NULL_WRITTEN) for column in schema.columns)
    written = images if options.keeps_images else 0
    return ROW_BYTES + landed + constants + literals + hashed * _HASH_BYTES + operation + written


def landed_columns(columns: Sequence[Column], options: TableOptions) -> list[Column]:
    """Return columns of a source under the names that they have in landing files."""
    return [replace(column, name=options.rename.get(column.name, column.name)) for column in columns]


def source_rows_of(landed: pa.RecordBatch, schema: TableSchema, options: TableOptions) -> pa.RecordBatch:
    """Return staged rows, which are as landing files have them, as `TableSchema.arrow` has them.

    Renamed columns get their names back, and constants and audit columns are left out. Values that a mask or a filter
    took away are lost. The options must have been the same since the generation began; the columns can have grown.
    """
    if schema.lands_as is None:
        return landed
    arrays = [landed.column(column.name) for column in landed_columns(schema.columns, options)]
    return pa.RecordBatch.from_arrays([*arrays, landed.column(landed.num_columns - 1)], schema=schema.arrow)


_OF_ACCEPTANCE: Final = frozenset({AuditValue.ACCEPTED_AT, AuditValue.ROW_ORDER})
_ROWS_OF_BATCH: Final = 2**32
"""Row orders that a batch has room for."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The acceptance of a batch: its sequence, and the time at which its table was locked."""

    sequence: BatchSequence
    at: datetime


def needs_acceptance(table: Table) -> bool:
    """Return True if landing files say where or when a batch is accepted, which its sequence lock decides."""
    audit = table.options.audit_columns
    return audit.accepted_at is not None or audit.row_order is not None


def landed(rows: LandingRows, table: Table, acceptance: Acceptance | None) -> LandingRows:
    """Return the rows as landing files have them. `rows` are complete and in landing order.

    The acceptance may be None for a table that does not need it.
    """
    if not table.is_projected:
        return rows
    batch = rows.batch
    if table.options.filter is not None:
        batch = filtered(batch, table.options.filter, table.schema)
    if table.schema.lands_as is not None:
        batch = _Projection(batch, table, acceptance).batch()
    return replace(rows, batch=batch)


def check_values(options: TableOptions, schema: TableSchema) -> None:
    """Raise RejectedInput `bad_option` for a constant or a literal of a filter that its type cannot hold.

    Also for an expression of a derived column that is wrong.
    """
    check_literals(options.filter, schema)
    check_derived(options.derive, schema, {*options.exclude, *options.masks})
    _check_constants(options.constants)


def _check_constants(constants: Mapping[str, Constant]) -> None:
    for name, constant in constants.items():
        try:
            constant_value(constant)
        except ValueError as error:
            raise bad_option(f"the value {error} ({constant.type})", "constants", name, "value") from None


def constant_value(constant: Constant) -> Any:
    """Return the typed value of a constant. Raises ValueError with a reason that omits the value."""
    return scalar(constant.value, ColumnType.parse(constant.type))


class _Projection:
    """Projection of one batch to its landing rows."""

    def __init__(self, typed: pa.RecordBatch, table: Table, acceptance: Acceptance | None) -> None:
        self._typed, self._table, self._acceptance = typed, table, acceptance
        self._markers: pa.Int32Array = typed.column(typed.num_columns - 1)
        names, self._constants = table.options.rename, table.options.constants
        self._sources = {names.get(name, name): at for at, name in enumerate(table.schema.names)}
        self._audit = {name: value for value, name in table.options.audit_columns.named.items()}
        self._derived = {names.get(name, name): carried_column(name) for name in table.options.derive}

    def batch(self) -> pa.RecordBatch:
        """Return the rows of the landing files."""
        landing = self._table.schema.landing
        arrays = [self._column(column) for column in landing.columns]
        markers = self._markers
        if self._table.options.history is History.APPEND_ONLY:
            markers = self._repeated(int(RowMarker.INSERT), row_marker_field().type)
        return pa.RecordBatch.from_arrays([*arrays, markers], schema=landing.arrow)

    def _column(self, column: Column) -> pa.Array:
        """Return the values of one column; NULL for one that nothing fills any more."""
        if column.name in self._derived:
            return self._typed.column(self._derived[column.name])
        if column.name in self._sources:
            return self._typed.column(self._sources[column.name])
        if column.name in self._constants:
            return self._repeated(constant_value(self._constants[column.name]), column.type.arrow)
        if column.name in self._audit:
            return self._audit_column(self._audit[column.name], column)
        return pa.nulls(self._typed.num_rows, column.type.arrow)

    def _audit_column(self, value: AuditValue, column: Column) -> pa.Array:
        if value in _OF_ACCEPTANCE:
            assert self._acceptance is not None
            return self._accepted(value, column, self._acceptance)
        if value is AuditValue.DELETED and not self._table.options.flags_deletes:
            return pc.equal(self._markers, int(RowMarker.DELETE))
        return self._typed.column(carried(value))

    def _accepted(self, value: AuditValue, column: Column, acceptance: Acceptance) -> pa.Array:
        if value is AuditValue.ACCEPTED_AT:
            return self._repeated(acceptance.at, column.type.arrow)
        first = acceptance.sequence * _ROWS_OF_BATCH
        return pa.array(range(first, first + self._typed.num_rows), column.type.arrow)

    def _repeated(self, value: object, of_type: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, of_type), self._typed.num_rows)
