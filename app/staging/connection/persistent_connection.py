"""A connection that one thread keeps from one transaction to the next.

The staging thread uses it: a checkout from the pool, with its ping, costs about 10 % of a small transaction
(performance notebook). A persistent connection may be lost while it is idle, so the work is repeated once on a new one.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

import sqlalchemy as sa

from app.staging.connection.bounded_connection import answer_within
from app.staging.connection.raw_sql import driver_rows

Result = TypeVar("Result")

PING: Final = "SELECT 1"
"""Find out whether the connection still answers."""

PING_AFTER: Final = 1.0
"""Idle seconds after which the connection is pinged first.

A firewall or proxy may have dropped it silently; the work would then use up its whole deadline waiting for an answer.
"""

PING_SECONDS: Final = 2.0
"""How long the answer to a ping may take."""


class PersistentConnection:
    """A connection for one thread. After any failure it goes back to the pool, which closes it if it is broken."""

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
                        self._work(self._connection, _ping)
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


def _ping(connection: sa.Connection, _: sa.RootTransaction) -> None:
    driver_rows(connection, PING, {})
