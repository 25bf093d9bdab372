"""The settings of one measurement: runs, seconds, scale and working folder."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path

from benchmarks.gateway import Gateway, running_gateway


@dataclass(frozen=True, slots=True)
class Bench:
    """Settings of a measurement.

    `seconds` is the length of a run under load. `scale` shortens backlogs; the goals are about scale 1.
    """

    runs: int
    seconds: float
    scale: float
    folder: Path
    show_status: Callable[[str], None]
    """Shows the step that is running."""

    def scaled(self, size: int, *, least: int, most: float = inf) -> int:
        """Return `size`, which is meant for scale 1, at this scale, within these limits."""
        return int(min(most, max(least, round(size * self.scale))))

    def each_run(self, what: str) -> Iterator[int]:
        """Yield the numbers of the runs, from 1, and show each as it begins."""
        for number in range(1, self.runs + 1):
            self.show_status(f"{what}, run {number} of {self.runs}")
            yield number

    @contextmanager
    def gateway(self) -> Iterator[Gateway]:
        """Yield a new gateway; its folder is removed at the end."""
        self.show_status("starting Postgres")
        with scratch_folder(self.folder) as folder, running_gateway(folder / "gateway") as gateway:
            yield gateway


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder, which is removed with the block."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
