"""Snapshot rows that come as Arrow columns -> landing rows: checked by column, never by value."""

import binascii
from base64 import b64encode
from collections.abc import Iterator
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.change import SourceValue
from app.domain.column_conversion import BadValues, beyond_calendar, convert, hold_any
from app.domain.input_limits import UNLIMITED
from app.domain.json_pointer import pointer_to
from app.domain.landing_rows import LandingRows, RowRules
from app.domain.row_builder import RowMarker
from app.domain.row_image import ImageRows, encode_image, row_keys
from app.domain.table_options import BinaryEncoding, InsertMarker, PartialUpdates, Reload
from app.domain.table_schema import Column, TypeName
from app.errors import Code, Problem, RejectedInput

MOST_ROWS_NAMED: Final = 100


def snapshot_rows(batch: pa.RecordBatch, rules: RowRules, most_value_bytes: int = UNLIMITED.value_bytes) -> LandingRows:
    """The rows of a batch whose columns are the table's, by name, in any order; a nullable one may be absent.

    Types are the table's, or narrower ones of the same kind. Raises RejectedInput with `schema_mismatch`,
    `unknown_column`, `incomplete_insert`, `bad_value`, `value_too_large`, `null_key`, `null_value` or
    `reload_requires_recreate`.
    """
    marker = _marker(rules)
    problems = [*_unknown_columns(batch, rules)]
    arrays: list[pa.Array] = []
    for column in rules.schema.columns:
        try:
            arrays.append(array := _array(batch, column, rules))
            _check_lengths(array, column, most_value_bytes)
        except RejectedInput as error:
            problems.extend(error.problems)
    if problems:
        raise RejectedInput.of(tuple(problems))
    markers = pa.array([marker] * batch.num_rows, pa.int32())
    typed = pa.RecordBatch.from_arrays([*arrays, markers], schema=rules.schema.arrow)
    images = _images(typed, rules) if rules.options.partial_updates is PartialUpdates.COMPLETE else None
    return LandingRows(typed, typed.num_rows, has_snapshots=True, images=images)


def _marker(rules: RowRules) -> RowMarker:
    if rules.cdc_started:
        if rules.options.reload is Reload.REFUSE or rules.schema.bare:
            detail = "snapshot rows for a table that has changes already"
            raise RejectedInput.of((Problem(Code.RELOAD_REQUIRES_RECREATE, detail),))
        return RowMarker.UPSERT
    return RowMarker.UPSERT if rules.options.insert_marker is InsertMarker.UPSERT else RowMarker.INSERT


def _unknown_columns(batch: pa.RecordBatch, rules: RowRules) -> Iterator[Problem]:
    known = {*rules.schema.names, *rules.options.exclude}
    for name in batch.schema.names:
        if name not in known:
            yield Problem(Code.UNKNOWN_COLUMN, "column is not in the table", pointer=pointer_to("", name), column=name)


def _array(batch: pa.RecordBatch, column: Column, rules: RowRules) -> pa.Array:
    required = not column.nullable or column.name in rules.schema.key_set
    if column.name not in batch.schema.names:
        if required:
            raise _refused(Code.INCOMPLETE_INSERT, "required column not given", column)
        return pa.nulls(batch.num_rows, column.type.arrow)
    array = _typed(batch.column(column.name), column, rules)
    if required and array.null_count:
        code = Code.NULL_KEY if column.name in rules.schema.key_set else Code.NULL_VALUE
        raise _refused_rows(code, "required column is NULL", column, pc.is_null(array))
    return array


def _check_lengths(array: pa.Array, column: Column, most: int) -> None:
    """Raises RejectedInput `value_too_large`."""
    if column.type.name in {TypeName.STRING, TypeName.JSON, TypeName.BINARY} and array.nbytes > most:
        too_long = pc.greater(pc.binary_length(array), most)
        if pc.any(too_long).as_py():
            raise _refused_rows(Code.VALUE_TOO_LARGE, f"longer than {most} bytes", column, too_long)


def _typed(given: pa.Array, column: Column, rules: RowRules) -> pa.Array:
    wanted = column.type.arrow
    if given.type != wanted and not _is_kin(given.type, wanted):
        detail = f"column is {given.type} in the stream and {column.type} in the table"
        raise _refused(Code.SCHEMA_MISMATCH, detail, column)
    try:
        array = given if given.type == wanted else pc.cast(given, wanted)
    except pa.ArrowInvalid:
        raise _refused(Code.BAD_VALUE, f"a value does not fit {column.type}", column) from None
    if column.type.name in {TypeName.DATE, TypeName.TIMESTAMP}:
        beyond = beyond_calendar(array)
        if pc.any(beyond).as_py():
            raise _refused_rows(Code.BAD_VALUE, "value is not a moment of the calendar", column, beyond)
    elif column.type.name in {TypeName.STRING, TypeName.JSON} and hold_any(array, b"\0"):
        raise _refused(Code.BAD_VALUE, "a text holds the character U+0000", column)
    if column.type.name is TypeName.JSON:
        try:
            return convert(array.to_pylist(), column.type)
        except BadValues as bad:
            problems = [_problem(Code.BAD_VALUE, f"value {why}", column, row) for row, why in bad.reasons.items()]
            raise RejectedInput.of(tuple(problems[:MOST_ROWS_NAMED])) from None
    return array


def _is_kin(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type mean the same in the other; whether they fit is another thing."""
    types = pa.types
    if types.is_timestamp(wanted):
        return bool(types.is_timestamp(given) and given.tz is not None)
    if types.is_string(wanted):
        return bool(types.is_large_string(given) or types.is_string_view(given))
    if types.is_binary(wanted):
        return bool(types.is_large_binary(given) or types.is_binary_view(given) or types.is_fixed_size_binary(given))
    kinds = (types.is_integer, types.is_floating, types.is_decimal, types.is_date)
    return any(is_kind(given) and is_kind(wanted) for is_kind in kinds)


def _images(typed: pa.RecordBatch, rules: RowRules) -> ImageRows:
    columns = [
        [source_value(value, rules.options.encoding_of(column.name)) for value in typed.column(column.name).to_pylist()]
        for column in rules.schema.columns
    ]
    keys = row_keys([typed.column(name) for name in rules.schema.key_columns])
    return ImageRows(keys, [encode_image(row) for row in zip(*columns, strict=True)], {})


def source_value(value: Any, encoding: BinaryEncoding) -> SourceValue:
    """A typed value as a source would write it, which reads as the same value."""
    if isinstance(value, bytes):
        return (binascii.hexlify(value) if encoding is BinaryEncoding.HEX else b64encode(value)).decode()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)
    return value  # type: ignore[no-any-return]  # what remains of the types is a source value as it is


def _refused(code: Code, detail: str, column: Column) -> RejectedInput:
    return RejectedInput.of((_problem(code, detail, column),))


def _refused_rows(code: Code, detail: str, column: Column, wrong: pa.BooleanArray) -> RejectedInput:
    rows = pc.indices_nonzero(wrong).slice(0, MOST_ROWS_NAMED).to_pylist()
    return RejectedInput.of(tuple(_problem(code, detail, column, row) for row in rows))


def _problem(code: Code, detail: str, column: Column, row: int | None = None) -> Problem:
    return Problem(code, detail, row, pointer_to("", column.name), column.name)
