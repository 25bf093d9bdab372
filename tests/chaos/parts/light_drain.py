"""A drain in its own process that builds its files itself; it starts at once, because it needs no JVM.

It dies and stops at named failpoints and within calls of the landing zone, as its plan says. It is started from a
fork server that has imported everything, by `multiprocessing`.
"""

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from app.landing.adls import retries
from app.landing.local_zone import LocalZone
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.zone import LandingZone
from mirrorgate.errors import MirrorgateError
from spark_jobs import drain_loop, scheduling
from spark_jobs.drain_loop import DrainLoop
from spark_jobs.drain_process import keep_lease
from tests.chaos.faults.failpoints import failpoints
from tests.chaos.faults.faulty_zone import FaultyZone, Troubles
from tests.support.small_drain import builds_in_process, open_small_cycle

LEASE_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.1
DATABASE_SECONDS: Final = 2.0
"""How long the gateway waits for Postgres."""
MIN_BACKOFF, MAX_BACKOFF = 0.1, 0.4
"""Time runs faster here: production waits longer before it tries again."""


@dataclass(frozen=True)
class DrainPlan:
    """One drain and what is to befall it; `dies_at` and `stops_at` are names of failpoints, met `passes` times."""

    database_url: str
    zone: ZoneAddress
    notes: Path
    seed: int
    dies_at: str = ""
    stops_at: str = ""
    passes: int = 1
    errors: float = 0.0
    deaths: float = 0.0


class Notes:
    """A file that many processes append lines to; a line that is written survives its writer."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, line: str) -> None:
        os.write(self._descriptor, f"{line}\n".encode())


class Fate:
    """Kills or stops this process when it passes the point that the plan names."""

    def __init__(self, plan: DrainPlan, notes: Notes) -> None:
        self._plan, self._notes = plan, notes
        self._left = plan.passes
        self._lock = threading.Lock()

    def reached(self, point: str) -> None:
        if point not in (self._plan.dies_at, self._plan.stops_at):
            return
        with self._lock:
            self._left -= 1
            if self._left != 0:
                return
        if point == self._plan.dies_at:
            self.die(f"at {point}")
        self._notes.write(f"stop\t{point}")
        os.kill(os.getpid(), signal.SIGSTOP)

    def die(self, where: str = "within a storage call") -> None:
        self._notes.write(f"kill\tdrain {where}")
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def short_pauses() -> Iterator[None]:
    """Repeat failed calls of storage, failed tables and failed queries soon."""
    with (
        patch.multiple(retries, _FIRST_PAUSE_SECONDS=MIN_BACKOFF / 4, _MAX_PAUSE_SECONDS=MAX_BACKOFF),
        patch.multiple(scheduling, MIN_BACKOFF=MIN_BACKOFF, _MAX_BACKOFF=MAX_BACKOFF),
        patch.multiple(drain_loop, MIN_BACKOFF=MIN_BACKOFF, _MAX_DATABASE_BACKOFF=MAX_BACKOFF),
    ):
        yield


def run_light_drain(plan: DrainPlan) -> None:
    """Publish until the process is killed."""
    notes = Notes(plan.notes)
    fate = Fate(plan, notes)
    troubles = Troubles(
        random.Random(plan.seed),
        errors=plan.errors,
        deaths=plan.deaths,
        note=lambda what: notes.write(f"fault\t{what}"),
        die=fate.die,
    )

    def troubled(address: ZoneAddress) -> LandingZone:
        zone = open_zone(address)
        return FaultyZone(zone, troubles) if isinstance(zone, LocalZone) else zone

    with ExitStack() as stack:
        stack.enter_context(builds_in_process())
        stack.enter_context(failpoints(fate.reached))
        stack.enter_context(short_pauses())
        for module in ("spark_jobs.steps.context", "spark_jobs.build_files"):
            stack.enter_context(patch(f"{module}.open_zone", troubled))
        while True:
            try:
                _publish(plan)
            except MirrorgateError:
                threading.Event().wait(POLL_SECONDS)  # Postgres is away


def _publish(plan: DrainPlan) -> None:
    options: dict[str, Any] = {"rows": 300, "delay_seconds": 0.1, "tasks": 2, "database_seconds": DATABASE_SECONDS}
    cycle = open_small_cycle(plan.database_url, plan.zone, **options)
    with keep_lease(cycle, LEASE_SECONDS):
        DrainLoop(cycle, worker_slots=2).run(threading.Event(), POLL_SECONDS)
