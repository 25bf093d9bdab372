"""The drain under a standalone Spark master with two workers in separate processes."""

import os
import sys
from itertools import chain
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.settings import PREFIX
from benchmarks.machine.processes import started
from benchmarks.machine.standalone_cluster import standalone_cluster
from spark_jobs.spark.session import spark_options
from tests.support.gateway_parts import landed_keys, registered, stage_keys
from tests.support.postgres import sql
from tests.support.samples.schemas import ID
from tests.support.waiting import wait_until

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
