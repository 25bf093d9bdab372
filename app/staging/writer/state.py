"""The state of the staging thread, which shows whether the API process can accept changes now.

The thread itself records it, health checks read it, and `export_writer_state` shows it in the metrics.
"""

import time
from dataclasses import dataclass

import sqlalchemy as sa

from app.observability.api_metrics import (
    DATABASE_CONNECTIONS,
    DATABASE_CONNECTIONS_LIMIT,
    DATABASE_WAITING,
    LAST_COMMIT,
    OLDEST_WAITING,
    WAITING_REQUESTS,
    WRITER_FAILS,
)
from app.staging.connection.database import watched_pool


@dataclass(frozen=True, slots=True)
class WriterState:
    """The staging thread's recent activity. Ages are in seconds; None if it has not happened or is not so now."""

    waiting_requests: int
    oldest_waiting_seconds: float | None
    in_transaction_seconds: float | None
    last_commit_seconds: float | None
    last_answer_seconds: float | None
    """Since Postgres last answered the staging thread, a COMMIT or a query."""
    last_failure_seconds: float | None
    failure: str | None
    """Reason why the last transaction failed; None once a later one has been committed."""


class WriterRecord:
    """The record that the staging thread writes and other threads read, without a lock: each field is one reference."""

    def __init__(self) -> None:
        self._began_at: float | None = None
        self._committed_at: float | None = None
        self._answered_at: float | None = None
        self._failed_at: float | None = None
        self._failure: str | None = None

    def begin(self, now: float) -> None:
        """Record that a group has begun."""
        self._began_at = now

    def end(self) -> None:
        """Record that a group has ended."""
        self._began_at = None

    def answered(self, now: float) -> None:
        """Record that Postgres has answered a query."""
        self._answered_at = now

    def succeeded(self, now: float) -> None:
        """Record that a transaction was committed."""
        self._committed_at, self._answered_at, self._failure = now, now, None

    def failed(self, now: float, detail: str) -> None:
        """Record that a transaction failed because of the database."""
        self._failed_at, self._failure = now, detail

    def state(self, now: float, waiting: int, oldest: float | None) -> WriterState:
        """Return the state at the monotonic time `now`; `oldest` is when the oldest waiting request was submitted."""
        return WriterState(
            waiting,
            _age(now, oldest),
            _age(now, self._began_at),
            _age(now, self._committed_at),
            _age(now, self._answered_at),
            _age(now, self._failed_at),
            self._failure,
        )


def export_writer_state(engine: sa.Engine, state: WriterState) -> None:
    """Set the gauges of this process to the writer's state and to the engine's pool."""
    WAITING_REQUESTS.set(state.waiting_requests)
    OLDEST_WAITING.set(state.oldest_waiting_seconds or 0.0)
    WRITER_FAILS.set(float(state.failure is not None))
    if state.last_commit_seconds is not None:
        LAST_COMMIT.set(time.time() - state.last_commit_seconds)
    pool = watched_pool(engine)
    DATABASE_CONNECTIONS.labels("in_use").set(pool.checkedout())
    DATABASE_CONNECTIONS.labels("idle").set(pool.checkedin())
    DATABASE_CONNECTIONS_LIMIT.set(pool.limit)
    DATABASE_WAITING.set(pool.waiting)


def _age(now: float, moment: float | None) -> float | None:
    return None if moment is None else max(0.0, now - moment)
