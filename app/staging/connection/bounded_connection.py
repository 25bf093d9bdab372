"""A connection to Postgres that never waits forever for an answer.

TCP detects a dead peer, but neither a proxy that acknowledges everything and forwards nothing, nor a stopped server
process. Each wait therefore has its own deadline. A connection that misses it is closed, and the pool replaces it.
As after any lost connection, it is unknown whether the server still executes the statement.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Self

import psycopg


@dataclass(slots=True)
class _Budget:
    """The seconds that this thread may still wait for Postgres."""

    left: float


_BUDGET: ContextVar[_Budget | None] = ContextVar("budget", default=None)

CONNECT_SECONDS: Final = 5
"""Timeout of one attempt to connect."""

KEEPALIVES: Final = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Let the kernel give up a dead peer after 15 to 25 s instead of 15 minutes. Unix sockets ignore these settings."""


@contextmanager
def answer_within(seconds: float) -> Iterator[None]:
    """Limit the time that this thread waits for Postgres in the block to `seconds` in total, connecting included.

    Time between statements does not count. Inside the block this limit replaces the connections' own limit of a
    single wait; it may be shorter or longer.
    """
    token = _BUDGET.set(_Budget(seconds))
    try:
        yield
    finally:
        _BUDGET.reset(token)


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that closes itself and raises psycopg.OperationalError when an answer takes too long."""

    silence_seconds: float = 30.0
    """How long one answer may take outside `answer_within`."""

    @classmethod
    def open(cls, *arguments: Any, silence_seconds: float, **parameters: Any) -> Self:
        """Connect like psycopg.connect, within the time that `answer_within` leaves."""
        budget = _BUDGET.get()
        if budget is not None:
            if budget.left <= 0:
                raise psycopg.OperationalError("no time is left to connect to Postgres")
            parameters["connect_timeout"] = max(1, min(CONNECT_SECONDS, round(budget.left)))
        started = time.monotonic()
        try:
            connection = cls.connect(*arguments, **parameters)
        finally:
            if budget is not None:
                budget.left -= time.monotonic() - started
        connection.silence_seconds = silence_seconds
        return connection

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Run one exchange with the server within the deadline; psycopg calls this for each of its waits."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        budget = _BUDGET.get()
        seconds = self.silence_seconds if budget is None else max(0.0, budget.left)
        started = time.monotonic()
        try:
            return super().wait(gen, interval, seconds)
        except psycopg.OperationalError as error:
            if error.sqlstate is not None or time.monotonic() - started < seconds:
                raise
            self.close()
            raise psycopg.OperationalError(f"Postgres has not answered for {seconds:.1f} s") from error
        finally:
            if budget is not None:
                budget.left -= time.monotonic() - started
