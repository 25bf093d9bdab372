"""What a figure is measured with: how often, how long, at which scale, in which folder."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gateway import Gateway, running_gateway


@dataclass(frozen=True, slots=True)
class Bench:
    """`seconds` is how long a run under load takes; `scale` shortens backlogs, 1 is the size that a goal is about."""

    runs: int
    seconds: float
    scale: float
    folder: Path
    say: Callable[[str], None]
    """Shows what is being done."""

    def scaled(self, size: int, *, least: int) -> int:
        """A size at scale 1, at this scale."""
        return max(least, round(size * self.scale))

    def each_run(self, what: str) -> Iterator[int]:
        """Numbers of the runs, from 1, each shown as it begins."""
        for number in range(1, self.runs + 1):
            self.say(f"{what}, run {number} of {self.runs}")
            yield number

    @contextmanager
    def gateway(self) -> Iterator[Gateway]:
        """A new gateway; its folder is removed at the end."""
        self.say("starting Postgres")
        with scratch_folder(self.folder) as folder, running_gateway(folder / "gateway") as gateway:
            yield gateway


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A new folder, which goes with the block."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
