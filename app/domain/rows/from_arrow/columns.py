"""One Arrow column from outside -> an array of the table's type, or a rejection that names the rows at fault."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, TypeName
from app.domain.rows.conversion.column_conversion import (
    BadValues,
    beyond_calendar,
    calendar_of,
    convert,
    hold_any,
    outside_calendar,
)
from app.domain.rows.conversion.value_reading import reading_of
from app.domain.rows.row_rules import RowRules
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to

MAX_ROWS_NAMED: Final = 100

TAKE_TABLE_TYPE: Final = (
    "Write the column in the table's type, or in another of the same kind; "
    "GET /v1/tables/{table}/schema shows the table's types."
)


def unknown_columns(given: pa.Schema, rules: RowRules) -> Iterator[Problem]:
    """Yield a problem for each column that the table does not have."""
    known = {*rules.schema.names, *rules.options.exclude}
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
    detail = f"column is {given} in the stream and {column.type} in the table"
    return column_problem(Code.SCHEMA_MISMATCH, detail, column)


def typed_array(given: pa.Array, column: Column, options: TableOptions, max_bytes: int) -> pa.Array:
    """Return the values in the table's type. Raises RejectedInput `bad_value` or `value_too_large`."""
    if pa.types.is_null(given.type):
        return pa.nulls(len(given), column.type.arrow)
    if reading_of(column.name, options).saturates and column.type.name in {TypeName.DATE, TypeName.TIMESTAMP}:
        array = _saturated(given, column)
    else:
        array = _typed(given, column)
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
    rows = pc.indices_nonzero(wrong).slice(0, MAX_ROWS_NAMED).to_pylist()
    return RejectedInput.of(tuple(column_problem(code, detail, column, row) for row in rows))


def _check_lengths(array: pa.Array, column: Column, max_bytes: int) -> None:
    """Raise RejectedInput `value_too_large` if a value exceeds the limit."""
    if column.type.name in {TypeName.STRING, TypeName.JSON, TypeName.BINARY} and array.nbytes > max_bytes:
        too_long = pc.greater(pc.binary_length(array), max_bytes)
        if pc.any(too_long).as_py():
            raise rejected_rows(Code.VALUE_TOO_LARGE, f"longer than {max_bytes} bytes", column, too_long)


def _saturated(given: pa.Array, column: Column) -> pa.Array:
    """Return dates or timestamps in the table's type, those outside the years 1 to 9999 as the first or last one."""
    is_early, is_late = outside_calendar(given)
    array = _typed(pc.if_else(pc.or_(is_early, is_late), None, given), column)
    first, last = (pa.scalar(one, column.type.arrow) for one in calendar_of(column.type.arrow))
    return pc.if_else(is_early, first, pc.if_else(is_late, last, array))


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
            raise rejected_rows(Code.BAD_VALUE, "value is beyond the range of float32", column, lost)
    if column.type.name in {TypeName.DATE, TypeName.TIMESTAMP}:
        beyond = beyond_calendar(array)
        if pc.any(beyond).as_py():
            detail = "value is outside the years 1 to 9999; see the option out_of_range"
            raise rejected_rows(Code.BAD_VALUE, detail, column, beyond)
    elif column.type.name in {TypeName.STRING, TypeName.JSON} and hold_any(array, b"\0"):
        raise _rejected(Code.BAD_VALUE, "a text has the character U+0000", column)
    if column.type.name is TypeName.JSON:
        try:
            return convert(array.to_pylist(), column.type)
        except BadValues as bad:
            problems = [column_problem(Code.BAD_VALUE, f"value {why}", column, row) for row, why in bad.reasons.items()]
            raise RejectedInput.of(tuple(problems[:MAX_ROWS_NAMED])) from None
    return array


def _is_same_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
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


def _rejected(code: Code, detail: str, column: Column) -> RejectedInput:
    return RejectedInput.of((column_problem(code, detail, column),))
