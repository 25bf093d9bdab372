"""Mirror, 1,000 tables: time for one new file in each, and processor time while nothing is new."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from benchmarks.bench import Bench, scratch_folder
from benchmarks.loads.workloads import TABLES
from benchmarks.mirroring.landing_files import inserts, make_table, publish, without_marker, write_file
from benchmarks.mirroring.plain_append import append_seconds
from benchmarks.mirroring.process import running_mirror
from benchmarks.reports.figure import Figure, Measured

APPENDS: Final = 100
SETTLED_SECONDS: Final = 3.0
"""After this time without a change, a look at a folder is one system call."""


def measure(bench: Bench) -> list[Figure]:
    """Publish one row for each table, wait until all are in Delta, then watch the idle mirror beside one of no table.

    The first files create the Delta tables; they do not count as a run.
    """
    count = bench.scaled(TABLES, least=20)
    times, plain, idle, empty = [], [], [], []
    bench.show_status("mirror of tables, starting Spark")
    with (
        scratch_folder(bench.folder) as folder,
        running_mirror(folder / "mirror") as mirror,
        running_mirror(folder / "empty") as other,
        ThreadPoolExecutor(1) as thread,
    ):
        source = make_table(folder / "source")
        made = [make_table(folder / "made" / f"table_{number:04}") for number in range(count)]
        for table in made:
            mirror.show(table)
        folders = [mirror.zone / table.name for table in made]

        def cycle(number: int) -> float:
            file = write_file(source, number, inserts(number, 1))
            began = time.time()
            for table in folders:
                publish(file, table, number)
            return (mirror.wait_for_versions([table.name for table in folders], number - 1) - began) * 1e3 / count

        bench.show_status(f"mirror of {count:,} tables, the first files")
        first = cycle(1)
        for number in bench.each_run(f"mirror of {count:,} tables"):
            times.append(cycle(number + 1))
            plain.append(_plain_milliseconds(folder / f"plain_{number}"))
            time.sleep(SETTLED_SECONDS)
            beside = thread.submit(other.processor_share, bench.seconds)
            idle.append(mirror.processor_share(bench.seconds) * 1e3)
            empty.append(beside.result() * 1e3)
    return [
        Figure(
            "mirror-tables",
            f"Mirror: one new file of one row in each of {count:,} tables, time per table",
            "ms",
            Measured.of(times),
            Measured.of(plain),
            "deltalake appends one row, one table after the other",
            details={"first files, which create the Delta tables": f"{first:.1f} ms per table"},
        ),
        Figure(
            "mirror-idle",
            f"Mirror of {count:,} tables without new files: processor time per second",
            "ms",
            Measured.of(idle),
            Measured.of(empty),
            "the mirror of an empty landing zone at the same time",
        ),
    ]


def _plain_milliseconds(folder: Path) -> float:
    """Return the milliseconds of an append to a table that has one commit, as the mirror's tables have few."""
    row, tables = without_marker(inserts(0, 1)), [folder / str(number) for number in range(APPENDS)]
    for table in tables:
        append_seconds(table, [row])
    return sum(append_seconds(table, [row]) for table in tables) * 1e3 / APPENDS
