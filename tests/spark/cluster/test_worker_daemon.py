"""Spark's Python workers are forks of a daemon that has the drain's modules imported, and no second thread."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.spark.session import spark_options

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")

DAEMON = "spark_jobs.spark.worker_daemon"


def facts(_: Iterable[int]) -> Iterator[tuple[str, int, bool]]:
    """Return the parent's command line and threads, and whether this worker has the modules of a build."""
    parent = Path(f"/proc/{os.getppid()}")
    command = (parent / "cmdline").read_text().replace("\0", " ")
    yield command, len([*(parent / "task").iterdir()]), "spark_jobs.build_files" in sys.modules


def test_workers_are_forks_of_a_daemon_with_one_thread_that_has_imported_what_builds_need(spark: SparkSession) -> None:
    [(command, threads, imported)] = spark.sparkContext.parallelize([0], 1).mapPartitions(facts).collect()
    assert DAEMON in command
    assert (threads, imported) == (1, True)


@pytest.mark.parametrize(("master", "daemon"), [("local[2]", DAEMON), (None, DAEMON), ("spark://host:7077", None)])
def test_executors_on_other_machines_have_sparks_own_daemon(master: str | None, daemon: str | None) -> None:
    assert spark_options(master).get("spark.python.daemon.module") == daemon
