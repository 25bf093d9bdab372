"""A connection that one thread keeps from transaction to transaction.

To take one from the pool, which asks first whether it still answers, takes a tenth of the time of a small transaction.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

import sqlalchemy as sa

from app.staging.connection.bounded_connection import answer_within
from app.staging.connection.raw_sql import driver_rows

Result = TypeVar("Result")

PING_AFTER: Final = 1.0
"""A connection that was idle for so many seconds is asked first: a firewall or a proxy may have forgotten it without a
word, and the work would wait for an answer as long as it may wait at all."""

PING_SECONDS: Final = 2.0


class PersistentConnection:
    """For one thread. After any failure the connection goes back to the pool, which sees to it."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._kept: sa.Connection | None = None
        self._used_at = 0.0

    def close(self) -> None:
        """Give it back; the next transaction takes another."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def in_transaction(self, work: Callable[[sa.Connection, sa.RootTransaction], Result]) -> Result:
        """What `work` gives, in a transaction that is rolled back unless it commits it. Raises what it raises.

        A kept connection may have been lost since its last transaction: then `work` is called again with a new one.
        So once it has begun to commit, it must raise no sa.exc.DBAPIError.
        """
        if self._kept is not None:
            try:
                if time.monotonic() - self._used_at > PING_AFTER:
                    with answer_within(PING_SECONDS):
                        self._work(self._kept, _ping)
                return self._work(self._kept, work)
            except sa.exc.DBAPIError as error:
                if not error.connection_invalidated:
                    raise
        self._kept = self._engine.connect()
        return self._work(self._kept, work)

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
    driver_rows(connection, "SELECT 1", {})
