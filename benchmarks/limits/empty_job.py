"""The limit of freshness: empty Spark jobs in a session like the drain's, `python -m benchmarks.limits.empty_job`.

It prints one line when the session is warm. Each line that it reads is a number of jobs; it answers with their median
in seconds.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from app.local.embedded import find_java
from app.observability.telemetry import configure_logging
from app.settings import Settings
from benchmarks.machine.processes import started
from benchmarks.reports.figure import BenchmarkFailed
from spark_jobs.spark.session import running_spark


class EmptyJobs:
    """A Spark session with the drain's settings, in its own process."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._line()

    def median_seconds(self, jobs: int) -> float:
        """Run this many jobs one after the other; return the median."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{jobs}\n".encode())
        self._process.stdin.flush()
        return float(self._line())

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkFailed("Spark did not start for the empty jobs")
        return line


@contextmanager
def empty_jobs(folder: Path, environment: dict[str, str]) -> Iterator[EmptyJobs]:
    """Yield a session that ends with the block."""
    pipe = subprocess.PIPE
    java = {"JAVA_HOME": str(find_java(folder, environment))}
    command = [sys.executable, "-m", "benchmarks.limits.empty_job"]
    with started("spark", command, environment=java, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        yield EmptyJobs(process)


def _seconds(spark: SparkSession) -> float:
    started_at = time.perf_counter()
    spark.sparkContext.parallelize([0], 1).mapPartitions(iter).collect()
    return time.perf_counter() - started_at


def main() -> None:
    """Answer the numbers on standard input until it closes."""
    settings = Settings()
    configure_logging(settings)  # output of the JVM goes to standard error, apart from the answers
    with running_spark(settings) as spark:
        for _ in range(10):
            _seconds(spark)
        sys.stdout.write("warm\n")
        sys.stdout.flush()
        for line in sys.stdin:
            sys.stdout.write(f"{statistics.median(_seconds(spark) for _ in range(int(line)))}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
