"""Statements of the hot path, executed by psycopg without SQLAlchemy's statement layer.

SQLAlchemy's work for one execution takes longer than the work of psycopg and Postgres together. The connection, its
transaction and its errors remain SQLAlchemy's. Statements use psycopg's placeholders, `%(name)s`.

`PersistentConnection` is a connection that one thread keeps from one transaction to the next.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, LiteralString, TypeVar

import psycopg
import sqlalchemy as sa

from app.staging.connection.database import answer_within, ends_session


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
    """Return strings and NULLs as a Postgres array literal."""
    return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


Result = TypeVar("Result")

PING: Final = "SELECT 1"
"""Find out whether the connection still answers."""

PING_AFTER: Final = 1.0
"""Idle seconds after which the connection is pinged first.

A firewall or proxy may have dropped it silently; the work would then use up its whole deadline waiting for an answer.
"""

PING_SECONDS: Final = 2.0
"""Seconds that the answer to a ping may take."""


class PersistentConnection:
    """A connection for one thread. After any failure it goes back to the pool, which closes it if it is broken.

    The staging thread uses it: a checkout from the pool, with its ping, costs about 10 % of a small transaction
    (performance notebook). A persistent connection may be lost while it is idle, so the work is repeated once on a new
    one.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._connection: sa.Connection | None = None
        self._used_at = 0.0

    def close(self) -> None:
        """Return the connection to the pool; the next transaction takes another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def in_transaction(self, work: Callable[[sa.Connection, sa.RootTransaction], Result]) -> Result:
        """Return what `work` returns, in a transaction that is rolled back unless `work` commits it.

        Raises what `work` raises. If the connection was lost, `work` is called a second time on a new one. So once
        `work` has begun to commit, it must not raise sa.exc.DBAPIError.
        """
        if self._connection is not None:
            try:
                if time.monotonic() - self._used_at > PING_AFTER:
                    with answer_within(PING_SECONDS):
                        self._work(self._connection, lambda connection, _: driver_rows(connection, PING, {}))
                return self._work(self._connection, work)
            except sa.exc.DBAPIError as error:
                if not error.connection_invalidated:
                    raise
        self._connection = self._engine.connect()
        return self._work(self._connection, work)

    def _work(self, connection: sa.Connection, work: Callable[[sa.Connection, sa.RootTransaction], Result]) -> Result:
        is_sound = False
        transaction = connection.begin()
        try:
            result = work(connection, transaction)
            if transaction.is_active:
                transaction.rollback()
            is_sound = not connection.invalidated
        finally:
            self._used_at = time.monotonic()
            if not is_sound:
                self.close()
        return result
