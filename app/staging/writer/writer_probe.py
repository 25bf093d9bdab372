"""Whether the writer of this API process can stage changes, asked of the writer itself.

A ping on another connection says nothing of it: the writer's own may be silent, or lead to a server that has become
read-only. So while no commit has answered lately, the writer asks Postgres over the connection that it stages with.
"""

import threading
from concurrent.futures import Future
from typing import Final

import sqlalchemy as sa

from app.errors import Code, MirrorgateError, TemporarilyUnavailable
from app.staging.connection.raw_sql import driver_rows
from app.staging.writer.group_commit import GroupCommit
from app.staging.writer.state import WriterState

FRESH_SECONDS: Final = 1.0
"""An answer that Postgres gave the writer so lately need not be asked for again."""


class WriterProbe:
    """Many callers share one question."""

    def __init__(self, writer: GroupCommit) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._asked: Future[None] | None = None

    def look(self, within: float) -> tuple[WriterState, MirrorgateError | None]:
        """The writer's state, and why it cannot write now, if so; returns after `within` seconds at the latest."""
        state = self._writer.state()
        age = state.last_answer_seconds
        if state.failure is None and age is not None and age < FRESH_SECONDS:
            return state, None
        trouble: MirrorgateError | None = None
        try:
            with self._lock:
                if self._asked is None or self._asked.done():
                    self._asked = self._writer.ask(_require_writable)
                asked = self._asked
            asked.result(timeout=within)
        except TimeoutError:
            trouble = TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, f"Postgres has not answered for {within:.0f} s")
        except MirrorgateError as error:
            trouble = error
        return self._writer.state(), trouble


def _require_writable(connection: sa.Connection, _: sa.RootTransaction) -> None:
    [(read_only,)] = driver_rows(connection, "SHOW transaction_read_only", {})
    if read_only == "on":
        connection.invalidate()  # a new connection may lead to the server that has taken over
        raise TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres takes no writes: it is read-only")
