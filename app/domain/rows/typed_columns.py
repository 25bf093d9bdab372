"""Types rows of source values and row images: -> Arrow columns.

`typed_columns` names every value that does not fit by message and column. `typed_images` types row images as the rows
landed.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SourceValue
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.domain.rows.conversion import BadValues, ValueReading, convert, convert_texts, hold_any, reading_of
from app.domain.rows.row_image import by_position, known_values, list_images
from app.domain.rows.row_layout import MAX_PROBLEMS, RowBuilder
from app.domain.rows.row_rules import KeptByTable, RowMarker, RowRules
from app.domain.rows.shaped_rows import NULL_TEXT, ShapedRows
from mirrorgate.errors import Code, InvariantBroken, Problem
from mirrorgate.errors.exceptions import pointer_to


def typed_images(
    images: Sequence[bytes], schema: TableSchema, options: TableOptions, names: Iterable[str]
) -> list[pa.Array]:
    """Return these columns of rows, each as `ColumnType.arrow`; what an image does not know is NULL.

    Raises InvariantBroken `internal` if a value does not have the type with which it was accepted.
    """
    width = len(schema.columns)
    rows = list_images(images, width)
    if rows is None:
        known = [by_position(known_values(image), width) for image in images]
        rows = [[row.get(at) for at in range(width)] for row in known]
    by_column = list(zip(*rows, strict=True)) if rows else [()] * width
    ordinals = {column.name: at for at, column in enumerate(schema.columns)}
    return [_typed(by_column[ordinals[name]], schema, options, ordinals[name]) for name in names]


def _typed(values: Sequence[SourceValue], schema: TableSchema, options: TableOptions, ordinal: int) -> pa.Array:
    column = schema.columns[ordinal]
    try:
        return convert(values, column.type, reading_of(column.name, options))
    except BadValues:  # its text has no value, and neither has this one
        detail = f"a row image has a value in column {column.name!r} that is not {column.type}"
        raise InvariantBroken(Code.INTERNAL, detail) from None


MAX_ROWS_TOGETHER: Final = 1_000
"""Rows up to which columns are converted together, because a kernel call has a fixed cost."""


WrongRow: TypeAlias = tuple[int, Code, str]
"""A row of a column, and what is wrong with its value."""


def typed_columns(builder: RowBuilder, rules: RowRules) -> tuple[list[pa.Array], list[Problem]]:
    """Return the columns of `TableSchema.arrow`, the row marker last, and the problems of their values.

    Columns that row images will complete are NULL. The problems end at MAX_PROBLEMS.
    """
    schema, options = rules.schema, rules.options
    problems: list[Problem] = []
    markers = pa.array(builder.markers, pa.int32())
    by_column = list(zip(*builder.rows, strict=True)) if builder.rows else [()] * len(schema.columns)
    together = _converted_together(by_column, rules) if len(builder.rows) <= MAX_ROWS_TOGETHER else {}
    arrays = []
    for ordinal, (column, values) in enumerate(zip(schema.columns, by_column, strict=True)):
        if ordinal in together:
            array, wrong = together[ordinal], _missing(together[ordinal], column, schema, markers)
        else:
            array, wrong = typed_column(column, values, schema, options, markers)
        arrays.append(array)
        for row, code, detail in wrong:
            if row in builder.missing and ordinal in builder.missing[row].ordinals:
                continue
            if len(problems) >= MAX_PROBLEMS:
                break
            index, pointer = builder.origins[row]
            problems.append(Problem(code, detail, index, pointer_to(pointer, column.name), column.name))
    return [*arrays, markers], problems


class _Alike(NamedTuple):
    """Columns that are read alike, by their positions."""

    column_type: ColumnType
    reading: ValueReading
    ordinals: Sequence[int]


_ALIKE: Final = KeptByTable[Sequence[_Alike]]()


def fitting_columns(rows: ShapedRows, rules: RowRules) -> list[pa.Array] | None:
    """Return what `typed_columns` does, or None if a value does not fit."""
    columns = rules.schema.columns
    markers = pa.array(rows.markers, pa.int32())
    by_column = list(zip(*rows.rows, strict=True)) if rows.rows else [()] * len(columns)
    arrays: list[pa.Array] = [None] * len(columns)
    alike = _columns_alike(rules, frozenset(rows.typed_by))
    try:
        for at, type_column in rows.typed_by.items():
            arrays[at] = type_column(by_column[at])
        if len(rows.rows) <= MAX_ROWS_TOGETHER:
            _convert_at_once(by_column, alike, arrays, null_text=rows.null_text)
        else:
            for column_type, reading, ordinals in alike:
                for at in ordinals:
                    arrays[at] = _converted(by_column[at], column_type, reading, null_text=rows.null_text)
    except BadValues:
        return None
    for ordinal, (column, array) in enumerate(zip(columns, arrays, strict=True)):
        for row, _, _ in _missing(array, column, rules.schema, markers):
            if row not in rows.missing or ordinal not in rows.missing[row].ordinals:
                return None
    return [*arrays, markers]


def converted(by_column: Mapping[int, Sequence[SourceValue]], rules: RowRules) -> Mapping[int, pa.Array]:
    """Return the arrays of these columns, by ordinal. Raises BadValues."""
    found: dict[int, pa.Array] = {}
    for column_type, reading, ordinals in _columns_alike(rules):
        chosen = [at for at in ordinals if at in by_column]
        if chosen:
            height = len(by_column[chosen[0]])
            whole = convert([*chain.from_iterable(by_column[at] for at in chosen)], column_type, reading)
            found |= {at: whole.slice(number * height, height) for number, at in enumerate(chosen)}
    return found


def _columns_alike(rules: RowRules, others: frozenset[int] = frozenset()) -> Sequence[_Alike]:
    """Return all columns but `others`, by how they are read."""
    kept = _ALIKE.get(rules, others)
    if kept is not None:
        return kept
    alike: dict[tuple[ColumnType, ValueReading], list[int]] = {}
    for ordinal, column in enumerate(rules.schema.columns):
        if ordinal in others:
            continue
        alike.setdefault((column.type, reading_of(column.name, rules.options)), []).append(ordinal)
    return _ALIKE.keep(rules, others, [_Alike(*key, ordinals) for key, ordinals in alike.items()])


def _convert_at_once(
    by_column: Sequence[Sequence[SourceValue]], alike: Sequence[_Alike], arrays: list[pa.Array], *, null_text: bool
) -> None:
    """Put the arrays of all columns into `arrays`, with one kernel call per type. Raises BadValues."""
    height = len(by_column[0])
    in_order = [by_column[at] for group in alike for at in group.ordinals]
    texts = None
    if height and in_order and isinstance(in_order[0][0], str | None):  # otherwise not all values are strings
        with suppress(pa.ArrowTypeError):
            texts = _texts([*chain.from_iterable(in_order)], null_text=null_text)
    start = 0
    for column_type, reading, ordinals in alike:
        if texts is None:
            values = [*chain.from_iterable(by_column[at] for at in ordinals)]
            whole = _converted(values, column_type, reading, null_text=null_text)
        else:
            whole = convert_texts(texts.slice(start, height * len(ordinals)), column_type, reading)
            start += height * len(ordinals)
        for number, at in enumerate(ordinals):
            arrays[at] = whole.slice(number * height, height)


def _converted(
    values: Sequence[SourceValue], column_type: ColumnType, reading: ValueReading, *, null_text: bool
) -> pa.Array:
    """Do what `convert` does, for values of which the string `null` may mean NULL."""
    if not null_text:
        return convert(values, column_type, reading)
    try:
        texts = _texts(values, null_text=True)
    except pa.ArrowTypeError:
        return convert([None if value == NULL_TEXT else value for value in values], column_type, reading)
    return convert_texts(texts, column_type, reading)


def _texts(values: Sequence[SourceValue], *, null_text: bool) -> pa.StringArray:
    """Return values that are all strings, or raise ArrowTypeError."""
    texts = pa.array(values, pa.string())
    if null_text and hold_any(texts, [NULL_TEXT.encode()]):
        return pc.if_else(pc.equal(texts, NULL_TEXT), None, texts)
    return texts


def typed_column(
    column: Column,
    values: Sequence[SourceValue] | pa.StringArray,
    schema: TableSchema,
    options: TableOptions,
    markers: pa.Int32Array,
) -> tuple[pa.Array | None, list[WrongRow]]:
    """Return the column's array, or None if a value does not fit, and the wrong rows."""
    reading = reading_of(column.name, options)
    try:
        if isinstance(values, pa.StringArray):
            array = convert_texts(values, column.type, reading)
        else:
            array = convert(values, column.type, reading)
    except BadValues as bad:
        is_array = isinstance(values, pa.StringArray)
        given = values if is_array else pa.array([None if value is None else True for value in values])
        unfit = [(row, Code.BAD_VALUE, f"value {reason} ({column.type})") for row, reason in bad.reasons.items()]
        return None, sorted([*unfit, *_missing(given, column, schema, markers)])
    return array, _missing(array, column, schema, markers)


def _converted_together(by_column: Sequence[Sequence[SourceValue]], rules: RowRules) -> Mapping[int, pa.Array]:
    """Return the arrays of columns that are read alike, by ordinal, except those with a value that does not fit."""
    height = len(by_column[0])
    together: dict[int, pa.Array] = {}
    for column_type, reading, ordinals in _columns_alike(rules):
        try:
            whole = convert([*chain.from_iterable(by_column[at] for at in ordinals)], column_type, reading)
        except BadValues:
            continue
        together |= {at: whole.slice(number * height, height) for number, at in enumerate(ordinals)}
    return together


def _missing(
    array: pa.Array,
    column: Column,
    schema: TableSchema,
    markers: pa.Int32Array,
) -> list[WrongRow]:
    is_key = column.name in schema.key_columns
    if not array.null_count or (column.nullable and not is_key):
        return []
    if is_key:
        return [(row, Code.NULL_KEY, "key is NULL") for row in pc.indices_nonzero(pc.is_null(array)).to_pylist()]
    forbidden = pc.and_(pc.is_null(array), pc.not_equal(markers, RowMarker.DELETE))
    return [(row, Code.NULL_VALUE, "required column is NULL") for row in pc.indices_nonzero(forbidden).to_pylist()]


def chosen_rows(rows: int, chosen: Iterable[int]) -> pa.BooleanArray:
    """Return an array that is True in the chosen rows."""
    is_chosen = bytearray(rows)
    for row in chosen:
        is_chosen[row] = 1
    return pc.cast(pa.Array.from_buffers(pa.uint8(), rows, [None, pa.py_buffer(is_chosen)]), pa.bool_())
