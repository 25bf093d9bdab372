"""A few small files are built in the drain itself, all others by Spark."""

from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

from spark_jobs.build_files import MAX_DRIVER_BUILDS
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.drain_loop import DrainLoop
from spark_jobs.steps.publishing import ClaimedTable
from tests.spark.conftest import NewWorker
from tests.support.gateway_parts import current, landed_keys, registered, stage_keys
from tests.support.samples.schemas import ID

PLENTY = 2**20


def jobs_of(spark: SparkSession, worker: DrainCycle, claimed: list[ClaimedTable]) -> int:
    """Return how many Spark jobs the worker starts to build and publish what it claimed."""
    group = str(uuid4())
    spark.sparkContext.setJobGroup(group, "building")
    worker.build_and_publish(claimed)
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


@pytest.mark.parametrize(
    ("min_bytes", "files", "jobs"), [(PLENTY, MAX_DRIVER_BUILDS, 0), (PLENTY, MAX_DRIVER_BUILDS + 1, 1), (1, 1, 1)]
)
def test_only_a_few_files_of_few_bytes_are_built_without_a_spark_job(
    engine: sa.Engine,
    landing_zone: Path,
    new_worker: NewWorker,
    spark: SparkSession,
    min_bytes: int,
    files: int,
    jobs: int,
) -> None:
    stage_keys(engine, registered(engine, "t", ID), *([key] for key in range(files)))
    worker = new_worker(rows=1, spark_job_min_bytes=min_bytes)
    claimed = worker.prepare(current(engine, "t").table_id)
    assert claimed is not None
    assert jobs_of(spark, worker, [claimed]) == jobs
    assert landed_keys(landing_zone, "t") == [[key] for key in range(files)]


def test_files_that_an_earlier_drain_planned_are_built_by_spark_because_their_size_is_not_known(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, spark: SparkSession
) -> None:
    table_id = registered(engine, "t", ID).table_id
    stage_keys(engine, current(engine, "t"), [1])
    worker = new_worker(spark_job_min_bytes=PLENTY)
    assert worker.prepare(table_id) is not None
    again = worker.prepare(table_id)
    assert again is not None
    assert jobs_of(spark, worker, [again]) == 1
    assert landed_keys(landing_zone, "t") == [[1]]


def test_worker_slots_build_small_files_at_the_same_time(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    names = [f"t{number}" for number in range(12)]
    for name in names:
        stage_keys(engine, registered(engine, name, ID), [1], [2])
    worker = new_worker(rows=1, spark_job_min_bytes=PLENTY)
    DrainLoop(worker, worker_slots=12).drain_pending()
    assert [landed_keys(landing_zone, name) for name in names] == [[[1], [2]]] * 12
