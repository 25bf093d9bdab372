"""Apply all landing files of a zone in this process, `python -m benchmarks.mirroring.fold_process ZONE TARGET`.

This is the work of one Spark task of the mirror, without Spark, so that the peak memory is that of the work. The caller
gives it the environment of a worker. It prints a `Folded` as JSON.
"""

import os
import sys
import time

import msgspec

from app.domain.mirror_report import MirrorState
from app.landing.open_zone import ZoneAddress, open_zone
from app.mirror.table_mirror import MirrorLimits, advance_table
from app.mirror.target import MirrorTarget
from app.published.table_files import list_tables
from benchmarks.machine.process_facts import resident


class Folded(msgspec.Struct, frozen=True):
    """How long it took, and the memory before it and at its peak."""

    seconds: float
    commits: int
    idle_megabytes: float
    peak_megabytes: float


def main() -> None:
    """Apply the files."""
    zone, target = open_zone(ZoneAddress(sys.argv[1])), MirrorTarget(sys.argv[2])
    [table] = list_tables(zone)
    idle, began, commits = resident(os.getpid(), "VmHWM"), time.perf_counter(), 0
    while (report := advance_table(zone, target, table, MirrorLimits())).state is MirrorState.BEHIND:
        commits += 1
    if report.state is not MirrorState.IN_STEP:
        sys.exit(f"the table is {report.state}: {report.detail}")
    found = Folded(time.perf_counter() - began, commits + 1, idle, resident(os.getpid(), "VmHWM"))
    sys.stdout.write(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main()
