"""Read Delta tables of any writer as hashes of keys and rows.

deltalake's DataFusion engine reads deletion vectors and column mapping, which Fabric's tables have; its PyArrow
datasets reject both. Invariant: nothing here writes to a Delta table.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from app.verify.rows.change_events import comparable, key_hash, kind_of, row_hash
from app.verify.rows.duckdb_session import registered, unique_name

CHUNK_ROWS: Final = 65_536


class UnreadableDelta(Exception):
    """A Delta table that cannot be opened or read. The text has no value."""


@contextmanager
def delta_errors() -> Iterator[None]:
    """Turn the errors of opening and reading a Delta table into UnreadableDelta."""
    try:
        yield
    except (DeltaError, pa.ArrowException, OSError) as error:
        text = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnreadableDelta(text[:300]) from error


def kinds_of(table: DeltaTable) -> dict[str, str]:
    """Return the kind of value of each column, by its name in lower case. Raise UnreadableDelta."""
    with delta_errors():
        return {field.name.casefold(): kind_of(field.type) for field in pa.schema(table.schema())}


def read_chunks(table: DeltaTable) -> Iterator[pa.Table]:
    """Yield the rows of a table, CHUNK_ROWS or more at a time, as comparable columns. Raise UnreadableDelta."""
    waiting: list[pa.RecordBatch] = []
    with delta_errors():
        for batch in pa.RecordBatchReader.from_stream(table.scan()):
            waiting.append(batch)
            if sum(part.num_rows for part in waiting) >= CHUNK_ROWS:
                yield comparable(pa.Table.from_batches(waiting))
                waiting = []
        if waiting:
            yield comparable(pa.Table.from_batches(waiting))


def names_in(chunk: pa.Table, names: Sequence[str]) -> list[str]:
    """Return the columns with these names, in the chunk's letter case and in the order of `names`."""
    by_name = {name.casefold(): name for name in chunk.column_names}
    return [by_name[name.casefold()] for name in names if name.casefold() in by_name]


def load(
    connection: duckdb.DuckDBPyConnection, table: DeltaTable, keys: Sequence[str], compared: Mapping[str, str]
) -> str:
    """Store the hashes of all rows in a temporary table (key, hash) and return its name. Raise UnreadableDelta."""
    name = unique_name("delta")
    connection.execute(f"CREATE TEMP TABLE {name} (key UHUGEINT, hash HUGEINT)")
    for chunk in read_chunks(table):
        values = row_hash(chunk.schema, names_in(chunk, sorted(compared)))
        key = key_hash(chunk.schema, names_in(chunk, keys)) if keys else f"({values})"
        with registered(connection, chunk) as rows:
            connection.execute(f"INSERT INTO {name} SELECT {key}, {values} FROM {rows}")  # noqa: S608  # quoted names
    return name
