"""A connection to Postgres that never waits without end for an answer.

TCP notices a dead peer, but not a proxy that acknowledges everything and passes nothing on, nor a server process that
is stopped. So each wait has a deadline of its own. A connection that misses it is closed, and the pool replaces it.
Whether the server still carries out the statement that it was given is unknown, as after any lost connection.
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
    """The seconds that may still be spent waiting for Postgres."""

    left: float


_BUDGET: ContextVar[_Budget | None] = ContextVar("budget", default=None)

CONNECT_SECONDS: Final = 5
KEEPALIVES: Final = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""The kernel gives up a dead peer after 15 to 25 s, not after 15 minutes. Unix sockets ignore these."""


@contextmanager
def answer_within(seconds: float) -> Iterator[None]:
    """Let this thread wait for Postgres for `seconds` in all in the block, connecting included.

    What it does between its statements does not count. It replaces the limit of the connections for one wait, and may
    be shorter or longer.
    """
    token = _BUDGET.set(_Budget(seconds))
    try:
        yield
    finally:
        _BUDGET.reset(token)


class BoundedConnection(psycopg.Connection[Any]):
    """Raises psycopg.OperationalError, and closes itself, when an answer takes longer than `silence_seconds`."""

    silence_seconds: float = 30.0

    @classmethod
    def open(cls, *arguments: Any, silence_seconds: float, **parameters: Any) -> Self:
        """Connect like psycopg.connect, within the deadline of `answer_within` where there is one."""
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
        """Carry out what the driver asks of the server; every wait of the driver for an answer comes here."""
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
