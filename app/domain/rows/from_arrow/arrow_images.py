"""Row images of rows that are typed already: each as a source would have written it."""

import binascii
from base64 import b64encode
from collections.abc import Iterator
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SourceValue
from app.domain.model.table_options import BinaryEncoding
from app.domain.rows.row_rules import RowRules
from app.domain.rows.shaped_changes import Values

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
    """Return floats of 32 bits as texts: as Python's floats of 64 bits, 0.1 would be 0.10000000149011612."""
    return pc.cast(column, pa.string()) if pa.types.is_float32(column.type) else column


def source_value(value: Any, encoding: BinaryEncoding) -> SourceValue:
    """Return a typed value as a source would write it, so that it reads as the same value."""
    if isinstance(value, bytes):
        return (binascii.hexlify(value) if encoding is BinaryEncoding.HEX else b64encode(value)).decode()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)
    return value  # type: ignore[no-any-return]  # the remaining types are source values already
