"""Rows that arrive as Arrow columns -> landing rows and row images: checked by column and never by value.

Snapshot rows are those of an initial load (docs/reference/arrow.md); changed rows are upserts, inserts,
updates and deletes ("Plain rows"). All rows of a stream have the same columns, so there is one shape per operation, and
`row_layout` decides how its rows land. Invariant: the rows equal those of `landing_rows` for the same rows as JSON.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import UNLIMITED, Operation, SourceValue
from app.domain.model.table_options import BinaryEncoding, Reload, SourceOrder, TableOptions
from app.domain.model.table_schema import Column, TypeName
from app.domain.rows.conversion import (
    BadValues,
    ValueReading,
    beyond_calendar,
    calendar_of,
    convert,
    hold_any,
    local_timestamps,
    outside_calendar,
    reading_of,
)
from app.domain.rows.derived_columns import check_text_bytes, with_derived
from app.domain.rows.landing_projection import row_bytes
from app.domain.rows.landing_rows import LACKING, LandingRows, rejection
from app.domain.rows.nested_values import MAX_NESTED_BYTES, json_texts, nested_bytes, written_bytes
from app.domain.rows.row_facts import needed_facts, operation_column, with_operations
from app.domain.rows.row_image import ImageRows, IncompleteRow, encode_image, encode_images, row_keys
from app.domain.rows.row_layout import LandingProblem, RowLayout, layout_of
from app.domain.rows.row_rules import RowMarker, RowRules, Shape, Values
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

ROWS_AT_ONCE: Final = 1_024
"""Rows that become row images together: as Python values they take ten times the memory of typed ones."""


def source_rows(typed: pa.RecordBatch, rules: RowRules) -> Iterator[list[Values]]:
    """Yield the values of some rows at a time, without the row marker, as a source would write them."""
    columns = rules.schema.columns
    encodings = [rules.options.encoding_of(column.name) for column in columns]
    for start in range(0, typed.num_rows, ROWS_AT_ONCE):
        rows = typed.slice(start, ROWS_AT_ONCE)
        values = [
            [source_value(value, encoding) for value in _exact(rows.column(at)).to_pylist()]
            for at, encoding in enumerate(encodings)
        ]
        yield [*zip(*values, strict=True)]


def _exact(column: pa.Array) -> pa.Array:
    """Return floats of 32 bits as strings: as Python's floats of 64 bits, 0.1 would be 0.10000000149011612."""
    return pc.cast(column, pa.string()) if pa.types.is_float32(column.type) else column


def source_value(value: Any, encoding: BinaryEncoding) -> SourceValue:
    """Return a typed value as a source would write it, so that it reads as the same value."""
    if isinstance(value, bytes):
        return written_bytes(value, encoding)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)
    kept: SourceValue = value  # the remaining types are source values already
    return kept


MAX_ROWS_NAMED: Final = 100

_BEYOND_CALENDAR: Final = "value is outside the years 1 to 9999; see the option out_of_range"

TAKE_TABLE_TYPE: Final = (
    "Write the column in the table's type, or in another of the same kind; "
    "GET /v1/tables/{table}/schema shows the table's types."
)


def unknown_columns(given: pa.Schema, rules: RowRules) -> Iterator[Problem]:
    """Yield a problem for each column that the table does not have."""
    known = {*rules.schema.names}
    for name in given.names:
        if name not in known:
            yield Problem(
                Code.UNKNOWN_COLUMN, "the column is not in the table", pointer=pointer_to("", name), column=name
            )


def other_kind(given: pa.DataType, column: Column) -> Problem | None:
    """Return the problem of a column whose type cannot become the table's; null can become any."""
    wanted = column.type.arrow
    if given == wanted or pa.types.is_null(given) or _is_same_kind(given, wanted):
        return None
    shown = "a list, struct or map" if pa.types.is_nested(given) else given
    detail = f"column is {shown} in the stream and {column.type} in the table"
    return column_problem(Code.SCHEMA_MISMATCH, detail, column)


def typed_array(
    given: pa.Array,
    column: Column,
    options: TableOptions,
    max_bytes: int,
    reserve: Callable[[int], None] = lambda _: None,
) -> pa.Array:
    """Return the values in the table's type. Raises RejectedInput `bad_value` or `value_too_large`.

    `reserve` adds the bytes of the strings of lists, structs and maps.
    """
    if pa.types.is_null(given.type):
        return pa.nulls(len(given), column.type.arrow)
    reading = reading_of(column.name, options)
    if pa.types.is_nested(given.type):
        array = _nested_column(given, column, reading, reserve)
    elif reading.saturates and column.type.name in {TypeName.DATE, TypeName.TIMESTAMP}:
        array = _saturated(given, column, reading)
    else:
        array = _typed_column(given, column, reading)
    _check_lengths(array, column, max_bytes)
    return array


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def column_problem(code: Code, detail: str, column: Column, row: int | None = None) -> Problem:
    """Return the problem of a column, or of its value in one row."""
    return Problem(code, detail, row, pointer_to("", column.name), column.name)


def rejected_rows(code: Code, detail: str, column: Column, wrong: pa.BooleanArray) -> RejectedInput:
    """Return the rejection of the rows in which `wrong` is true."""
    return RejectedInput.of(tuple(_row_problems(code, detail, column, wrong)))


def _row_problems(code: Code, detail: str, column: Column, wrong: pa.BooleanArray) -> list[Problem]:
    rows = pc.indices_nonzero(wrong).slice(0, MAX_ROWS_NAMED).to_pylist()
    return [column_problem(code, detail, column, row) for row in rows]


def _with_derived(typed: pa.RecordBatch, rules: RowRules, incomplete: Collection[int] = ()) -> pa.RecordBatch:
    """Return the rows with their derived columns. Raises RejectedInput `bad_value` or `body_too_large`."""
    check_text_bytes(typed, rules)
    typed, wrong = with_derived(typed, rules)
    found = [one for one in wrong if one.row not in incomplete][:MAX_ROWS_NAMED]
    if found:
        raise RejectedInput.of(tuple(Problem(Code.BAD_VALUE, one.detail, one.row, _AT, one.column) for one in found))
    return typed


def _check_lengths(array: pa.Array, column: Column, max_bytes: int) -> None:
    """Raise RejectedInput `value_too_large` if a value exceeds the limit."""
    if column.type.name in {TypeName.STRING, TypeName.JSON, TypeName.BINARY} and array.nbytes > max_bytes:
        too_long = pc.greater(pc.binary_length(array), max_bytes)
        if pc.any(too_long).as_py():
            raise rejected_rows(Code.VALUE_TOO_LARGE, f"longer than {max_bytes} bytes", column, too_long)


def _saturated(given: pa.Array, column: Column, reading: ValueReading) -> pa.Array:
    """Return dates or timestamps in the table's type, those outside the years 1 to 9999 as the first or last one."""
    is_early, is_late = outside_calendar(given)
    array = _typed_column(pc.if_else(pc.or_(is_early, is_late), None, given), column, reading)
    first, last = (pa.scalar(one, column.type.arrow) for one in calendar_of(column.type.arrow))
    return pc.if_else(is_early, first, pc.if_else(is_late, last, array))


def _typed_column(given: pa.Array, column: Column, reading: ValueReading) -> pa.Array:
    wanted = column.type.arrow
    is_local = pa.types.is_timestamp(given.type) and given.type.tz is None
    given_to = pa.timestamp("us") if is_local else wanted
    is_time = column.type.name in {TypeName.DATE, TypeName.TIMESTAMP}
    try:
        array = given if given.type == wanted else pc.cast(given, given_to)
    except pa.ArrowInvalid:
        if is_time:
            _check_values(pc.or_(*outside_calendar(given)), _BEYOND_CALENDAR, column)
        unfit = islice(_rows_that_do_not_cast(given, given_to), MAX_ROWS_NAMED)
        detail = f"value does not fit {column.type}"
        raise RejectedInput.of(tuple(column_problem(Code.BAD_VALUE, detail, column, row) for row in unfit)) from None
    if column.type.name is TypeName.FLOAT32 and given.type == pa.float64():
        lost = pc.xor(pc.is_inf(given), pc.is_inf(array))
        lost = pc.or_(lost, pc.and_(pc.equal(array, 0.0), pc.not_equal(given, 0.0)))
        _check_values(lost, "value is beyond the range of float32", column)
    if is_time:
        _check_values(beyond_calendar(array), _BEYOND_CALENDAR, column)
    elif column.type.name in {TypeName.STRING, TypeName.JSON} and hold_any(array, b"\0"):
        _check_values(pc.match_substring(array, "\0"), "string has the character U+0000", column)
    if is_local:
        return _defined(lambda: local_timestamps(array, column.type, reading), column)
    if column.type.name is TypeName.JSON:
        return _defined(lambda: convert(array.to_pylist(), column.type), column)
    return array


def _check_values(wrong: pa.BooleanArray, detail: str, column: Column) -> None:
    """Raise RejectedInput `bad_value` if `wrong` is true in a row."""
    if pc.any(wrong).as_py():
        raise rejected_rows(Code.BAD_VALUE, detail, column, wrong)


def _rows_that_do_not_cast(given: pa.Array, wanted: pa.DataType) -> Iterator[int]:
    """Yield the rows of an array that the kernel rejects as a whole; it does not say which they are."""
    half = len(given) // 2
    for start, part in ((0, given.slice(0, half)), (half, given.slice(half))):
        try:
            pc.cast(part, wanted)
        except pa.ArrowInvalid:
            yield from (start + row for row in _rows_that_do_not_cast(part, wanted)) if len(part) > 1 else (start,)


def _nested_column(
    given: pa.Array, column: Column, reading: ValueReading, reserve: Callable[[int], None]
) -> pa.StringArray:
    sizes = nested_bytes(given)
    too_many = pa.array(sizes > MAX_NESTED_BYTES)
    if pc.any(too_many).as_py():
        raise rejected_rows(Code.VALUE_TOO_LARGE, "has too many elements", column, too_many)
    return _defined(lambda: json_texts(given, sizes, reading.binary, reserve), column)


def _defined(converted: Callable[[], pa.Array], column: Column) -> pa.Array:
    try:
        return converted()
    except BadValues as bad:
        problems = [column_problem(Code.BAD_VALUE, f"value {why}", column, row) for row, why in bad.reasons.items()]
        raise RejectedInput.of(tuple(problems[:MAX_ROWS_NAMED])) from None


def _is_same_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return True if values of one type mean the same in the other; whether they fit is checked later."""
    types = pa.types
    if types.is_timestamp(wanted):
        return bool(types.is_timestamp(given))
    if types.is_string(wanted):
        return bool(types.is_large_string(given) or types.is_nested(given))
    if types.is_binary(wanted):
        return bool(types.is_large_binary(given) or types.is_fixed_size_binary(given))
    kinds = (types.is_integer, types.is_floating, types.is_decimal, types.is_date)
    return any(is_kind(given) and is_kind(wanted) for is_kind in kinds)


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
        raise RejectedInput.at(Code.BAD_SEQUENCE, "a row has no source position", 0)
    layouts, problems = _layouts(frozenset(given.schema.names), operations, rules)
    deletes = _deletes(operations)
    only_keys = all(operation is Operation.DELETE for operation in operations.kinds)
    used = [name for name in given.schema.names if name in (rules.schema.key_set if only_keys else rules.schema.names)]
    used = [name for name in used if name not in rules.options.exclude]
    problems = [*problems, *_of_other_kinds(given.schema, used, rules)]
    _check_columns(problems)
    reserve(given.num_rows * row_bytes(rules))
    arrays, wrong = _typed(given, frozenset(used), deletes, rules, max_value_bytes, reserve)
    if problems or wrong:
        raise rejection([*problems, *wrong])
    markers = pa.array([int(layout.marker) for layout in layouts], pa.int32()).take(operations.codes)
    typed = pa.RecordBatch.from_arrays([*arrays, markers], schema=rules.schema.arrow)
    if rules.masking is not None:
        typed = rules.masking.batch(typed, rules.schema.names)
    images = None
    if rules.options.keeps_images:
        images = _images(typed, layouts, operations, rules)
    if needed_facts(rules):
        by_kind = operation_column([layout.operation for layout in layouts])
        typed = with_operations(typed, by_kind.take(operations.codes), rules)
    typed = _with_derived(typed, rules, () if images is None else images.incomplete)
    return LandingRows(typed, typed.num_rows, starts_cdc=True, images=images)


def _layouts(
    columns: frozenset[str], operations: RowOperations, rules: RowRules
) -> tuple[Sequence[RowLayout], Sequence[Problem]]:
    """Return the layout of each kind, and the problems of kinds whose rows cannot land, each in their first row."""
    layouts: list[RowLayout] = []
    problems: list[Problem] = []
    for kind, operation in enumerate(operations.kinds):
        is_delete = operation is Operation.DELETE
        shape = Shape(operation, columns if is_delete else None, None if is_delete else columns)
        outcome = layout_of(shape, rules).same
        layouts.extend(outcome.rows)
        for problem in outcome.problems:
            problems.extend(_problems(problem, operations.first_row(kind)))
    return layouts, problems


def _check_columns(problems: Sequence[Problem]) -> None:
    """Raise RejectedInput for a wrong column. Of rows that only lack columns, the values are checked first."""
    if any(problem.code not in LACKING for problem in problems):
        wrong = rejection(problems)
        raise rejection(problems, remedy=TAKE_TABLE_TYPE) if wrong.code is Code.SCHEMA_MISMATCH else wrong


def _problems(problem: LandingProblem, row: int) -> Sequence[Problem]:
    if not problem.columns:
        return [Problem(problem.code, problem.detail, row, _AT)]
    return [Problem(problem.code, problem.detail, row, pointer_to(_AT, name), name) for name in problem.columns]


def _deletes(operations: RowOperations) -> pa.BooleanArray | None:
    """Return which rows are deleted, None if none is."""
    are_deletes = [operation is Operation.DELETE for operation in operations.kinds]
    return pa.array(are_deletes).take(operations.codes) if any(are_deletes) else None


def _of_other_kinds(given: pa.Schema, used: Sequence[str], rules: RowRules) -> Iterator[Problem]:
    columns = {column.name: column for column in rules.schema.columns}
    for name in used:
        if (problem := other_kind(given.field(name).type, columns[name])) is not None:
            yield problem


def _typed(
    given: pa.Table,
    used: frozenset[str],
    deletes: pa.BooleanArray | None,
    rules: RowRules,
    max_bytes: int,
    reserve: Callable[[int], None],
) -> tuple[Sequence[pa.Array], Sequence[Problem]]:
    """Return the typed columns and what is wrong in them; columns that row images will complete are NULL."""
    problems: list[Problem] = []
    arrays: list[pa.Array] = []
    kept = None if deletes is None else pc.if_else(deletes, None, pa.array(range(given.num_rows), pa.int64()))
    for column in rules.schema.columns:
        if column.name not in used:
            arrays.append(pa.nulls(given.num_rows, column.type.arrow))
            continue
        array = one_array(given.column(column.name))
        if kept is not None and column.name not in rules.schema.key_set:
            array = array.take(kept)  # a delete has the key only, whatever else its row gives
        problems.extend(_nulls(array, column, rules, deletes))
        try:
            arrays.append(typed_array(array, column, rules.options, max_bytes, reserve))
        except RejectedInput as error:
            problems.extend(error.problems)
    return arrays, problems


def _nulls(array: pa.Array, column: Column, rules: RowRules, deletes: pa.BooleanArray | None = None) -> list[Problem]:
    """Return the problems of NULLs where the column requires a value; rows that are `deletes` require a key only."""
    is_key = column.name in rules.schema.key_set
    if not array.null_count or (column.nullable and not is_key):
        return []
    if is_key:
        return _row_problems(Code.NULL_KEY, "key is NULL", column, pc.is_null(array))
    wrong = pc.is_null(array) if deletes is None else pc.and_not(pc.is_null(array), deletes)
    return _row_problems(Code.NULL_VALUE, "required column is NULL", column, wrong)


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


def snapshot_rows(
    given: pa.Table,
    rules: RowRules,
    max_value_bytes: int = UNLIMITED.value_bytes,
    reserve: Callable[[int], None] = lambda _: None,
) -> LandingRows:
    """Return the landing rows of a table of checked arrays.

    Its columns are the destination's, by name, in any order; nullable ones can be absent. Types are the table's, or
    others of the same kind whose values fit; a column of type null is NULL in every row. `reserve` adds the most bytes
    that the rows take beside the strings that the body has, before they are made, and raises if they are too many.
    Raises RejectedInput with `schema_mismatch`, `unknown_column`, `incomplete_insert`, `bad_value`,
    `value_too_large`, `null_key`, `null_value` or `reload_requires_recreate`.
    """
    marker = _marker(rules)
    given = given.select([name for name in given.schema.names if name not in rules.options.exclude])
    problems = _problems_of_columns(given.schema, rules)
    _check_columns(problems)
    reserve(given.num_rows * row_bytes(rules))
    arrays: list[pa.Array] = []
    for column in rules.schema.columns:
        if column.name not in given.schema.names:
            arrays.append(pa.nulls(given.num_rows, column.type.arrow))
            continue
        array = one_array(given.column(column.name))
        if not pa.types.is_null(array.type):
            problems.extend(_nulls(array, column, rules))
        try:
            arrays.append(typed_array(array, column, rules.options, max_value_bytes, reserve))
        except RejectedInput as error:
            problems.extend(error.problems)
    if problems:
        raise rejection(problems)
    markers = pa.repeat(pa.scalar(int(marker), pa.int32()), given.num_rows)
    typed = pa.RecordBatch.from_arrays([*arrays, markers], schema=rules.schema.arrow)
    if rules.masking is not None:
        typed = rules.masking.batch(typed, rules.schema.names)
    images = _images_of_snapshot(typed, marker, rules) if rules.options.keeps_images else None
    if needed_facts(rules):
        typed = with_operations(typed, operation_column([Operation.SNAPSHOT] * typed.num_rows), rules)
    typed = _with_derived(typed, rules)
    return LandingRows(typed, typed.num_rows, has_snapshots=True, images=images)


def _problems_of_columns(given: pa.Schema, rules: RowRules) -> list[Problem]:
    """Return a problem for each column that is unknown, missing, NULL, or of a type that cannot become the table's."""
    problems = [*unknown_columns(given, rules)]
    for column in rules.schema.columns:
        is_key = column.name in rules.schema.key_set
        if column.name not in given.names:
            if is_key or not column.nullable:
                problems.append(column_problem(Code.INCOMPLETE_INSERT, "the column is not given", column))
        elif pa.types.is_null(of := given.field(column.name).type):
            if is_key or not column.nullable:
                code = Code.NULL_KEY if is_key else Code.NULL_VALUE
                problems.append(column_problem(code, "required column is NULL in every row", column))
        elif (problem := other_kind(of, column)) is not None:
            problems.append(problem)
    return problems


def _marker(rules: RowRules) -> RowMarker:
    if rules.cdc_started and not rules.in_load:
        if rules.options.reload is Reload.REJECT:
            detail = "snapshot rows for a table that already has other changes"
            raise RejectedInput.at(Code.RELOAD_REQUIRES_RECREATE, detail)
        return RowMarker.UPSERT
    return RowMarker.UPSERT if rules.options.upserts_inserts else RowMarker.INSERT


def _images_of_snapshot(typed: pa.RecordBatch, marker: RowMarker, rules: RowRules) -> ImageRows:
    keys = row_keys([typed.column(name) for name in rules.schema.key_columns])
    asks = marker is RowMarker.INSERT and rules.options.reads_images and not rules.schema.bare
    images = [image for rows in source_rows(typed, rules) for image in encode_images(rows)]
    return ImageRows(keys, images, inserts=range(len(keys)) if asks else ())
