"""Mirror, freshness: time from a visible landing file to its rows in Delta, compared with an empty Spark job."""

import os
import random
import statistics
import time
from typing import Final

from benchmarks.bench import Bench, scratch_folder
from benchmarks.limits.empty_job import empty_jobs
from benchmarks.mirroring.landing_files import changes, inserts, make_table, publish, write_file
from benchmarks.mirroring.process import Mirror, running_mirror
from benchmarks.reports.figure import Figure, Goal, Measured, Of

JOBS: Final = 30
ROWS: Final = 1_000
MAX_PAUSE: Final = 0.5
"""Seconds between two looks of the mirror, by which the moments of publication are spread."""


def measure(bench: Bench) -> list[Figure]:
    """Publish files of 1,000 upserts and deletes, each after the one before is in Delta, in a run as long as others."""
    seen, jobs, worst = [], [], []
    bench.show_status("mirror freshness, starting Spark")
    with (
        scratch_folder(bench.folder) as folder,
        running_mirror(folder / "mirror") as mirror,
        empty_jobs(folder, dict(os.environ)) as spark,
    ):
        table = make_table(folder / "fresh")
        write_file(table, 1, inserts(0, 10 * ROWS))
        mirror.show(table)
        mirror.wait_for_file(table.name, 1)
        last = 1
        for number in bench.each_run("mirror freshness"):
            jobs.append(spark.median_seconds(JOBS) * 1e3)
            found = _ages(mirror, last, bench.seconds, random.Random(number))
            last += len(found)
            seen.append(statistics.median(found) * 1e3)
            worst.append(max(found) * 1e3)
    return [
        Figure(
            "mirror-freshness",
            f"Mirror freshness: landing file of {ROWS:,} changes visible to rows in Delta, median",
            "ms",
            Measured.of(seen),
            Measured.of(jobs),
            "an empty Spark job of the same kind",
            Goal(2_000, at_least=False, of=Of.VALUE),
            {"slowest": f"{max(worst):.0f} ms"},
        )
    ]


def _ages(mirror: Mirror, last: int, seconds: float, dice: random.Random) -> list[float]:
    """Publish files that follow file `last`; return the seconds from when each was visible to its Delta version."""
    table, found = mirror.zone / "fresh", list[float]()
    source = make_table(mirror.folder / f"source-{last}")
    give_up = time.monotonic() + seconds
    while not found or time.monotonic() < give_up:
        number = last + len(found) + 1
        file = write_file(source, number, changes(number, ROWS, 10 * ROWS))
        time.sleep(dice.uniform(0, MAX_PAUSE))
        publish(file, table, number)
        visible = time.time()
        found.append(mirror.wait_for_versions([table.name], number - 1) - visible)
    return found
