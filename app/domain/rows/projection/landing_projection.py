"""Typed rows of a source -> rows of landing files, once it is certain which rows land (decision 0071).

Invariant: a table whose files have the columns of its source lands its rows as they are, at no cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.projection.audit_columns import AuditValue, History
from app.domain.model.projection.rejections import bad_option
from app.domain.model.projection.transforms import Constant
from app.domain.model.table import BatchSequence, Table
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema, row_marker_field
from app.domain.rows.conversion.value_definitions import scalar
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.projection.filtering import check_literals, filtered
from app.domain.rows.projection.row_facts import carried
from app.domain.rows.row_rules import RowMarker

_OF_ACCEPTANCE: Final = frozenset({AuditValue.ACCEPTED_AT, AuditValue.ROW_ORDER})
_ROWS_OF_BATCH: Final = 2**32
"""Row orders that a batch has room for."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Where and when a batch is accepted: its sequence, and the time at which its table was locked."""

    sequence: BatchSequence
    at: datetime


def needs_acceptance(table: Table) -> bool:
    """Tell whether landing files say where or when a batch is accepted, which its sequence lock decides."""
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
    """Raise RejectedInput `bad_option` for a constant or a literal of a filter that its type cannot hold."""
    check_literals(options.filter, schema)
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
    """Makes the landing rows of one batch."""

    def __init__(self, typed: pa.RecordBatch, table: Table, acceptance: Acceptance | None) -> None:
        self._typed, self._table, self._acceptance = typed, table, acceptance
        self._markers: pa.Int32Array = typed.column(typed.num_columns - 1)
        names, self._constants = table.options.rename, table.options.constants
        self._sources = {names.get(name, name): at for at, name in enumerate(table.schema.names)}
        self._audit = {name: value for value, name in table.options.audit_columns.named.items()}

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
