"""A landing zone as another publisher writes it, a mirror process over it, and what its Delta tables have."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from app.local.embedded import find_java
from app.published.table_files import PublishedTable
from demo.landing_reader import table_folder
from demo.mirror_reader import open_mirrored
from tests.mirror.small_zone import Change, SmallZone
from tests.support.processes import REPOSITORY, environment_with, start_program


class Zone:
    """A landing zone with tables of keys and notes, and a target beside it."""

    def __init__(self, place: Path) -> None:
        self._place, self.root, self.target = place, place / "zone", place / "mirror"
        self.root.mkdir()

    def folder(self, table: str) -> Path:
        return table_folder(self.root, table)

    def land(self, table: str, number: int, rows: pa.Table | Sequence[Change]) -> Path:
        """Publish a file as the rules demand: metadata first, then a rename."""
        place = self.folder(table).relative_to(self.root)
        return SmallZone(self._place, PublishedTable.at(str(place))).land(number, rows)

    def version(self, table: str) -> int:
        """Return the last version of the Delta table, -1 without one."""
        opened = open_mirrored(self.target, table)
        return -1 if opened is None else opened.version()

    def rows(self, table: str) -> list[tuple[int, str]]:
        """Return the rows of the Delta table by key."""
        found = self._delta(table).to_pyarrow_dataset().to_table()
        return sorted(zip(found["id"].to_pylist(), found["note"].to_pylist(), strict=True))

    def history(self, table: str) -> list[str]:
        """Return the landing files that each version applied, the oldest first."""
        return [commit["mirrorgate.files"] for commit in reversed(self._delta(table).history())]

    def _delta(self, table: str) -> DeltaTable:
        opened = open_mirrored(self.target, table)
        assert opened is not None, f"{table} is not mirrored"
        return opened


def mirror_environment(zone: Zone, **settings: object) -> dict[str, str]:
    """Return an environment that configures nothing but a mirror: no database, and two Spark tasks at a time."""
    own = {"LANDING_ZONE": zone.root, "MIRROR_TARGET": zone.target, "SPARK_MASTER": "local[2]", **settings}
    return environment_with(**own) | {"JAVA_HOME": str(find_java(Path(".mirrorgate"), os.environ))}


def run_once(zone: Zone, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `mirrorgate mirror run --once` to its end."""
    command = [sys.executable, "-m", "mirrorgate.cli", "mirror", "run", "--once", zone.root, "--to", zone.target]
    environment = mirror_environment(zone, LOG_LEVEL="error")
    return subprocess.run(
        [*command, *arguments], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=150
    )


@contextmanager
def running_mirror(zone: Zone, log: Path, *arguments: str, **settings: object) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a mirror until the block ends, then kill what is left of it."""
    command = [sys.executable, "-m", "spark_jobs.mirror", *arguments]
    process = start_program(log, *command, environment=mirror_environment(zone, **settings), start_new_session=True)
    try:
        yield process
    finally:
        kill_all(process)


def kill_all(process: "subprocess.Popen[bytes]") -> None:
    """Kill a mirror with its JVM and its Python workers, as a machine that goes down does."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()


def events(log: Path) -> list[dict[str, object]]:
    """Return the log lines of a mirror."""
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
