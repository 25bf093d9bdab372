"""A cluster that gives the driver no executor is named in the log, and in the status of the gateway."""

import os
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.domain.health.facts import HealthFacts
from app.domain.health.troubles import parts
from app.settings import PREFIX
from app.staging.tables.status import gateway_facts
from benchmarks.machine.processes import started
from benchmarks.machine.standalone_cluster import standalone_cluster
from spark_jobs.spark.session import ExecutorWatch
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
            with engine.begin() as connection:
                assert parts(HealthFacts(gateway=gateway_facts(connection)))["drain"].startswith(said)
