"""The drain under spark-submit, with executors in separate processes."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
import sqlalchemy as sa

from tests.support.gateway_parts import landed_keys, registered, stage_keys
from tests.support.processes import REPOSITORY
from tests.support.samples.schemas import ID

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
