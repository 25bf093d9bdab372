"""Back-pressure: rejects changes for a table whose backlog is full, or for all tables when the total is.

Invariant: a check costs no query. A thread reads the backlog once a second, so a backlog can exceed its limit by what
is accepted in that time.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from app.domain.model.table import Table, TableLife
from app.domain.publication import Amount, Backlog, BacklogLimit
from app.observability.periodic_thread import PeriodicThread
from app.staging.connection.database import Engine
from app.staging.tables.status import BacklogReader

log = structlog.get_logger()

READ_SECONDS: Final = 1.0
"""Seconds between two readings of the backlog."""


@dataclass(frozen=True, slots=True)
class _Seen:
    tables: Mapping[TableLife, Backlog] = field(default_factory=dict)
    all: Backlog = field(default_factory=Backlog)


class BacklogWatch:
    """Reading of the backlog in a separate thread, and check of requests against the last reading.

    While Postgres does not answer, the last reading counts: nothing can be staged then anyway.
    """

    def __init__(self, engine: Engine, limit: BacklogLimit, total: BacklogLimit) -> None:
        self._engine = engine
        self._limit = limit
        self._total = total
        self._reader = BacklogReader()
        self._seen = _Seen()
        self._read_at = time.monotonic()
        self._thread = PeriodicThread(
            "backlog-watch",
            READ_SECONDS,
            self._read,
            on_failure=lambda error: log.warning("backlog_read_failed", error=type(error).__name__),
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._thread.close()

    def check(self, table: Table) -> None:
        """Raise TemporarilyUnavailable `backlog_full` if the table, or the gateway, can take no more changes now."""
        seen = self._seen
        backlog = seen.tables.get((table.table_id, table.generation))
        if backlog is not None:
            self._limit.check(f"table {table.name} has", backlog)
        self._total.check("all tables together have", seen.all)

    def share_of(self, table: Table) -> float:
        """Return the table's backlog as a share of its limit."""
        return self._limit.share(self._seen.tables.get((table.table_id, table.generation), Backlog()))

    def total_share(self) -> float:
        """Return the backlog of all tables together as a share of its limit."""
        return self._total.share(self._seen.all)

    def shares(self) -> Mapping[TableLife, float]:
        """Return the backlog of each table that lags, as a share of its limit."""
        return {life: self._limit.share(backlog) for life, backlog in self._seen.tables.items()}

    def _read(self) -> None:
        now = time.monotonic()
        seconds, before = max(now - self._read_at, 0.001), self._seen
        tables, pending, published = {}, Amount(), Amount()
        lagging = self._reader.read(self._engine, now)
        for life in lagging.keys() | before.tables.keys():
            found, known = lagging.get(life), before.tables.get(life, Backlog())
            rate = known.rate.after(found.published if found else Amount(), seconds)
            if found is not None:
                pending, published = pending + found.pending, published + found.published
                tables[life] = Backlog(found.pending, found.oldest_seconds, rate)
            elif rate.bytes >= 1:  # keep the rate of a table that has caught up for a while
                tables[life] = Backlog(rate=rate)
        self._seen = _Seen(tables, Backlog(pending, 0.0, before.all.rate.after(published, seconds)))
        self._read_at = now
