"""Arrow IPC streams of initial loads: bytes -> one table of snapshot rows that shares those bytes (decision 0021)."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import pyarrow as pa

from app.domain.arrow.fields import ArrowField, read_fields
from app.domain.arrow.flatbuffer import Damaged
from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to
from app.formats.arrow.messages import SCHEMA, ArrowMessage, BatchLayout, layout_of, messages_of

MAX_ARRAYS: Final = 2**18
"""Columns of all record batches together; each costs time and memory, however few rows it has."""

_MAX_PROBLEMS: Final = 100
_SUPPORTED_TYPES: Final = (
    "Write the column with a plain type, such as string, int64, decimal128 or timestamp with a zone."
)


def decode_arrow_stream(body: bytes, limits: InputLimits = UNLIMITED) -> pa.Table:
    """Return all rows of a stream in order, without copying values.

    Types must be on an allow-list, buffers whole, aligned and apart, and each array is validated in full before it is
    used. The body's size bounds the memory, except for columns of nulls, whose length `limits` bounds. Raises
    RejectedInput `malformed_arrow`, `schema_mismatch`, `too_many_messages` or `empty_request`.
    """
    try:
        messages = messages_of(body)
        fields = _fields(next(messages, None))
        _check_types(fields)
        layouts = [*_layouts(messages, len(fields), limits)]
        if not layouts:
            raise RejectedInput(Code.EMPTY_REQUEST, "the Arrow stream has no rows")
        schema = pa.schema([pa.field(field.name, field.type, field.nullable) for field in fields])
        return pa.Table.from_batches([_batch(layout, schema) for layout in layouts], schema)
    except (Damaged, pa.ArrowException) as error:
        raise _malformed(error) from error


def _malformed(error: Exception) -> RejectedInput:
    detail = str(error) if isinstance(error, Damaged) else "a column of the Arrow stream is not valid"
    return RejectedInput(Code.MALFORMED_ARROW, detail)


def _fields(message: ArrowMessage | None) -> list[ArrowField]:
    if message is None or message.kind != SCHEMA:
        raise Damaged("the Arrow stream does not begin with a schema")
    fields = read_fields(message.header)
    if len({field.name for field in fields}) != len(fields):
        raise Damaged("two columns of the Arrow stream have the same name")
    return fields


def _check_types(fields: Sequence[ArrowField]) -> None:
    problems = tuple(
        Problem(
            Code.SCHEMA_MISMATCH,
            f"the column's type {field.described} fits no column type of a table",
            pointer=pointer_to("", field.name),
            column=field.name,
        )
        for field in fields
        if field.type is None
    )
    if problems:
        raise RejectedInput.of(problems[:_MAX_PROBLEMS], remedy=_SUPPORTED_TYPES)


def _layouts(messages: Iterator[ArrowMessage], columns: int, limits: InputLimits) -> Iterator[BatchLayout]:
    """Yield the layouts of the record batches that have rows. No array is made before all rows are counted."""
    rows = arrays = 0
    for message in messages:
        layout = layout_of(message, columns)
        rows += layout.rows
        arrays += max(1, columns)
        limits.check_messages(rows)
        if arrays > MAX_ARRAYS:
            raise Damaged(f"the record batches have more than {MAX_ARRAYS} columns together; write larger batches")
        if layout.rows:
            yield layout


def _batch(layout: BatchLayout, schema: pa.Schema) -> pa.RecordBatch:
    buffers = iter(layout.buffers)
    arrays = [_array(field.type, layout.rows, node, buffers) for field, node in zip(schema, layout.nodes, strict=True)]
    if next(buffers, None) is not None:
        raise Damaged("a record batch has more buffers than its columns need")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(of_type: pa.DataType, rows: int, node: tuple[int, int], buffers: Iterator[pa.Buffer]) -> pa.Array:
    """Return the validated array of the next buffers. The sender's null count is not used."""
    length, nulls = node
    if length != rows:
        raise Damaged("a column does not have as many rows as its record batch")
    if pa.types.is_null(of_type):
        return pa.nulls(rows)
    given: list[pa.Buffer | None] = [*islice(buffers, of_type.num_buffers)]
    if len(given) < of_type.num_buffers:
        raise Damaged("a record batch has fewer buffers than its columns need")
    if not nulls:
        given[0] = None
    array = pa.Array.from_buffers(of_type, rows, given)
    array.validate(full=True)
    return array
