"""Types upserts, inserts, updates and deletes that arrive as Arrow columns: -> landing rows, by column.

All rows have the same columns, so there is one shape per operation, and `row_layout` decides how its rows land.
Invariant: the rows equal those of `landing_rows` for the same rows as plain JSON.

Source of the rules: docs/formats.md, "Plain rows".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import Operation
from app.domain.model.input_limits import UNLIMITED
from app.domain.model.table_options import SourceOrder
from app.domain.model.table_schema import Column
from app.domain.rows.from_arrow.arrow_images import source_rows
from app.domain.rows.from_arrow.columns import (
    TAKE_TABLE_TYPE,
    one_array,
    other_kind,
    rejected_rows,
    typed_array,
)
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.projection.landed_bytes import row_bytes
from app.domain.rows.projection.row_facts import needed_facts, operation_column, with_operations
from app.domain.rows.row_image import ImageRows, IncompleteRow, encode_image, encode_images, row_keys
from app.domain.rows.row_layout import LayoutProblem, RowLayout, layout_of
from app.domain.rows.row_rules import RowMarker, RowRules
from app.domain.rows.shaped_changes import Shape, Values
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to

_AT = ""
"""JSON Pointer of the row: a row has no images."""


@dataclass(frozen=True, slots=True)
class RowOperations:
    """The operation of each row: the one of `kinds` at its place in `codes`."""

    kinds: Sequence[Operation]
    codes: pa.Int32Array
    """By row."""

    def first_row(self, kind: int) -> int:
        """Return the first row with this operation."""
        return int(pc.index(self.codes, kind).as_py())


def changed_rows(
    given: pa.Table,
    operations: RowOperations,
    rules: RowRules,
    max_value_bytes: int = UNLIMITED.value_bytes,
    reserve: Callable[[int], None] = lambda _: None,
) -> LandingRows:
    """Return the landing rows of a table of checked arrays and the operations of its rows.

    Its columns are what each row gives; a column of type null gives NULL. Types and `reserve` are those of
    `snapshot_rows`. Raises RejectedInput with the codes of plain rows, or `schema_mismatch`.
    """
    if rules.options.source_order is SourceOrder.ENFORCE and not rules.in_load:
        raise RejectedInput.of((Problem(Code.BAD_SEQUENCE, "a row has no changeSequence", 0),))
    layouts = _layouts(frozenset(given.schema.names), operations, rules)
    deletes = _deletes(layouts, operations)
    only_keys = all(layout.marker is RowMarker.DELETE for layout in layouts)
    used = [name for name in given.schema.names if name in (rules.schema.key_set if only_keys else rules.schema.names)]
    used = [name for name in used if name not in rules.options.exclude]
    _check_types(given.schema, used, rules)
    reserve(given.num_rows * row_bytes(rules))
    typed = _typed(given, frozenset(used), deletes, layouts, operations, rules, max_value_bytes)
    if rules.masking is not None:
        typed = rules.masking.batch(typed, rules.schema.names)
    images = None
    if rules.options.keeps_images:
        images = _images(typed, layouts, operations, rules)
    if needed_facts(rules):
        by_kind = operation_column([layout.operation for layout in layouts])
        typed = with_operations(typed, by_kind.take(operations.codes), rules)
    return LandingRows(typed, typed.num_rows, starts_cdc=True, images=images)


def _layouts(columns: frozenset[str], operations: RowOperations, rules: RowRules) -> Sequence[RowLayout]:
    """Return the layout of each kind. Raises RejectedInput if rows of one cannot land."""
    layouts: list[RowLayout] = []
    problems: list[Problem] = []
    for kind, operation in enumerate(operations.kinds):
        is_delete = operation is Operation.DELETE
        shape = Shape(operation, columns if is_delete else None, None if is_delete else columns)
        outcome = layout_of(shape, rules).same
        layouts.extend(outcome.rows)
        for problem in outcome.problems:
            problems.extend(_problems(problem, operations.first_row(kind)))
    if problems:
        raise RejectedInput.of(tuple(sorted(problems, key=lambda problem: problem.index or 0)))
    return layouts


def _problems(problem: LayoutProblem, row: int) -> Sequence[Problem]:
    if not problem.columns:
        return [Problem(problem.code, problem.detail, row, _AT)]
    return [Problem(problem.code, problem.detail, row, pointer_to(_AT, name), name) for name in problem.columns]


def _deletes(layouts: Sequence[RowLayout], operations: RowOperations) -> pa.BooleanArray | None:
    """Return which rows are deleted, None if none is."""
    are_deletes = [layout.marker is RowMarker.DELETE for layout in layouts]
    return pa.array(are_deletes).take(operations.codes) if any(are_deletes) else None


def _check_types(given: pa.Schema, used: Sequence[str], rules: RowRules) -> None:
    columns = {column.name: column for column in rules.schema.columns}
    found = (other_kind(given.field(name).type, columns[name]) for name in used)
    problems = tuple(problem for problem in found if problem is not None)
    if problems:
        raise RejectedInput.of(problems, remedy=TAKE_TABLE_TYPE)


def _typed(
    given: pa.Table,
    used: frozenset[str],
    deletes: pa.BooleanArray | None,
    layouts: Sequence[RowLayout],
    operations: RowOperations,
    rules: RowRules,
    max_bytes: int,
) -> pa.RecordBatch:
    """Return the typed rows; columns that row images will complete are NULL."""
    problems: list[Problem] = []
    arrays: list[pa.Array] = []
    kept = None if deletes is None else pc.if_else(deletes, None, pa.array(range(given.num_rows), pa.int64()))
    for column in rules.schema.columns:
        if column.name not in used:
            arrays.append(pa.nulls(given.num_rows, column.type.arrow))
            continue
        array = one_array(given.column(column.name))
        is_key = column.name in rules.schema.key_set
        if kept is not None and not is_key:
            array = array.take(kept)  # a delete has the key only, whatever else its row gives
        try:
            typed = typed_array(array, column, rules.options, max_bytes)
            arrays.append(_required(typed, column, None if is_key else deletes, is_key))
        except RejectedInput as error:
            problems.extend(error.problems)
    if problems:
        raise RejectedInput.of(tuple(sorted(problems, key=lambda problem: problem.index or 0)))
    markers = pa.array([int(layout.marker) for layout in layouts], pa.int32()).take(operations.codes)
    return pa.RecordBatch.from_arrays([*arrays, markers], schema=rules.schema.arrow)


def _required(array: pa.Array, column: Column, deletes: pa.BooleanArray | None, is_key: bool) -> pa.Array:
    """Return the array if it has a value where the column requires one."""
    if not array.null_count or (column.nullable and not is_key):
        return array
    wrong = pc.is_null(array) if deletes is None else pc.and_not(pc.is_null(array), deletes)
    if pc.any(wrong).as_py():
        if is_key:
            raise rejected_rows(Code.NULL_KEY, "key is NULL", column, wrong)
        raise rejected_rows(Code.NULL_VALUE, "required column is NULL", column, wrong)
    return array


def _images(
    typed: pa.RecordBatch, layouts: Sequence[RowLayout], operations: RowOperations, rules: RowRules
) -> ImageRows:
    keys = row_keys([typed.column(name) for name in rules.schema.key_columns])
    by_row = [*map(layouts.__getitem__, operations.codes.to_pylist())]
    images: list[bytes | None] = []
    incomplete: dict[int, IncompleteRow] = {}
    for rows in source_rows(typed, rules):
        start = len(images)
        of_rows = by_row[start : start + len(rows)]
        whole = encode_images(rows)
        for at, layout in enumerate(of_rows):
            images.append(_image(rows[at], whole[at], layout))
            if layout.missing is not None:
                row = start + at
                incomplete[row] = IncompleteRow(rows[at], layout.missing, layout.unknown, row, _AT)
    inserts: Sequence[int] = ()
    if rules.options.reads_images and not rules.schema.bare:
        inserts = [row for row, layout in enumerate(by_row) if layout.marker is RowMarker.INSERT]
    return ImageRows(keys, images, incomplete, inserts)


def _image(values: Values, whole: bytes, layout: RowLayout) -> bytes | None:
    if layout.marker is RowMarker.DELETE or layout.missing is not None:
        return None
    return encode_image(values, layout.unknown) if layout.unknown else whole
