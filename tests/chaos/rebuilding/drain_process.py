"""A drain in a process of its own that builds its files itself, and waits at each step until it is told to continue.

It comes from a fork server that has imported everything, so a killed one is replaced within a moment.
"""

from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Final
from unittest.mock import patch
from uuid import UUID, uuid4

import structlog

from app.landing.open_zone import ZoneAddress
from app.staging.ledger.leases import renew_lease
from app.staging.rebuild import switch
from spark_jobs import rebuilding
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.rebuilding import RebuildRun
from spark_jobs.steps import dropping, publishing
from tests.chaos.checks.oracle import Violation
from tests.chaos.faults.failpoints import Steps, failpoints, points_of
from tests.support.processes import forked, preload
from tests.support.small_drain import builds_in_process, open_small_cycle, publish_once

_LEASE_SECONDS: Final = 600.0
_TURN: Final = "turn"
_DONE: Final = "done"
_ROWS_PER_FILE: Final = 40

_STEPS: Final[Steps] = {
    "attempt": (RebuildRun, "run"),
    "start of the attempt, not committed": (rebuilding, "start_attempt"),
    "snapshot": (rebuilding, "image_snapshot"),
    "copy of a part": (rebuilding, "copy_part"),
    "stored part, not committed": (rebuilding, "store_part"),
    "round of corrections, not committed": (rebuilding, "correct_copies"),
    "last corrections, not committed": (switch, "correct_copies"),
    "switch, not committed": (rebuilding, "switch_generation"),
    "switch": (RebuildRun, "_switch"),
    "removal of the folder": (dropping, "remove_table_folder"),
    "end of the drop, not committed": (dropping, "finish_drop"),
    "plan": (DrainCycle, "prepare"),
    "folder": (publishing, "prepare_folder"),
    "rename": (publishing, "make_visible"),
    "record, not committed": (publishing, "record_published"),
}

POINTS: Final = points_of(_STEPS)
"""Where a drain can be killed."""

_REPEATED: Final = ("copy of a part", "stored part", "rename", "record")


def is_repeated(point: str) -> bool:
    """Return True if a rebuild passes the point several times."""
    return any(step in point for step in _REPEATED)


class DrainProcess:
    """The process, as the history drives it."""

    def __init__(self, database_url: str, zone: str) -> None:
        self.worker_id = uuid4()
        preload(__name__)
        self._pipe, there = Pipe()
        self._process = forked(_serve, there, database_url, zone, self.worker_id)
        there.close()

    def turn(self) -> Iterator[str]:
        """Let the drain do what is due once; yield each step at which it waits. Raises Violation if it ends by itself.

        The process continues when the iterator does; it may be killed before.
        """
        self._pipe.send(_TURN)
        while (reached := self._received()) != _DONE:
            yield reached
            self._pipe.send(None)

    def kill(self) -> None:
        """Kill the process, wherever it is."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _received(self) -> str:
        try:
            return str(self._pipe.recv())
        except EOFError:
            self._process.join()
            raise Violation(f"the drain ended by itself with exit code {self._process.exitcode}") from None


def _serve(pipe: Connection, database_url: str, zone: str, worker_id: UUID) -> None:
    """Run one drain that copies four rows at a time and corrects two at once, one turn for each request."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())

    def reached(point: str) -> None:
        pipe.send(point)
        pipe.recv()

    drain = open_small_cycle(database_url, ZoneAddress(zone), rows=_ROWS_PER_FILE, worker_id=worker_id)

    def run_tasks(_: RebuildRun, orders: Sequence[rebuilding.PartOrder]) -> list[rebuilding.PartResult]:
        return [rebuilding.copy_part(drain.builder.config, order) for order in orders]

    with (
        builds_in_process(),
        patch.object(RebuildRun, "_run_tasks", run_tasks),
        patch.multiple(rebuilding, ROWS_PER_PART=4, MAX_LAST_CORRECTIONS=2, PARTS_PER_TASK=2),
        failpoints(reached, _STEPS),
    ):
        drain.rebuilds.start = RebuildRun(drain.context, drain.builder, lambda: False).run  # type: ignore[method-assign]  # in this thread
        while pipe.recv() == _TURN:
            with drain.context.engine.begin() as connection:
                renew_lease(connection, drain.context.worker_id, _LEASE_SECONDS)
            publish_once(drain, drain.due())
            pipe.send(_DONE)
