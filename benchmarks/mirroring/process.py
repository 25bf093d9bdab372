"""The mirror under test: the real process with its own Spark, on a landing zone and a target in one folder."""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from app.local.embedded import find_java
from app.mirror.target import FILES
from app.settings import PREFIX
from benchmarks.gateway import wait_until
from benchmarks.machine.process_facts import tree_cpu_seconds
from benchmarks.machine.processes import started

_WITHIN_SECONDS: Final = 1_800.0
_TICK_SECONDS: Final = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Mirror:
    """A running mirror."""

    folder: Path
    pid: int

    @property
    def zone(self) -> Path:
        """Return the landing zone."""
        return self.folder / "zone"

    def log(self, table: str) -> Path:
        """Return the folder of a Delta table's log."""
        return self.folder / "delta" / table / "_delta_log"

    def show(self, made: Path) -> None:
        """Move a table folder into the landing zone, where it becomes visible with all its files."""
        made.rename(self.zone / made.name)

    def wait_for_versions(self, tables: Iterable[str], version: int) -> float:
        """Wait until the Delta tables have this version; return when the last one got it, in seconds of the clock."""
        files = [self.log(table) / f"{version:020}.json" for table in tables]
        waiting = list(files)

        def is_there() -> bool:
            waiting[:] = [file for file in waiting if not file.exists()]
            return not waiting

        wait_until(is_there, f"the mirror has version {version}", within=_WITHIN_SECONDS, every=0.005)
        return max(file.stat().st_mtime for file in files)

    def wait_for_file(self, table: str, number: int) -> float:
        """Wait until a Delta table has applied a landing file; return when, in seconds of the clock."""
        wait_until(lambda: self._position(table) >= number, f"file {number} is applied", within=_WITHIN_SECONDS)
        return max(file.stat().st_mtime for file in self.log(table).glob("*.json"))

    def processor_share(self, seconds: float) -> float:
        """Return the cores that the mirror, its Spark and its workers use over some seconds, at least one tick."""
        before, began = tree_cpu_seconds(self.pid), time.monotonic()
        time.sleep(seconds)
        return max(tree_cpu_seconds(self.pid) - before, _TICK_SECONDS) / (time.monotonic() - began)

    def _position(self, table: str) -> int:
        with suppress(DeltaError):  # it is not there yet
            return DeltaTable(str(self.log(table).parent)).transaction_version(FILES) or 0
        return 0


@contextmanager
def running_mirror(folder: Path) -> Iterator[Mirror]:
    """Yield a mirror of `zone` in a new folder, once it looks at tables; it ends with the block."""
    (folder / "zone").mkdir(parents=True)
    ready = folder / "ready.json"
    environment = {
        f"{PREFIX}LANDING_ZONE": str(folder / "zone"),
        f"{PREFIX}MIRROR_TARGET": str(folder / "delta"),
        "JAVA_HOME": str(find_java(folder, os.environ)),
    }
    command = [sys.executable, "-m", "spark_jobs.mirror", "--parent-pid", str(os.getpid()), "--ready-file", str(ready)]
    with started("mirror", command, environment=environment, log_file=folder / "mirror.log") as process:
        wait_until(ready.exists, "the mirror runs", process)
        yield Mirror(folder, process.pid)
