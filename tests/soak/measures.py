"""Samples of a running gateway: what its processes, its database and its folders take.

A measure is named `<what> <unit>`; the unit is its last word.
"""

import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from benchmarks.machine.process_facts import children, descendants, resident
from benchmarks.reports.figure import BenchmarkFailed
from tests.soak.growth import Allowance
from tests.support.processes import command_of

ALLOWED: Final[Mapping[str, Allowance]] = {
    "MB": Allowance(24.0),
    "descriptors": Allowance(8),
    "threads": Allowance(12, share=0.0),  # a tenth of the workers' threads would hide a leak
    "connections": Allowance(4),
    "dead-rows": Allowance(5_000),
    "files": Allowance(40),
}
"""Growth that is allowed, by unit: noise of an allocator, a pool, autovacuum and open batches."""

_DATABASE: Final = sa.text("""
    SELECT (pg_database_size(current_database()) - pg_total_relation_size('mirrorgate.metadata_blocks')) / 1e6,
        (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
        (SELECT coalesce(sum(n_dead_tup), 0)::float8 FROM pg_stat_user_tables),
        (SELECT pg_total_relation_size('mirrorgate.row_images') / 1e6)""")

_CHAIN: Final = sa.text("""
    SELECT count(*), pg_total_relation_size('mirrorgate.metadata_blocks') FROM mirrorgate.metadata_blocks""")

_PARTS: Final = {"app.main": "API", "spark_jobs.drain": "drain", "spark_jobs.mirror": "mirror", "postgres": "Postgres"}
"""Part of a process by a word of its command line."""


def sample(up: int, data_dir: Path, engine: sa.Engine) -> dict[str, float]:
    """Return every measure of the gateway whose `mirrorgate up` has this process id."""
    return _processes(up) | _database(engine) | _folders(data_dir)


def measure_chain(engine: sa.Engine) -> tuple[int, int]:
    """Return the blocks and the bytes of the metadata chain, which is kept always; the samples leave it out."""
    with engine.begin() as connection:
        blocks, size = connection.execute(_CHAIN).one()
    return int(blocks), int(size)


def _processes(up: int) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    _add(found, "up", up)
    for child in children(up):
        part = _part(child)
        for pid in (child, *descendants(child)):
            _add(found, _kind(part, command_of(pid)), pid)
    return dict(found)


def _kind(part: str, command: list[str]) -> str:
    """Return the part, or its JVM or Spark's Python workers, which have their own measures."""
    if Path(command[0] if command else "").name == "java":
        return f"{part} JVM"
    return f"{part} workers" if any(word.endswith("_daemon") for word in command) else part


def _add(found: dict[str, float], part: str, pid: int) -> None:
    with suppress(FileNotFoundError, ProcessLookupError, BenchmarkFailed):  # the process has ended, or is a zombie
        memory = resident(pid, "RssAnon")
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  # names alone, without a stat each
        threads = len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
        found[f"{part} memory MB"] += memory
        found[f"{part} descriptors"] += descriptors
        found[f"{part} threads"] += threads


def _part(pid: int) -> str:
    words = " ".join(command_of(pid))
    return next((part for word, part in _PARTS.items() if word in words), "other")


def _database(engine: sa.Engine) -> dict[str, float]:
    with engine.begin() as connection:
        size, connections, dead, images = connection.execute(_DATABASE).one()
    return {
        "database size MB": float(size),
        "row images MB": float(images),
        "database connections": float(connections),
        "database dead-rows": float(dead),
    }


def _folders(data_dir: Path) -> dict[str, float]:
    """Count the files of each folder, and the bytes of the logs. The Delta tables keep every version, so they grow."""
    counts = {f"{folder} files": float(_files(data_dir / folder)) for folder in ("landing-zone", "postgres")}
    logs = sum(file.stat().st_size for file in data_dir.glob("*.log*")) / 1e6
    others = [
        one for one in data_dir.iterdir() if one.is_dir() and one.name not in ("landing-zone", "postgres", "mirror")
    ]
    return counts | {"logs MB": logs, "other files": float(sum(_files(one) for one in others))}


def _files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))
