"""Applies the filter of a table to its complete rows: what does not match is not mirrored.

A row that matches lands as it is. A delete lands as it is. An update or an upsert of a row that does not match lands as
a delete, because an earlier version may be mirrored. An insert that does not match is left out, because its key is new;
if nothing else is left of a batch, one insert lands as a delete, which changes nothing: a batch always has a row.
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.projection.audit_columns import AuditValue
from app.domain.model.projection.rejections import bad_option
from app.domain.model.projection.row_filter import Comparison, RowFilter
from app.domain.model.table_schema import TableSchema
from app.domain.rows.conversion.value_definitions import scalar
from app.domain.rows.projection.row_facts import carried
from app.domain.rows.row_rules import RowMarker

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
    """Return the rows that land, in order; `typed` has the columns of the source first and the row marker last."""
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
    kept.update(range(len(schema.columns), rows.num_columns))
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
    combined, combine = matches[0], pc.and_kleene if found.all else pc.or_kleene
    for other in matches[1:]:
        combined = combine(combined, other)
    return combined


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
    are_in = pc.if_else(pc.is_null(column), None, pc.is_in(column, literals))
    return are_in if found.op is Comparison.IN else pc.invert(are_in)


def _literals(found: RowFilter, schema: TableSchema) -> list[Any]:
    """Return the typed literals. Raises ValueError with a reason that omits the literal."""
    [of_type] = [column.type for column in schema.columns if column.name == found.column]
    return [scalar(literal, of_type) for literal in found.literals]
