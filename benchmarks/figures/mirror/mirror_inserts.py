"""Mirror, inserts: rows per second from landing files to a Delta table, compared with a plain append of the rows."""

import time
from typing import Final

from benchmarks.bench import Bench, scratch_folder
from benchmarks.mirroring.landing_files import inserts, make_table, read_files, write_file
from benchmarks.mirroring.plain_append import append_seconds
from benchmarks.mirroring.process import running_mirror
from benchmarks.reports.figure import Figure, Goal, Measured

ROWS: Final = 4_000_000
FILES: Final = 8


def measure(bench: Bench) -> list[Figure]:
    """Let a table with all its files appear in the landing zone, then append the rows of the same files.

    The time begins when the folder appears, so it includes the wait for the mirror's next look.
    """
    per_file = bench.scaled(ROWS, least=40_000) // FILES
    mirrored, appended = [], []
    bench.show_status("mirror of inserts, starting Spark")
    with scratch_folder(bench.folder) as folder, running_mirror(folder / "mirror") as mirror:
        first = make_table(folder / "warm_up")
        write_file(first, 1, inserts(0, 1_000))
        mirror.show(first)
        mirror.wait_for_file(first.name, 1)
        for number in bench.each_run("mirror of inserts"):
            made = make_table(folder / f"run_{number}")
            for file in range(FILES):
                write_file(made, file + 1, inserts(file * per_file, per_file))
            appended.append(FILES * per_file / append_seconds(folder / f"plain_{number}", read_files(made)))
            began = time.time()
            mirror.show(made)
            mirrored.append(FILES * per_file / (mirror.wait_for_file(made.name, FILES) - began))
    return [
        Figure(
            "mirror-inserts",
            "Mirror: rows of inserts from landing files to Delta, one table",
            "rows/s",
            Measured.of(mirrored),
            Measured.of(appended),
            "deltalake appends the same rows from memory",
            Goal(0.3, at_least=True),
            {"rows per run": f"{FILES * per_file:,}", "files per run": str(FILES)},
        )
    ]
