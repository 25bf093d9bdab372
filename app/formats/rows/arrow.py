"""Plain rows as Arrow columns: the operation of each row, from a column of texts beside the others."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import Operation
from app.domain.rows.from_arrow.changed_rows import RowOperations
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to
from app.formats.rows.operations import BAD_OPERATION, OPERATION_COLUMN, RowOperation, operation_of

MAX_ROWS_NAMED: Final = 100


def split_operations(given: pa.Table, default: RowOperation) -> tuple[pa.Table, RowOperations]:
    """Return the columns of values, and the operation of each row; NULL or no column means the default.

    Only different texts are read, not each row's. Raises RejectedInput `bad_op` naming the rows.
    """
    if OPERATION_COLUMN not in given.schema.names:
        return given, _all(default, given.num_rows)
    column = given.column(OPERATION_COLUMN)
    rest = given.drop_columns([OPERATION_COLUMN])
    if pa.types.is_null(column.type):
        return rest, _all(default, given.num_rows)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        detail = f"{OPERATION_COLUMN} is {column.type} in the stream; write it as a string column"
        raise RejectedInput.of((_problem(Code.SCHEMA_MISMATCH, detail),))
    written = column.dictionary_encode(null_encoding="encode").combine_chunks()
    texts = written.dictionary.to_pylist()
    found = [operation_of(text, default) for text in texts]
    if None in found:
        wrong = pa.array([operation is None for operation in found]).take(written.indices)
        rows = pc.indices_nonzero(wrong).slice(0, MAX_ROWS_NAMED).to_pylist()
        raise RejectedInput.of(tuple(_problem(Code.BAD_OP, BAD_OPERATION, row) for row in rows))
    kinds = [*dict.fromkeys(operation for operation in found if operation is not None)]
    codes = pa.array([kinds.index(operation) for operation in found if operation is not None], pa.int32())
    return rest, RowOperations(kinds, codes.take(written.indices))


def _all(default: RowOperation, rows: int) -> RowOperations:
    operation: Operation | None = operation_of(None, default)
    assert operation is not None
    return RowOperations([operation], pa.repeat(pa.scalar(0, pa.int32()), rows))


def _problem(code: Code, detail: str, row: int | None = None) -> Problem:
    return Problem(code, detail, row, pointer_to("", OPERATION_COLUMN), OPERATION_COLUMN)
