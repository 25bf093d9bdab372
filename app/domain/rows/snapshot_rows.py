"""Types snapshot rows that arrive as Arrow columns: -> landing rows, checked by column and never by value.

Source of the rules: docs/formats.md, "Arrow streams".
"""

import binascii
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SourceValue
from app.domain.model.input_limits import UNLIMITED
from app.domain.model.table_options import BinaryEncoding, InsertMarker, PartialUpdates, Reload
from app.domain.model.table_schema import Column, TableSchema, TypeName
from app.domain.rows.conversion.column_conversion import BadValues, beyond_calendar, convert, hold_any
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.row_image import ImageRows, encode_image, row_keys
from app.domain.rows.row_rules import RowMarker, RowRules
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to

MAX_ROWS_NAMED: Final = 100

ROWS_AT_ONCE: Final = 1_024
"""Rows that become row images together: as Python values they take ten times the memory of typed ones."""

_WIDTH_OF_OFFSETS: Final = 32
"""Bits per row of a text or binary column beside its bytes."""

_TAKE_TABLE_TYPE: Final = (
    "Write the column in the table's type, or in another of the same kind; "
    "GET /v1/tables/{table}/schema shows the table's types."
)


def snapshot_rows(
    given: pa.Table,
    rules: RowRules,
    max_value_bytes: int = UNLIMITED.value_bytes,
    reserve: Callable[[int], None] = lambda _: None,
) -> LandingRows:
    """Return the landing rows of a table of checked arrays.

    Its columns are the destination's, by name, in any order; nullable ones can be absent. Types are the table's, or
    others of the same kind whose values fit; a column of type null is NULL in every row. `reserve` is called with the
    bytes of the typed rows before they are made, and raises if they are too many.
    Raises RejectedInput with `schema_mismatch`, `unknown_column`, `incomplete_insert`, `bad_value`,
    `value_too_large`, `null_key`, `null_value` or `reload_requires_recreate`.
    """
    marker = _marker(rules)
    _check_columns(given.schema, rules)
    reserve(typed_bytes(given, rules.schema))
    problems: list[Problem] = []
    arrays: list[pa.Array] = []
    for column in rules.schema.columns:
        try:
            arrays.append(array := _array(given, column, rules))
            _check_lengths(array, column, max_value_bytes)
        except RejectedInput as error:
            problems.extend(error.problems)
    if problems:
        raise RejectedInput.of(tuple(problems))
    markers = pa.repeat(pa.scalar(int(marker), pa.int32()), given.num_rows)
    typed = pa.RecordBatch.from_arrays([*arrays, markers], schema=rules.schema.arrow)
    images = _images(typed, marker, rules) if rules.options.partial_updates is PartialUpdates.COMPLETE else None
    return LandingRows(typed, typed.num_rows, has_snapshots=True, images=images)


def typed_bytes(given: pa.Table, schema: TableSchema) -> int:
    """Return the bytes of the rows once typed: the width of every column of the table, given or not, and all texts."""
    bits = sum(1 + (_WIDTH_OF_OFFSETS if _has_texts(of) else of.bit_width) for of in schema.arrow.types)
    texts = sum(given.column(field.name).nbytes for field in given.schema if _has_texts(field.type))
    return int(given.num_rows * bits // 8 + texts)


def _has_texts(of_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(of_type)
        or types.is_large_string(of_type)
        or types.is_binary(of_type)
        or types.is_large_binary(of_type)
        or types.is_fixed_size_binary(of_type)
    )


def _check_columns(given: pa.Schema, rules: RowRules) -> None:
    """Raise RejectedInput for every column that is unknown, missing or of a type that cannot become the table's."""
    problems = [*_unknown_columns(given, rules)]
    for column in rules.schema.columns:
        is_key = column.name in rules.schema.key_set
        if column.name not in given.names:
            if is_key or not column.nullable:
                problems.append(_problem(Code.INCOMPLETE_INSERT, "the required column is not given", column))
        elif pa.types.is_null(of := given.field(column.name).type):
            if is_key or not column.nullable:
                code = Code.NULL_KEY if is_key else Code.NULL_VALUE
                problems.append(_problem(code, "required column is NULL in every row", column))
        elif of != column.type.arrow and not _is_kin(of, column.type.arrow):
            detail = f"column is {of} in the stream and {column.type} in the table"
            problems.append(_problem(Code.SCHEMA_MISMATCH, detail, column))
    if problems:
        remedy = _TAKE_TABLE_TYPE if problems[0].code is Code.SCHEMA_MISMATCH else None
        raise RejectedInput.of(tuple(problems), remedy=remedy)


def _marker(rules: RowRules) -> RowMarker:
    if rules.cdc_started:
        if rules.options.reload is Reload.REJECT or rules.schema.bare:
            detail = "snapshot rows for a table that already has other changes"
            raise RejectedInput.of((Problem(Code.RELOAD_REQUIRES_RECREATE, detail),))
        return RowMarker.UPSERT
    return RowMarker.UPSERT if rules.options.insert_marker is InsertMarker.UPSERT else RowMarker.INSERT


def _unknown_columns(given: pa.Schema, rules: RowRules) -> Iterator[Problem]:
    known = {*rules.schema.names, *rules.options.exclude}
    for name in given.names:
        if name not in known:
            yield Problem(
                Code.UNKNOWN_COLUMN, "the column is not in the table", pointer=pointer_to("", name), column=name
            )


def _array(given: pa.Table, column: Column, rules: RowRules) -> pa.Array:
    if column.name not in given.schema.names or pa.types.is_null(given.schema.field(column.name).type):
        return pa.nulls(given.num_rows, column.type.arrow)
    array = _typed(_one_array(given.column(column.name)), column)
    is_key = column.name in rules.schema.key_set
    if (is_key or not column.nullable) and array.null_count:
        code = Code.NULL_KEY if is_key else Code.NULL_VALUE
        raise _rejected_rows(code, "required column is NULL", column, pc.is_null(array))
    return array


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _check_lengths(array: pa.Array, column: Column, max_bytes: int) -> None:
    """Raise RejectedInput `value_too_large` if a value exceeds the limit."""
    if column.type.name in {TypeName.STRING, TypeName.JSON, TypeName.BINARY} and array.nbytes > max_bytes:
        too_long = pc.greater(pc.binary_length(array), max_bytes)
        if pc.any(too_long).as_py():
            raise _rejected_rows(Code.VALUE_TOO_LARGE, f"longer than {max_bytes} bytes", column, too_long)


def _typed(given: pa.Array, column: Column) -> pa.Array:
    wanted = column.type.arrow
    try:
        array = given if given.type == wanted else pc.cast(given, wanted)
    except pa.ArrowInvalid:
        raise _rejected(Code.BAD_VALUE, f"a value does not fit {column.type}", column) from None
    if column.type.name is TypeName.FLOAT32 and given.type == pa.float64():
        lost = pc.xor(pc.is_inf(given), pc.is_inf(array))
        lost = pc.or_(lost, pc.and_(pc.equal(array, 0.0), pc.not_equal(given, 0.0)))
        if pc.any(lost).as_py():
            raise _rejected_rows(Code.BAD_VALUE, "value is beyond the range of float32", column, lost)
    if column.type.name in {TypeName.DATE, TypeName.TIMESTAMP}:
        beyond = beyond_calendar(array)
        if pc.any(beyond).as_py():
            raise _rejected_rows(Code.BAD_VALUE, "value is outside the years 1 to 9999", column, beyond)
    elif column.type.name in {TypeName.STRING, TypeName.JSON} and hold_any(array, b"\0"):
        raise _rejected(Code.BAD_VALUE, "a text has the character U+0000", column)
    if column.type.name is TypeName.JSON:
        try:
            return convert(array.to_pylist(), column.type)
        except BadValues as bad:
            problems = [_problem(Code.BAD_VALUE, f"value {why}", column, row) for row, why in bad.reasons.items()]
            raise RejectedInput.of(tuple(problems[:MAX_ROWS_NAMED])) from None
    return array


def _is_kin(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether values of one type mean the same in the other; whether they fit is checked later."""
    types = pa.types
    if types.is_timestamp(wanted):
        return bool(types.is_timestamp(given) and given.tz is not None)
    if types.is_string(wanted):
        return bool(types.is_large_string(given))
    if types.is_binary(wanted):
        return bool(types.is_large_binary(given) or types.is_fixed_size_binary(given))
    kinds = (types.is_integer, types.is_floating, types.is_decimal, types.is_date)
    return any(is_kind(given) and is_kind(wanted) for is_kind in kinds)


def _images(typed: pa.RecordBatch, marker: RowMarker, rules: RowRules) -> ImageRows:
    keys = row_keys([typed.column(name) for name in rules.schema.key_columns])
    inserts = range(len(keys)) if marker is RowMarker.INSERT and not rules.schema.bare else ()
    slices = (typed.slice(start, ROWS_AT_ONCE) for start in range(0, typed.num_rows, ROWS_AT_ONCE))
    return ImageRows(keys, [image for rows in slices for image in _images_of(rows, rules)], {}, inserts)


def _images_of(rows: pa.RecordBatch, rules: RowRules) -> list[bytes]:
    columns = [
        [source_value(value, rules.options.encoding_of(column.name)) for value in rows.column(column.name).to_pylist()]
        for column in rules.schema.columns
    ]
    return [encode_image(row) for row in zip(*columns, strict=True)]


def source_value(value: Any, encoding: BinaryEncoding) -> SourceValue:
    """Return a typed value as a source would write it, so that it reads as the same value."""
    if isinstance(value, bytes):
        return (binascii.hexlify(value) if encoding is BinaryEncoding.HEX else b64encode(value)).decode()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)
    return value  # type: ignore[no-any-return]  # the remaining types are source values already


def _rejected(code: Code, detail: str, column: Column) -> RejectedInput:
    return RejectedInput.of((_problem(code, detail, column),))


def _rejected_rows(code: Code, detail: str, column: Column, wrong: pa.BooleanArray) -> RejectedInput:
    rows = pc.indices_nonzero(wrong).slice(0, MAX_ROWS_NAMED).to_pylist()
    return RejectedInput.of(tuple(_problem(code, detail, column, row) for row in rows))


def _problem(code: Code, detail: str, column: Column, row: int | None = None) -> Problem:
    return Problem(code, detail, row, pointer_to("", column.name), column.name)
