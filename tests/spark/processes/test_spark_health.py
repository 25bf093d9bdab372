"""Drains whose Spark hangs, and a drain under spark-submit on a cluster."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pyspark
import pytest
import sqlalchemy as sa

from app.settings import PREFIX
from benchmarks.machine.processes import started
from mirrorgate.errors import Code, TemporarilyUnavailable
from spark_jobs.spark.health import SparkCalls, SparkWatch
from tests.support.gateway_parts import landed_keys, registered, stage_keys
from tests.support.postgres import sql
from tests.support.processes import REPOSITORY, is_alive
from tests.support.samples.schemas import ID
from tests.support.waiting import Clock, wait_until

HANGS = """
import threading, time
from spark_jobs.spark.watchdog import BoundedStop
with BoundedStop(seconds=0.05) as stop:
    stop.last_acts.append(threading.Event().wait)
    stop.ask()
    threading.Event().wait()
"""


class Watched:
    """A watch over calls by a clock that the test moves."""

    def __init__(self, *, stuck_seconds: float = 60.0) -> None:
        self.clock = Clock()
        self.calls = SparkCalls(self.clock)
        self.newest: object = None
        self.ended: str | None = None
        self.watch = SparkWatch(
            self.calls,
            stuck_seconds=stuck_seconds,
            has_ended=lambda: self.ended,
            newest_statement=self.statement,
            on_dead=lambda _: None,
        )

    def statement(self) -> object:
        if isinstance(self.newest, Exception):
            raise self.newest
        return self.newest

    def after(self, seconds: float) -> str | None:
        self.clock.now += seconds
        return self.watch.check()


def test_a_job_without_progress_for_too_long_is_stuck_although_others_end() -> None:
    watched = Watched()
    with watched.calls.running():
        assert watched.after(40) is None
        with watched.calls.running():
            pass
        assert watched.after(19) is None
        assert watched.after(2) == "Spark has made no progress for 61 s"


def test_a_long_job_whose_tasks_read_from_postgres_is_not_stuck() -> None:
    watched = Watched()
    with watched.calls.running():
        for number in range(10):
            watched.newest = number
            assert watched.after(59) is None
        assert watched.after(61) is not None


def test_while_postgres_is_away_a_job_is_not_stuck() -> None:
    watched = Watched()
    watched.newest = TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres does not answer")
    with watched.calls.running():
        assert watched.after(1_000) is None
        assert watched.after(1_000) is None


def test_an_idle_drain_and_one_that_may_wait_for_ever_are_not_stuck() -> None:
    assert Watched().after(1_000) is None
    patient = Watched(stuck_seconds=0)
    with patient.calls.running():
        assert patient.after(1_000_000) is None


def test_a_spark_that_has_ended_is_noticed_while_nothing_runs() -> None:
    watched = Watched()
    watched.ended = "the Spark context is stopped"
    assert watched.after(0) == "the Spark context is stopped"


def test_a_process_whose_threads_hang_ends_itself_in_time() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGS], cwd=REPOSITORY, timeout=60, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "stop_forced" in ended.stdout + ended.stderr


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="stops processes of Spark")
def test_a_drain_whose_spark_hangs_ends_with_the_reason_and_leaves_no_process(
    engine: sa.Engine, database_url: str, tmp_path: Path
) -> None:
    """Its Python workers are stopped, so that a job neither fails nor ends; restarted, it publishes everything."""
    table = registered(engine, "a", ID)
    stage_keys(engine, table, [1])
    settings = {
        "DATABASE_URL": database_url,
        "LANDING_ZONE": str(tmp_path / "zone"),
        "MAX_DELAY_SECONDS": "0",
        "SPARK_JOB_MIN_BYTES": "0",
        "SPARK_STUCK_SECONDS": "6",
        "SPARK_MASTER": "local[1]",
        "ALLOW_UNSAFE": "true",
    }
    environment = os.environ | {f"{PREFIX}{name}": value for name, value in settings.items()}
    log_file = tmp_path / "drain.log"
    command = [sys.executable, "-m", "spark_jobs.drain"]
    published = "SELECT published_through FROM mirrorgate.table_counters"
    with started("drain", command, environment=environment, log_file=log_file) as process:
        wait_until(lambda: sql.value(engine, published) == 1, within=60, what="the first batch is published")
        family = psutil.Process(process.pid).children(recursive=True)
        for member in family:
            with suppress(psutil.NoSuchProcess):
                if "spark_jobs.spark.worker_daemon" in member.cmdline():
                    member.send_signal(signal.SIGSTOP)
        stage_keys(engine, table, [2])
        assert process.wait(timeout=60) == 1
    assert '"event":"spark_failed"' in log_file.read_text()
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.workers") == 0
    for member in family:
        with suppress(psutil.NoSuchProcess):
            if member.status() == psutil.STATUS_STOPPED:
                member.kill()
    wait_until(
        lambda: not any(is_alive(member.pid) for member in family),
        within=60,
        what="Spark's processes are gone",
    )
    del environment[f"{PREFIX}SPARK_STUCK_SECONDS"]  # a slow machine is not a stuck Spark
    again = subprocess.run([*command, "--once"], env=environment, cwd=REPOSITORY, timeout=90, check=False)
    assert again.returncode == 0
    assert landed_keys(tmp_path / "zone", "a") == [[1], [2]]


QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the three JVMs, which live for seconds: compile little."""


@pytest.mark.thorough
def test_the_drain_publishes_under_spark_submit_on_a_cluster_of_two_workers(
    engine: sa.Engine, database_url: str, tmp_path: Path
) -> None:
    landing_zone = tmp_path / "landing-zone"
    for name in ("a", "b"):
        stage_keys(engine, registered(engine, name, ID), [1, 2], [3])
    environment = os.environ | {
        "MIRRORGATE_DATABASE_URL": database_url,
        "MIRRORGATE_LANDING_ZONE": str(landing_zone),
        "MIRRORGATE_SPARK_JOB_MIN_BYTES": "0",
        "MIRRORGATE_ALLOW_UNSAFE": "true",  # the tests' Postgres does not fsync
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [
        str(submit),
        "--master",
        "local-cluster[2,1,1024]",
        *("--driver-java-options", QUICK_START, "--conf", f"spark.executor.extraJavaOptions={QUICK_START}"),
        str(REPOSITORY / "spark_jobs" / "drain.py"),
        "--once",
    ]
    finished = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=150)
    assert finished.returncode == 0, finished.stderr
    assert landed_keys(landing_zone, "a") == landed_keys(landing_zone, "b") == [[1, 2, 3]]
