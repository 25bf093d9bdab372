"""A landing zone as another publisher writes it, a mirror process over it, and what its Delta tables have."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from app.local.embedded import find_java
from app.settings import PREFIX
from tests.support.processes import REPOSITORY

Change = tuple[int, str, int]
"""Key, value and row marker."""

_SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.string()), ("__rowMarker__", pa.int32())])


class Zone:
    """A landing zone with tables of one schema, and a target beside it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.target = folder / "zone", folder / "mirror"
        self.root.mkdir()

    def folder(self, table: str) -> Path:
        schema, _, name = table.rpartition(".")
        return self.root / f"{schema}.schema" / name if schema else self.root / name

    def land(self, table: str, number: int, changes: Iterable[Change], schema: pa.Schema = _SCHEMA) -> Path:
        """Publish a file as the rules demand: metadata first, then a rename."""
        folder = self.folder(table)
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "_metadata.json").write_text(json.dumps({"keyColumns": ["id"]}))
        rows = [dict(zip(_SCHEMA.names, change, strict=True)) for change in changes]
        hidden, path = folder / f"_{number}", folder / f"{number:020d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, _SCHEMA).cast(schema), hidden)
        return hidden.rename(path)

    def version(self, table: str) -> int:
        """Return the last version of the Delta table, -1 without one."""
        folder = self.delta_folder(table)
        return DeltaTable(folder).version() if (folder / "_delta_log").is_dir() else -1

    def rows(self, table: str) -> list[tuple[int, str]]:
        """Return the rows of the Delta table by key."""
        found = DeltaTable(self.delta_folder(table)).to_pyarrow_dataset().to_table()
        return sorted(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))

    def delta_folder(self, table: str) -> Path:
        return self.target / table.replace(".", "/")

    def history(self, table: str) -> list[str]:
        """Return the landing files that each version applied, the oldest first."""
        return [commit["mirrorgate.files"] for commit in reversed(DeltaTable(self.delta_folder(table)).history())]


def mirror_environment(zone: Zone, **settings: object) -> dict[str, str]:
    """Return an environment that configures nothing but a mirror: no database, and two Spark tasks at a time."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    own = {"LANDING_ZONE": zone.root, "MIRROR_TARGET": zone.target, "SPARK_MASTER": "local[2]", **settings}
    java = find_java(Path(".mirrorgate"), inherited)
    return inherited | {"JAVA_HOME": str(java)} | {f"{PREFIX}{name}": str(value) for name, value in own.items()}


def run_once(zone: Zone, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `mirrorgate mirror run --once` to its end."""
    command = [
        sys.executable,
        "-m",
        "mirrorgate.cli",
        "mirror",
        "run",
        "--once",
        str(zone.root),
        "--to",
        str(zone.target),
    ]
    environment = mirror_environment(zone, LOG_LEVEL="error")
    return subprocess.run(
        [*command, *arguments], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=150
    )


@contextmanager
def running_mirror(zone: Zone, log: Path, *arguments: str, **settings: object) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a mirror until the block ends, then kill what is left of it."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.mirror", *arguments],
            cwd=REPOSITORY,
            env=mirror_environment(zone, **settings),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
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
