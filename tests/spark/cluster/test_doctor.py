"""Checks of executors, with a real Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.domain.preflight import Finding, Outcome
from app.landing.open_zone import ZoneAddress
from spark_jobs.doctor import examine_executors
from tests.support.cli_output import first_json
from tests.support.processes import REPOSITORY


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
