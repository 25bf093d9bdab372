"""Types snapshot rows that arrive as Arrow columns: -> landing rows, checked by column and never by value.

Source of the rules: docs/formats.md, "Arrow streams".
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import Operation
from app.domain.model.input_limits import UNLIMITED
from app.domain.model.table_options import InsertMarker, Reload
from app.domain.model.table_schema import Column
from app.domain.rows.from_arrow.arrow_images import source_rows
from app.domain.rows.from_arrow.columns import (
    TAKE_TABLE_TYPE,
    column_problem,
    one_array,
    other_kind,
    rejected_rows,
    typed_array,
    unknown_columns,
)
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.projection.landed_bytes import row_bytes
from app.domain.rows.projection.row_facts import needed_facts, operation_column, with_operations
from app.domain.rows.row_image import ImageRows, encode_images, row_keys
from app.domain.rows.row_rules import RowMarker, RowRules
from app.errors import Code, Problem, RejectedInput


def snapshot_rows(
    given: pa.Table,
    rules: RowRules,
    max_value_bytes: int = UNLIMITED.value_bytes,
    reserve: Callable[[int], None] = lambda _: None,
) -> LandingRows:
    """Return the landing rows of a table of checked arrays.

    Its columns are the destination's, by name, in any order; nullable ones can be absent. Types are the table's, or
    others of the same kind whose values fit; a column of type null is NULL in every row. `reserve` is called with the
    most bytes that the rows take beside their texts, before they are made, and raises if they are too many.
    Raises RejectedInput with `schema_mismatch`, `unknown_column`, `incomplete_insert`, `bad_value`,
    `value_too_large`, `null_key`, `null_value` or `reload_requires_recreate`.
    """
    marker = _marker(rules)
    _check_columns(given.schema, rules)
    reserve(given.num_rows * row_bytes(rules))
    problems: list[Problem] = []
    arrays: list[pa.Array] = []
    for column in rules.schema.columns:
        try:
            arrays.append(_array(given, column, rules, max_value_bytes))
        except RejectedInput as error:
            problems.extend(error.problems)
    if problems:
        raise RejectedInput.of(tuple(problems))
    markers = pa.repeat(pa.scalar(int(marker), pa.int32()), given.num_rows)
    typed = pa.RecordBatch.from_arrays([*arrays, markers], schema=rules.schema.arrow)
    if rules.masking is not None:
        typed = rules.masking.batch(typed, rules.schema.names)
    images = _images(typed, marker, rules) if rules.options.keeps_images else None
    if needed_facts(rules):
        typed = with_operations(typed, operation_column([Operation.SNAPSHOT] * typed.num_rows), rules)
    return LandingRows(typed, typed.num_rows, has_snapshots=True, images=images)


def _check_columns(given: pa.Schema, rules: RowRules) -> None:
    """Raise RejectedInput for every column that is unknown, missing or of a type that cannot become the table's."""
    problems = [*unknown_columns(given, rules)]
    for column in rules.schema.columns:
        is_key = column.name in rules.schema.key_set
        if column.name not in given.names:
            if is_key or not column.nullable:
                problems.append(column_problem(Code.INCOMPLETE_INSERT, "the required column is not given", column))
        elif pa.types.is_null(of := given.field(column.name).type):
            if is_key or not column.nullable:
                code = Code.NULL_KEY if is_key else Code.NULL_VALUE
                problems.append(column_problem(code, "required column is NULL in every row", column))
        elif (problem := other_kind(of, column)) is not None:
            problems.append(problem)
    if problems:
        remedy = TAKE_TABLE_TYPE if problems[0].code is Code.SCHEMA_MISMATCH else None
        raise RejectedInput.of(tuple(problems), remedy=remedy)


def _marker(rules: RowRules) -> RowMarker:
    if rules.cdc_started and not rules.in_load:
        if rules.options.reload is Reload.REJECT:
            detail = "snapshot rows for a table that already has other changes"
            raise RejectedInput.of((Problem(Code.RELOAD_REQUIRES_RECREATE, detail),))
        return RowMarker.UPSERT
    return RowMarker.UPSERT if rules.options.insert_marker is InsertMarker.UPSERT else RowMarker.INSERT


def _array(given: pa.Table, column: Column, rules: RowRules, max_bytes: int) -> pa.Array:
    if column.name not in given.schema.names:
        return pa.nulls(given.num_rows, column.type.arrow)
    array = typed_array(one_array(given.column(column.name)), column, rules.options, max_bytes)
    is_key = column.name in rules.schema.key_set
    if (is_key or not column.nullable) and array.null_count:
        code = Code.NULL_KEY if is_key else Code.NULL_VALUE
        raise rejected_rows(code, "required column is NULL", column, pc.is_null(array))
    return array


def _images(typed: pa.RecordBatch, marker: RowMarker, rules: RowRules) -> ImageRows:
    keys = row_keys([typed.column(name) for name in rules.schema.key_columns])
    asks = marker is RowMarker.INSERT and rules.options.reads_images and not rules.schema.bare
    images = [image for rows in source_rows(typed, rules) for image in encode_images(rows)]
    return ImageRows(keys, images, inserts=range(len(keys)) if asks else ())
