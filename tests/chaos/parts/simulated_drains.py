"""Drains that run in turn in one thread; they die by an exception that nothing catches, or pause meanwhile."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

import sqlalchemy as sa

from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.zone import LandingZone
from app.staging.ledger.leases import renew_lease
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable
from spark_jobs.drain_cycle import DrainCycle
from tests.chaos.faults.failpoints import CONTAINED, failpoints
from tests.chaos.faults.faulty_zone import FaultyZone, Trouble, Troubles
from tests.chaos.faults.lost_mount import Mount
from tests.support.postgres.ledger import end_lease
from tests.support.processes import Died
from tests.support.small_drain import builds_in_process, open_small_cycle, publish_once

LEASE_SECONDS: Final = 600.0
MAX_DEPTH: Final = 3
"""The most drains that can be paused within one another."""


class SimulatedDrains:
    """Any number of drains over one database and landing zone; `events` counts what befell them."""

    def __init__(self, engine: sa.Engine, database_url: str, landing_zone: str, source: random.Random) -> None:
        self._engine, self._source = engine, source
        self._place = (database_url, ZoneAddress(landing_zone))
        self._depth = 0
        self._running: DrainCycle | None = None
        self._idle: list[DrainCycle] = []
        self.calm = False
        self.troubled = True
        """Whether storage fails, while it is not calm."""
        self.mount = Mount(Path(landing_zone))
        self.events: Counter[str] = Counter()
        self.between: Callable[[], None] = lambda: None
        """Called while a drain is paused."""
        self.paused_at: Callable[[str], bool] = lambda _: self._source.random() < 0.02
        self.dies_at: Callable[[str], bool] = lambda _: self._source.random() < 0.02
        self.fails_at: Callable[[str], bool] = lambda point: point in CONTAINED and self._source.random() < 0.01
        """Failpoints that raise an unforeseen error; the drain and its other tables must continue."""

        self.unmounts_at: Callable[[str], bool] = lambda _: self._source.random() < 0.01
        """Where the landing zone goes away, until the drain's turn is over."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(builds_in_process())
            stack.enter_context(failpoints(self._reached))
            for module in ("spark_jobs.steps.context", "spark_jobs.build_files"):
                stack.enter_context(patch(f"{module}.open_zone", self._open_zone))
            yield
            for drain in self._idle:
                drain.context.engine.dispose()

    def turn(self) -> None:
        """Let one drain, idle or new, publish what is due until it is done, fails or dies."""
        try:
            idle = self._idle
            drain = idle.pop(self._source.randrange(len(idle))) if idle else open_small_cycle(*self._place, rows=40)
        except Misconfigured as error:  # a drain does not start without its zone
            if not self.mount.is_lost or error.code is not Code.LANDING_ZONE_CHANGED:
                raise
            self.events["start rejected without the zone"] += 1
            return
        before, self._running = self._running, drain
        try:
            with self._engine.begin() as connection:
                renew_lease(connection, drain.context.worker_id, LEASE_SECONDS)
            self._publish(drain)
            self._idle.append(drain)
        except Died:
            drain.context.engine.dispose()
            end_lease(self._engine, drain.context.worker_id)
        finally:
            self._running = before
            if self._depth == 0:
                self.mount.restore()

    def _publish(self, drain: DrainCycle) -> None:
        try:
            due = drain.due()
        except TemporarilyUnavailable as error:  # the drain's loop waits and looks again
            self.events[f"waited for {error.code}"] += 1
            return
        self._source.shuffle(due)
        publish_once(drain, due)

    def _reached(self, point: str) -> None:
        if self.calm:
            return
        if self.dies_at(point):
            self._die(point)
        if self.fails_at(point):
            self.events[f"unforeseen {point}"] += 1
            raise ArithmeticError(point)
        if self._depth == 0 and self.unmounts_at(point):
            self.events["zone lost"] += 1
            self.mount.lose()
        # A paused transaction keeps its locks, and Postgres ends it: that is the case of death.
        if self._depth < MAX_DEPTH and "not committed" not in point and self.paused_at(point):
            self.events[f"paused {point}"] += 1
            self._pause()

    def _pause(self) -> None:
        """Let the lease expire and others continue; then let this drain continue without knowing it."""
        drain = self._running
        assert drain is not None
        end_lease(self._engine, drain.context.worker_id)
        self._depth += 1
        try:
            for _ in range(self._source.randrange(1, 4)):
                self.turn()
                self.between()
        finally:
            self._depth -= 1

    def _die(self, point: str) -> None:
        self.events[f"killed {point}"] += 1
        raise Died

    def _open_zone(self, address: ZoneAddress) -> LandingZone:
        return FaultyZone(open_zone(address), _CalmTroubles(self))


class _CalmTroubles(Troubles):
    """Storage trouble that ends with the chaos; death in the midst of a call is the drain's."""

    def __init__(self, drains: SimulatedDrains) -> None:
        self._drains = drains
        super().__init__(
            drains._source,
            errors=0.03,
            deaths=0.01,
            note=lambda what: drains.events.update([f"storage {what}"]),
            die=lambda: drains._die("within a storage call"),
        )

    def draw(self, call: str) -> Trouble | None:
        return None if self._drains.calm or not self._drains.troubled else super().draw(call)
