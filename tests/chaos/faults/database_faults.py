"""Postgres faults other than crashes: silent connections, a clock that is set back, a read-only server."""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

import psycopg
import sqlalchemy as sa

from tests.support.postgres.swallowing_proxy import swallowing_proxy

READ_ONLY_SECONDS: Final = 1.0

SET_CLOCK_BACK: Final = (
    """UPDATE mirrorgate.staged_blocks b SET staged_at = staged_at + interval '1 hour'
    FROM mirrorgate.table_counters c
    WHERE c.table_id = b.table_id AND b.first_sequence > c.published_through
      AND b.staged_at < clock_timestamp()""",
    """UPDATE mirrorgate.workers
    SET heartbeat_at = heartbeat_at + interval '1 hour', lease_until = lease_until + interval '1 hour'
    WHERE heartbeat_at < clock_timestamp()""",
)
"""Moves pending work and leases an hour ahead of the clock, as if the clock had been set back."""


def set_clock_back(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        for statement in SET_CLOCK_BACK:
            connection.execute(sa.text(statement))


class DatabaseFaults:
    """Between the gateway and Postgres: everything of the gateway connects to `url`."""

    def __init__(self, database_url: str, administration_url: str) -> None:
        self._administration_url = administration_url
        self._read_only_until: float | None = None
        self._stack = ExitStack()
        self._proxy = self._stack.enter_context(swallowing_proxy(database_url))
        self.url = self._proxy.url

    def fall_silent(self) -> bool:
        """Stop passing bytes on all present connections; new ones work."""
        self._proxy.swallow()
        return True

    def set_clock_back(self) -> bool:
        """Set the database's clock back; return whether Postgres could be asked to."""

        def step(connection: psycopg.Connection) -> None:
            with connection.transaction():
                for statement in SET_CLOCK_BACK:
                    connection.execute(statement.encode())

        return self._administer(step)

    def become_read_only(self) -> bool:
        """Make every session read-only for a while; `tend` ends it."""
        if self._read_only_until is not None or not self._set_read_only("on"):
            return False
        self._read_only_until = time.monotonic() + READ_ONLY_SECONDS
        return True

    def tend(self, *, calm: bool = False) -> None:
        """Let Postgres take writes again when it is time, or at once for `calm`."""
        until = self._read_only_until
        if until is not None and (calm or time.monotonic() > until) and self._set_read_only("off"):
            self._read_only_until = None

    def close(self) -> None:
        self._stack.close()

    def _set_read_only(self, value: str) -> bool:
        def change(connection: psycopg.Connection) -> None:
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}".encode())
            connection.execute("SELECT pg_reload_conf()")

        return self._administer(change)

    def _administer(self, work: Callable[[psycopg.Connection], None]) -> bool:
        """Do this work; return False while Postgres is down, or when a lock is not acquired soon."""
        options = "-c default_transaction_read_only=off -c lock_timeout=200ms"
        with suppress(psycopg.Error):
            with psycopg.connect(
                self._administration_url, autocommit=True, connect_timeout=2, options=options
            ) as connection:
                work(connection)
            return True
        return False
