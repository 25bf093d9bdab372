"""Reads Delta tables back as the model's rows."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable

from tests.mirror.model.kinds import exact
from tests.mirror.model.table_model import Record
from tests.mirror.model.values import Value


def delta_rows(table: DeltaTable, columns: Sequence[str]) -> Counter[Record]:
    """Return the rows of an opened version, and how often it has each."""
    return arrow_rows(table.to_pyarrow_table(), columns)


def arrow_rows(content: pa.Table, columns: Sequence[str]) -> Counter[Record]:
    """Return the rows of an Arrow table with the values in the order of `columns`, and how often it has each.

    Names are in lower case in `columns`. The table must have these columns and no other.
    """
    names = [name.lower() for name in content.column_names]
    assert sorted(names) == sorted(columns), f"columns {names} instead of {columns}"
    values = [_values(content.column(names.index(name))) for name in columns]
    return Counter(zip(*values, strict=True))


def _values(column: pa.ChunkedArray) -> list[Value]:
    for applies, read in _READERS:
        if applies(column.type):
            return read(column)
    return list(column.to_pylist())


def _microseconds(column: pa.ChunkedArray) -> list[Value]:
    unit = pa.timestamp("us", column.type.tz)
    return list(column.cast(unit).cast(pa.int64()).to_pylist())


def _exact(column: pa.ChunkedArray) -> list[Value]:
    return [exact(value) for value in column.to_pylist()]


_READERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.ChunkedArray], list[Value]]], ...]] = (
    (pa.types.is_timestamp, _microseconds),
    (pa.types.is_floating, _exact),
)
