"""Health check of the staging thread, which shows whether this API process can stage changes now, and of which tables.

A ping on another connection does not tell: the staging thread's own connection may be dead, or lead to a server that
has become read-only. So unless Postgres has answered the thread lately, it queries Postgres over that connection.
"""

import threading
from concurrent.futures import Future
from typing import Final

import sqlalchemy as sa

from app.domain.access.mask_secret import HashedTables
from app.staging.access.mask_secrets import hashed_tables
from app.staging.connection.raw_sql import driver_rows
from app.staging.writer.group_commit import GroupCommit
from app.staging.writer.state import WriterState
from mirrorgate.errors import Code, MirrorgateError, TemporarilyUnavailable

SHOW_READ_ONLY: Final = "SHOW transaction_read_only"
"""Find out whether the server takes writes."""

FRESH_SECONDS: Final = 1.0
"""The age up to which an answer of Postgres counts as present."""


class WriterProbe:
    """A health check that concurrent callers share: they wait for the same query."""

    def __init__(self, writer: GroupCommit) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._query: Future[None] | None = None

    def check(self, within: float) -> tuple[WriterState, MirrorgateError | None]:
        """Return the writer's state, and the reason if it cannot write now, after `within` seconds at the latest."""
        state = self._writer.state()
        age = state.last_answer_seconds
        if state.failure is None and age is not None and age < FRESH_SECONDS:
            return state, None
        trouble: MirrorgateError | None = None
        try:
            with self._lock:
                if self._query is None or self._query.done():
                    self._query = self._writer.submit_query(_require_writable)
                query = self._query
            query.result(timeout=within)
        except TimeoutError:
            trouble = TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, f"Postgres has not answered for {within:.0f} s")
        except MirrorgateError as error:
            trouble = error
        return self._writer.state(), trouble

    def hashed_tables(self, within: float) -> HashedTables | None:
        """Return the tables with hashed columns; None if Postgres does not answer within some seconds."""
        found: list[HashedTables] = []
        query = self._writer.submit_query(lambda connection, _: found.append(hashed_tables(connection)))
        try:
            query.result(timeout=within)
        except (TimeoutError, MirrorgateError):
            return None
        return found[0]


def _require_writable(connection: sa.Connection, _: sa.RootTransaction) -> None:
    [(read_only,)] = driver_rows(connection, SHOW_READ_ONLY, {})
    if read_only == "on":
        connection.invalidate()  # a new connection may reach the server that has taken over
        raise TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres accepts no writes: it is read-only")
