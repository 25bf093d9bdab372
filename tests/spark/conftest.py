"""One local Spark session for all tests of this folder; each test has its own database, landing zone and workers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

from app.domain.model.table import TableId
from app.landing.open_zone import ZoneAddress
from app.settings import Settings
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.drain_loop import DrainLoop
from spark_jobs.spark.session import running_spark
from tests.support.fabric.fixtures import clock, fabric, open_client
from tests.support.gateway_parts import registered, stage_keys
from tests.support.onelake.fixtures import new_onelake, onelake, trust
from tests.support.processes import Died, die
from tests.support.samples.schemas import ID
from tests.support.small_drain import open_small_cycle

__all__ = ["clock", "fabric", "new_onelake", "onelake", "open_client", "trust"]

NewWorker = Callable[..., DrainCycle]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with running_spark(Settings(spark_master="local[2]")) as session:
        yield session


@pytest.fixture
def landing_zone(tmp_path: Path) -> Path:
    return tmp_path / "landing zone"


@pytest.fixture
def new_worker(spark: SparkSession, database_url: str, landing_zone: Path) -> Iterator[NewWorker]:
    """Make drain workers with a running lease; the defaults publish everything pending at once.

    `options` are those of `open_small_cycle`.
    """
    workers: list[DrainCycle] = []

    def make(*, lease_seconds: float = 60.0, zone: ZoneAddress | Path = landing_zone, **options: Any) -> DrainCycle:
        worker = open_small_cycle(database_url, zone, spark=spark, tasks=2, **options)
        worker.renew_lease(lease_seconds)
        workers.append(worker)
        return worker

    yield make
    for worker in workers:
        worker.stop()  # a connection that is still in use would never be closed
        worker.context.engine.dispose()


@pytest.fixture
def worker(engine: sa.Engine, new_worker: NewWorker) -> DrainCycle:
    """Give the owner of table `t` with the key column `id`, which has published one file."""
    stage_keys(engine, registered(engine, "t", ID), [1], [2])
    worker = new_worker()
    drain(worker)
    return worker


def drain(worker: DrainCycle) -> None:
    """Publish until nothing is due."""
    DrainLoop(worker, worker_slots=2).drain_pending()


def die_at(step: str, worker: DrainCycle, table_id: TableId) -> None:
    """Let the worker plan files of a table, and die at a step of publishing."""
    claimed = worker.prepare(table_id)
    assert claimed is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"spark_jobs.steps.publishing.{step}", die)
        with pytest.raises(Died):
            worker.build_and_publish([claimed])
