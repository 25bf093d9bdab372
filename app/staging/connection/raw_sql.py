"""Statements of the hot path, executed by psycopg without SQLAlchemy's statement layer.

SQLAlchemy's work for one execution takes longer than the work of psycopg and Postgres together. The
connection, its transaction and its errors remain SQLAlchemy's. Statements use psycopg's placeholders, `%(name)s`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
import sqlalchemy as sa

from app.staging.connection.database_errors import ends_session


def driver_rows(
    connection: sa.Connection, statement: LiteralString, parameters: Mapping[str, object]
) -> list[tuple[Any, ...]]:
    """Execute a statement in the transaction that the caller has begun, and return its rows.

    Raises sa.exc.DBAPIError, and invalidates the connection if the error ends its session.
    """
    with driver_of(connection, statement) as driver:
        return driver.execute(statement, parameters).fetchall()


@contextmanager
def driver_of(connection: sa.Connection, statement: LiteralString) -> Iterator[psycopg.Connection[Any]]:
    """Give psycopg's connection for a statement, whose errors are raised as `driver_rows` does."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    try:
        yield driver
    except psycopg.Error as error:
        lost = driver.closed or ends_session(error)
        if lost:
            connection.invalidate(error)
        raise sa.exc.DBAPIError.instance(
            statement,
            None,
            error,
            psycopg.Error,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=connection.dialect,
        ) from error


def int_array_literal(values: Iterable[int]) -> str:
    """Return integers as a Postgres array literal, which costs psycopg a fraction of adapting a list."""
    return "{" + ",".join(map(str, values)) + "}"


def text_array_literal(values: Sequence[str | None]) -> str:
    """Return texts and NULLs as a Postgres array literal."""
    return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
