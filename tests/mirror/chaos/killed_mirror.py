"""A zone that is written while its mirror is killed again and again, and what must be true afterwards."""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.domain.mirror.table_report import MirrorState
from app.mirror.table_mirror import MirrorLimits
from tests.mirror.chaos.mirror_process import MirrorOrder, start_mirror
from tests.mirror.model.history import Mirror, TableHistory, open_histories
from tests.mirror.model.publisher import Style
from tests.support.waiting import wait_until

STYLES: Final = (
    Style(keys=1, key_pool=200, first_columns=4),
    Style(keys=2, key_pool=200, first_columns=4),
    Style(keys=0, first_columns=4),
)
MAX_PENDING: Final = 4
"""Files that a table may have beyond what is mirrored, before the writer waits."""
DEADLINE: Final = 60.0
RECREATE_SHARE: Final = 0.02
MAX_LIFE: Final = 0.4
"""Seconds until a mirror is killed, at most. A commit takes about 0.05."""


@dataclass
class Writing:
    """Lands files in a thread, so that the mirror always has something to do."""

    mirror: Mirror
    histories: list[TableHistory]
    source: random.Random
    stop: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self._step(self.source.choice(self.histories))
        except BaseException as error:  # noqa: BLE001  # raised again by the test's own thread
            self.failure = error

    def _step(self, table: TableHistory) -> None:
        self._wait(lambda: self._pending(table) < MAX_PENDING)
        if table.current.files and self.source.random() < RECREATE_SHARE:
            self._wait(lambda: self._generation(table) == len(table.generations))
            if self.stop.is_set():
                return
            table.recreate()
        table.step(self.source.choice((0, 1, 20, 100)))

    def _wait(self, condition: Callable[[], bool]) -> None:
        wait_until(lambda: self.stop.is_set() or condition(), within=DEADLINE, what="the mirror follows")

    def _generation(self, table: TableHistory) -> int:
        opened = self.mirror.target.open(table.writer.table)
        return 0 if opened is None else opened.transaction_version("mirrorgate.generation") or 0

    def _pending(self, table: TableHistory) -> int:
        opened = self.mirror.target.open(table.writer.table)
        if opened is None or self._generation(table) != len(table.generations):
            return len(table.current.files)
        return len(table.current.files) - (opened.transaction_version("mirrorgate") or 0)


def kill_and_check(place: Path, seed: int, kills: int, mirrors: int = 1) -> str:
    """Kill mirrors so many times while files land, let one finish, and compare every version with the model."""
    source = random.Random(seed)
    mirror = Mirror(place / "zone", place / "mirror")
    mirror.root.mkdir()
    mirror.location.mkdir()
    writing = Writing(mirror, open_histories(random.Random(seed), mirror.root, STYLES), random.Random(seed + 1))
    thread = threading.Thread(target=writing.run)
    thread.start()
    try:
        for _ in range(kills):
            limits = MirrorLimits(max_files=source.choice((1, 3, 64)))
            order = MirrorOrder(mirror.root, mirror.location, place / "mirror.log", limits)
            processes = [start_mirror(order) for _ in range(mirrors)]
            processes[0].join(source.uniform(0, MAX_LIFE))
            lived = [process.is_alive() for process in processes]
            for process in processes:
                process.kill()
                process.join()
            assert all(lived), order.log.read_text()
            assert writing.failure is None, writing.failure
    finally:
        writing.stop.set()
        thread.join()
    return "\n".join(_checked(mirror, table) for table in writing.histories)


def _checked(mirror: Mirror, table: TableHistory) -> str:
    """Finish a table and compare it. Raises AssertionError."""
    if not table.current.files:
        table.land(1)
    report = mirror.catch_up(table.writer)
    assert report.state is MirrorState.IN_STEP, report
    return f"{table.writer.table}: {table.check(mirror)}"
