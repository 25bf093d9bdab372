"""DuckDB in memory, locked down: it reads registered Arrow data and its own spill folder, and nothing else.

Queries of users and the comparison of versions run here. The configuration is locked before any SQL of a user runs, so
no statement can open a file or an address, load an extension or raise the memory limit. DuckDB holds the main thread
while it works, so each call runs in a thread of this module, and Ctrl-C interrupts it.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

Result = TypeVar("Result")

DEFAULT_MEMORY: Final = "1GB"
_STREAM_FAULT: Final = "reading the stream registered as"
_MAX_SPILL: Final = "20GB"
"""A query can share its disk with Postgres and the mirror. DuckDB would take 90 % of what is free."""
_BATCH_ROWS: Final = 10_000

_GONE: Final = ("FileNotFoundError", "[errno 2]")
"""Strings with which Arrow names a missing file, passed on by DuckDB: of a store in Python, and of a local folder."""


class SqlEngine:
    """One DuckDB connection. `register` and `run` are for SQL of this program, `rows` also for SQL of a user."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, pool: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._pool = pool

    def register(self, data: ds.Dataset | pa.RecordBatchReader) -> str:
        """Make Arrow data readable and return the quoted name to use in SQL, which no table of a user has."""
        name = f"mirrorgate-{uuid4().hex}"
        self._connection.register(name, data)
        return identifier(name)

    def run(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows, which have to be few."""
        return self.interruptible(lambda: self._connection.execute(sql, [*parameters]).fetchall())

    def statements(self, sql: str) -> list[duckdb.Statement]:
        """Parse SQL into its statements without running them. Raises duckdb.Error."""
        return self._connection.extract_statements(sql)

    def rows(self, sql: str) -> "tuple[list[str], Iterator[list[tuple[Any, ...]]]]":
        """Run a SELECT and return its column names and its rows, in batches, as they are computed."""
        reader = self.interruptible(lambda: self._connection.sql(sql).to_arrow_reader(_BATCH_ROWS))
        return list(reader.schema.names), self._batches(reader)

    def interruptible(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the engine's thread. Ctrl-C stops it and raises KeyboardInterrupt here.

        Raises duckdb.Error, FileNotFoundError for a data file that is gone, and OSError for another fault of the store.
        """
        future: Future[Result] = self._pool.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            self._connection.interrupt()
            wait([future])  # DuckDB rejects to close a connection that is busy
            raise
        except duckdb.Error as error:
            _raise_store_fault(str(error), error)
            raise

    def lock(self) -> None:
        """Forbid files, addresses, extensions and changes of the configuration from now on."""
        self.run("SET enable_external_access = false")
        self.run("SET lock_configuration = true")

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[list[tuple[Any, ...]]]:
        while True:
            batch = self.interruptible(lambda: next(iter(reader), None))
            if batch is None:
                return
            yield list(zip(*map(_values, batch.columns), strict=True))


@contextmanager
def open_engine(memory: str = DEFAULT_MEMORY) -> Iterator[SqlEngine]:
    """Open an engine that uses at most `memory`, such as `1GB`, and spills the rest into a folder that it removes.

    Raises duckdb.Error if `memory` is not a size.
    """
    with (
        tempfile.TemporaryDirectory(prefix="mirrorgate-sql-") as spill,
        ThreadPoolExecutor(1, thread_name_prefix="sql-engine") as pool,
    ):
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory,
            "temp_directory": spill,
            "max_temp_directory_size": _MAX_SPILL,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        }
        with duckdb.connect(":memory:", config=settings) as connection:
            engine = SqlEngine(connection, pool)
            engine.run("SET TimeZone = 'UTC'")
            yield engine


def _raise_store_fault(text: str, cause: Exception) -> None:
    """Raise the fault of a store that DuckDB met while it read Arrow data, if `text` tells of one."""
    _, is_of_a_stream, fault = text.partition(_STREAM_FAULT)
    if is_of_a_stream:
        detail = fault.partition("failed: ")[2]
        raise (FileNotFoundError if any(sign in text for sign in _GONE) else OSError)(detail) from cause


def identifier(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """Quote a string for SQL."""
    return "'" + text.replace("'", "''") + "'"


def _values(column: pa.Array) -> list[Any]:
    """Return the values of a column; as strings where Python has no such value, such as infinite dates."""
    if pa.types.is_interval(column.type):
        return [None if value is None else str(value) for value in column]
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError, ImportError):
        values = pc.cast(column, pa.string()).to_pylist()
    return values
