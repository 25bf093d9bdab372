"""One DuckDB database in memory for all checks of a process.

A table of a landing zone can have more keys than fit in memory. DuckDB moves what exceeds its memory limit to a
temporary folder, which it deletes when the process ends. One database with a connection per table keeps the limit for
all tables together, and the number of its threads.
"""

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

MAX_MEMORY: Final = "1GB"
"""Memory of the database. Arrow's memory for the rows of one chunk is beside it."""

_CHUNK: Final = "chunk"
_numbers = itertools.count(1)


def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection to the database. Tables that it creates need a name from `unique_name`."""
    return _database().cursor()


def unique_name(purpose: str) -> str:
    """Return a table name that no other connection of this process uses."""
    return f"{purpose}_{next(_numbers)}"


@contextmanager
def temporary_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection that is closed at the end of the block."""
    connection = connect()
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def registered(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> Iterator[str]:
    """Make Arrow rows a table of the connection within the block, and yield its name. Fetch results inside."""
    connection.register(_CHUNK, rows)
    try:
        yield _CHUNK
    finally:
        connection.unregister(_CHUNK)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    spill = Path(tempfile.gettempdir(), f"mirrorgate-verify-{os.getpid()}")
    return duckdb.connect(
        config={
            "memory_limit": MAX_MEMORY,
            "threads": os.cpu_count() or 1,
            "temp_directory": str(spill),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
