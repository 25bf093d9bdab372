"""The load: tables whose rows are inserted, updated and deleted at a steady rate, so that their size stays constant."""

import random
import threading
from dataclasses import dataclass, field
from typing import Any, Final

from demo.poster import Poster, with_retries
from demo.workload import Row, StreamTable, stock_metadata
from mirrorgate.http import GatewayClient, RejectedByGateway
from tests.chaos.workload import PartialTable, bad_post, chaos_tables, registration

MAX_LIVE_ROWS: Final = 2_000
CHANGES_PER_POST: Final = 100
BAD_SHARE: Final = 0.01
"""Of the requests, how many the gateway has to reject."""


@dataclass
class SteadyTable:
    """A table and the requests for it; every row beyond MAX_LIVE_ROWS makes a deletion likelier than an insertion."""

    table: StreamTable
    changes: int = 0
    landed: int = 0
    """Rows that must land: a change of a key lands as two."""
    rejected: int = 0

    @property
    def rows(self) -> dict[Any, list[Row]]:
        """Return the rows that a mirror must have by now, by key."""
        return {row[0]: [tuple(row)] for row in self.table.live}

    def post(self, poster: Poster) -> None:
        """Send the next request. Raises RejectedByGateway if the gateway rejects a good one, or accepts a bad one."""
        if self.table.source.random() < BAD_SHARE:
            self._post_bad(poster)
            return
        post = self.table.post(CHANGES_PER_POST)
        poster.post(post)
        self.changes += post.changes
        self.landed += len(post.rows)

    def _post_bad(self, poster: Poster) -> None:
        try:
            poster.post(bad_post(self.table))
        except RejectedByGateway as error:
            if error.status != 422:
                raise
            self.rejected += 1
        else:
            raise AssertionError(f"{self.table.name}: a request with a wrong value was accepted")


def steady_tables(seed: int) -> list[SteadyTable]:
    """Return tables in Arcion and Replicate format; one of them has partial updates."""
    return [SteadyTable(_bounded(table)) for table in chaos_tables(random.Random(seed))]


def register(client: GatewayClient, tables: list[SteadyTable]) -> None:
    """Register all tables; the one of Replicate by its metadata message."""
    for steady in tables:
        if steady.table.source_format == "arcion":
            wanted, name = registration(steady.table), steady.table.name
            with_retries(lambda wanted=wanted, name=name: client.put(f"/v1/tables/{name}", wanted))  # type: ignore[misc]
    with_retries(lambda: client.post_changes("replicate", stock_metadata()))


@dataclass
class Load:
    """A thread for each table, which posts at a rate until it is stopped; the first failure stops all of them."""

    client: GatewayClient
    tables: list[SteadyTable]
    posts_per_second: float
    stop: threading.Event = field(default_factory=threading.Event)
    failure: Exception | None = None
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Start to post."""
        self._threads = [threading.Thread(target=self._run, args=(table,)) for table in self.tables]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop after the requests under way, whose answers are awaited."""
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, steady: SteadyTable) -> None:
        poster = Poster(self.client)
        try:
            while not self.stop.wait(1 / self.posts_per_second):
                steady.post(poster)
        except Exception as failure:  # noqa: BLE001  # the main thread raises it
            self.failure = failure
            self.stop.set()


def _bounded(table: StreamTable) -> StreamTable:
    kind = _BoundedPartialTable if isinstance(table, PartialTable) else _BoundedTable
    return kind(table.name, table.source_format, table.columns, table.make_row, table.message, table.source)


class _BoundedTable(StreamTable):
    def _change(self) -> tuple[dict[str, Any], list[Row]]:
        if len(self.live) >= MAX_LIVE_ROWS and self.source.random() < 0.6:
            old = self.live.pop(self.source.randrange(len(self.live)))
            return self.message(self, "D", old, None), [self._deleted(old)]
        return super()._change()


class _BoundedPartialTable(_BoundedTable, PartialTable):
    """Its deletes beyond the bound have full images, the others only the key."""
