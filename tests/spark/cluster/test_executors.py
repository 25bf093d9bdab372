"""Executors of a cluster: those that are missing, lost, of other machines or wrong for doctor."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from app.domain.health.facts import HealthFacts
from app.domain.health.troubles import parts
from app.domain.preflight import Finding, Outcome
from app.landing.open_zone import ZoneAddress
from app.settings import PREFIX
from app.staging.tables.status import gateway_facts
from benchmarks.machine.processes import started
from benchmarks.machine.standalone_cluster import standalone_cluster
from spark_jobs.doctor import examine_executors
from spark_jobs.spark.session import ExecutorWatch, spark_options
from tests.support.cli_output import first_json
from tests.support.gateway_parts import landed_keys, registered, stage_keys
from tests.support.postgres import sql
from tests.support.processes import REPOSITORY
from tests.support.samples.schemas import ID
from tests.support.small_drain import small_drain
from tests.support.waiting import wait_until

MASTER = "spark://master:7077"


def test_missing_executors_are_logged_after_some_seconds_then_every_minute_and_when_they_are_back() -> None:
    now = 0.0
    watch = ExecutorWatch(clock=lambda: now)
    missing = []
    with capture_logs() as logs:
        for now, executors in [(0, 1), (14, 0), (15, 0), (74, 0), (75, 0), (80, 2), (90, 0), (96, 0)]:  # noqa: B007
            watch.check(executors, MASTER)
            missing.append(watch.are_missing)
    assert missing == [False, False, True, True, True, False, False, True]
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("spark_without_executors", "warning"),
        ("spark_without_executors", "warning"),
        ("spark_has_executors", "info"),
        ("spark_without_executors", "warning"),
    ]
    assert logs[0]["detail"] == f"{MASTER} has given this program no executor for 15 s"
    assert "spark.executor.memory" in logs[0]["remedy"]


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.usefixtures("engine")
def test_workers_that_are_too_small_for_an_executor_are_named_at_the_start(database_url: str, tmp_path: Path) -> None:
    zone = tmp_path / "zone"
    zone.mkdir()
    settings = {"DATABASE_URL": database_url, "LANDING_ZONE": str(zone), "ALLOW_UNSAFE": "true"}
    log = tmp_path / "drain.log"
    with standalone_cluster(tmp_path / "cluster", workers=1, worker_memory="512m") as cluster:
        environment = cluster.environment | {f"{PREFIX}{name}": value for name, value in settings.items()}
        environment[f"{PREFIX}SPARK_MASTER"] = cluster.url
        command = [sys.executable, "-m", "spark_jobs.drain", "--parent-pid", str(os.getpid())]
        with started("drain", command, environment=environment, log_file=log):
            wait_until(lambda: "spark_without_executors" in log.read_text(), within=120, what="the line is logged")


def test_a_drain_without_executors_tells_the_gateway(engine: sa.Engine, database_url: str, tmp_path: Path) -> None:
    with small_drain(database_url, tmp_path / "zone", rows=10) as cycle:
        for missing, said in ((True, "1 of 1 drains publish nothing: spark_without_executors"), (False, "ok")):
            cycle.executors.are_missing = missing
            cycle.renew_lease(60)
            assert parts(HealthFacts(gateway=sql.call(engine, gateway_facts)))["drain"].startswith(said)


def outcomes(findings: list[Finding]) -> dict[str, Outcome]:
    return {finding.check: finding.outcome for finding in findings}


def test_executors_that_write_where_the_driver_reads_are_well(
    spark: SparkSession, landing_zone: Path, database_url: str
) -> None:
    found = outcomes(examine_executors(spark, ZoneAddress(str(landing_zone)), database_url))
    assert found == dict.fromkeys(
        ["zone_executor_writes", "zone_clean_up", "executor_packages", "executor_database", "executor_clock"],
        Outcome.OK,
    )
    assert [*landing_zone.rglob("*")] == [landing_zone / "_scratchPad"]


def test_executors_that_do_not_reach_postgres_are_unsafe(
    spark: SparkSession, landing_zone: Path, tmp_path: Path
) -> None:
    unreachable = f"postgresql://x@/x?host={tmp_path}"
    found = outcomes(examine_executors(spark, ZoneAddress(str(landing_zone)), unreachable))
    assert found["executor_database"] is Outcome.UNSAFE
    assert found["zone_executor_writes"] is Outcome.OK


@pytest.mark.thorough
def test_the_command_asks_spark_in_a_process_of_its_own(database_url: str, tmp_path: Path) -> None:
    environment = os.environ | {"MIRRORGATE_DATABASE_URL": database_url, "MIRRORGATE_SPARK_MASTER": "local[2]"}
    command = [sys.executable, "-m", "mirrorgate.cli", "doctor", "--spark", "--json"]
    command += ["--landing-zone", str(tmp_path / "zone"), "--data-dir", str(tmp_path)]
    ran = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120)
    found = {entry["check"]: entry["outcome"] for entry in first_json(ran.stdout)}
    assert (ran.returncode, found["zone_executor_writes"]) == (1, "ok"), ran.stderr


SETTINGS = {"TARGET_FILE_ROWS": "1", "MAX_DELAY_SECONDS": "0", "SPARK_JOB_MIN_BYTES": "0", "ALLOW_UNSAFE": "true"}
"""A file for each row, all built by Spark; and the tests' Postgres does not fsync."""
BUILDING = "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, 'mirrorgate build')"
PUBLISHED = "SELECT published_through FROM mirrorgate.table_counters"


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_everything_lands_once_and_in_order_although_one_of_two_workers_is_lost(
    engine: sa.Engine, database_url: str, tmp_path: Path
) -> None:
    landing_zone = tmp_path / "landing-zone"
    table = registered(engine, "a", ID)
    stage_keys(engine, table, *([key] for key in range(40)))
    settings = SETTINGS | {"DATABASE_URL": database_url, "LANDING_ZONE": str(landing_zone)}
    with standalone_cluster(tmp_path / "cluster", workers=2) as cluster:
        environment = cluster.environment | {f"{PREFIX}{name}": value for name, value in settings.items()}
        environment[f"{PREFIX}SPARK_MASTER"] = cluster.url
        command = [sys.executable, "-m", "spark_jobs.drain", "--parent-pid", str(os.getpid())]
        with started("drain", command, environment=environment, log_file=tmp_path / "drain.log"):
            wait_until(lambda: sql.value(engine, BUILDING) == 2, within=90, what="both workers build files")
            cluster.workers[0].kill()
            stage_keys(engine, table, *([key] for key in range(40, 50)))
            wait_until(lambda: sql.value(engine, PUBLISHED) == 50, within=60, what="everything is published")
    assert list(chain.from_iterable(landed_keys(landing_zone, "a"))) == list(range(50))


def test_a_driver_is_reached_on_its_own_address_unless_all_of_spark_is_on_this_machine() -> None:
    assert all("spark.driver.host" in spark_options(master) for master in (None, "local[2]", "local-cluster[2,1,1024]"))
    assert not any("spark.driver.host" in spark_options(master) for master in ("spark://master:7077", "yarn"))


DAEMON = "spark_jobs.spark.worker_daemon"


def facts(_: Iterable[int]) -> Iterator[tuple[str, int, bool]]:
    """Return the parent's command line and threads, and whether this worker has the modules of a build."""
    parent = Path(f"/proc/{os.getppid()}")
    command = (parent / "cmdline").read_text().replace("\0", " ")
    yield command, len([*(parent / "task").iterdir()]), "spark_jobs.build_files" in sys.modules


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_workers_are_forks_of_a_daemon_with_one_thread_that_has_imported_what_builds_need(spark: SparkSession) -> None:
    [(command, threads, imported)] = spark.sparkContext.parallelize([0], 1).mapPartitions(facts).collect()
    assert DAEMON in command
    assert (threads, imported) == (1, True)


@pytest.mark.parametrize(("master", "daemon"), [("local[2]", DAEMON), (None, DAEMON), ("spark://host:7077", None)])
def test_executors_on_other_machines_have_sparks_own_daemon(master: str | None, daemon: str | None) -> None:
    assert spark_options(master).get("spark.python.daemon.module") == daemon
