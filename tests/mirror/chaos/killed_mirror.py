"""A zone that is written while its mirror is killed again and again, and what must be true afterwards."""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deltalake.exceptions import DeltaError

from app.domain.mirror_report import MirrorState
from app.mirror.table_mirror import MirrorLimits
from tests.mirror.chaos.mirror_process import RunningMirror
from tests.mirror.model.history import Mirror, TableHistory, open_histories
from tests.mirror.model.publisher import Style
from tests.mirror.model.version_check import Checked
from tests.support.waiting import wait_until

STYLES: Final = (
    Style(keys=1, key_pool=200, first_columns=4),
    Style(keys=2, key_pool=200, first_columns=4),
    Style(keys=0, first_columns=4),
)
MAX_PENDING: Final = 4
"""Files that a table may have beyond what is mirrored, before the writer waits."""
DEADLINE: Final = 120.0
RECREATE_SHARE: Final = 0.05


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
                self._wait(lambda: any(self._pending(table) < MAX_PENDING for table in self.histories))
                for table in self.histories:
                    if self._pending(table) < MAX_PENDING:
                        self._step(table)
        except BaseException as error:  # noqa: BLE001  # raised again by the test's own thread
            self.failure = error

    def _step(self, table: TableHistory) -> None:
        is_seen = self._position(table)[0] == len(table.generations)
        if is_seen and table.current.files and self.source.random() < RECREATE_SHARE:
            table.recreate()
        table.step(self.source.choice((0, 1, 20, 100)))

    def _wait(self, condition: Callable[[], bool]) -> None:
        wait_until(lambda: self.stop.is_set() or condition(), within=DEADLINE, what="the mirror follows")

    def _pending(self, table: TableHistory) -> int:
        generation, file_number = self._position(table)
        return len(table.current.files) - (file_number if generation == len(table.generations) else 0)

    def _position(self, table: TableHistory) -> tuple[int, int]:
        """Return the generation and the file that the mirror has reached; 0 and 0 while it moves a table aside."""
        try:
            opened = self.mirror.target.open(table.writer.table)
            names = ("mirrorgate.generation", "mirrorgate")
            generation, file_number = (0 if opened is None else opened.transaction_version(name) or 0 for name in names)
        except DeltaError:
            return 0, 0
        return generation, file_number


def kill_and_check(place: Path, seed: int, kills: int) -> dict[str, list[Checked]]:
    """Kill mirrors so many times while files land, let one finish, and compare every version with the model.

    A mirror is killed after some commits, while it works on the next one: after a part of a commit's usual time.
    """
    source = random.Random(seed)
    mirror = Mirror(place / "zone", place / "mirror")
    mirror.root.mkdir()
    writing = Writing(mirror, open_histories(random.Random(seed), mirror.root, STYLES), random.Random(seed + 1))
    thread = threading.Thread(target=writing.run)
    thread.start()
    usual = 0.2
    try:
        for _ in range(kills):
            mirror.limits = MirrorLimits(max_files=source.choice((1, 1, 2, 64)))
            process = RunningMirror(mirror, place / "mirror.log")
            for _ in range(source.choice((0, 1, 1, 2, 3))):
                usual = (usual + process.next_commit()) / 2
            process.kill_after(source.uniform(0, 1.5 * usual))
            reports = [mirror.inspect(table.writer) for table in writing.histories] if writing.failure else []
            assert writing.failure is None, (writing.failure, reports)
    finally:
        writing.stop.set()
        thread.join()
    return {str(table.writer.table): _checked(mirror, table) for table in writing.histories}


def _checked(mirror: Mirror, table: TableHistory) -> list[Checked]:
    """Finish a table and compare it. Raises AssertionError."""
    mirror.limits = MirrorLimits()
    table.land(1)
    report = mirror.catch_up(table.writer)
    assert report.state is MirrorState.IN_STEP, report
    return table.check(mirror)
