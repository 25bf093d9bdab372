"""Mirror, folding: rate and peak memory of applying 10 M changes of 1 M keys, compared with appending their rows."""

import sys
from typing import Final

import msgspec

from benchmarks.bench import Bench, scratch_folder
from benchmarks.machine.processes import run_to_end
from benchmarks.mirroring.fold_process import Folded
from benchmarks.mirroring.landing_files import changes, make_table, read_files, write_file
from benchmarks.mirroring.plain_append import append_seconds
from benchmarks.reports.figure import Figure, Goal, Measured, Of
from spark_jobs.spark.worker_daemon import WORKER_ENVIRONMENT

CHANGES: Final = 10_000_000
CHANGES_PER_KEY: Final = 10
FILES: Final = 100


def measure(bench: Bench) -> list[Figure]:
    """Apply the same files to a new Delta table in each run, in a new process, so that the peak is that of the run."""
    per_file = bench.scaled(CHANGES, least=100_000) // FILES
    total = FILES * per_file
    rates, appended, peaks, idle = [], [], [], []
    with scratch_folder(bench.folder) as folder:
        bench.show_status("mirror fold, writing landing files")
        made = make_table(folder / "zone" / "folded")
        for number in range(1, FILES + 1):
            write_file(made, number, changes(number, per_file, total // CHANGES_PER_KEY))
        for number in bench.each_run("mirror fold"):
            command = [sys.executable, "-m", "benchmarks.mirroring.fold_process", str(made.parent)]
            output = run_to_end(
                "mirror fold", [*command, str(folder / f"delta-{number}")], environment=WORKER_ENVIRONMENT
            )
            found = msgspec.json.decode(output, type=Folded)
            rates.append(total / found.seconds)
            peaks.append(found.peak_megabytes)
            idle.append(found.idle_megabytes)
            appended.append(total / append_seconds(folder / f"plain-{number}", read_files(made)))
    details = {"changes per run": f"{total:,}", "commits per run": str(found.commits)}
    return [
        Figure(
            "mirror-fold",
            "Mirror: upserts and deletes applied to Delta, ten per key, one table",
            "changes/s",
            Measured.of(rates),
            Measured.of(appended),
            "deltalake appends the same rows from memory",
            details=details,
        ),
        Figure(
            "mirror-fold-memory",
            f"Mirror: peak memory of a task that applies {total:,} changes of {total // CHANGES_PER_KEY:,} keys",
            "MB",
            Measured.of(peaks),
            Measured.of(idle),
            "the same process before the first file",
            Goal(2_000, at_least=False, of=Of.VALUE),
        ),
    ]
