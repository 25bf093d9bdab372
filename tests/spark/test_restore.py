"""A database restored to an older point beside a landing zone that has gone on."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

from app.domain.drain_plan import FileLimits
from app.domain.table import TableState
from app.embedded import PrivatePostgres
from app.landing.open_zone import ZonePlace
from app.landing.parquet_file import FileLayout
from app.staging.database import open_engine
from app.staging.leases import renew_lease
from spark_jobs.build_files import BuildPlace
from spark_jobs.drain_cycle import DrainCycle
from tests.spark.conftest import NewWorker, drain
from tests.support import sql
from tests.support.backup import dump, restore
from tests.support.databases import create_database, database_in
from tests.support.gateway_parts import current, landed_keys, registered, stage_keys
from tests.support.schemas import schema_of

ID = schema_of({"id": "int64"}, ["id"])


@pytest.fixture
def restored(
    engine: sa.Engine,
    database_url: str,
    postgres: PrivatePostgres,
    new_worker: NewWorker,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[sa.Engine]:
    """A database of the time when `t` had published [1] and accepted [2]; by now file 2 holds [2] and `u` has [9]."""
    worker = new_worker()
    for name in ("t", "u"):
        stage_keys(engine, registered(engine, name, ID), [1])
    drain(worker)
    stage_keys(engine, current(engine, "t"), [2])
    dump(database_url, tmp_path / "dump")
    drain(worker)
    stage_keys(engine, current(engine, "u"), [9])
    drain(worker)
    name = f"restored_{abs(hash(request.node.name))}"
    create_database(postgres.url, name)
    restore(database_in(postgres.url, name), tmp_path / "dump")
    restored = open_engine(database_in(postgres.url, name))
    yield restored
    restored.dispose()


@pytest.fixture
def worker(restored: sa.Engine, spark: SparkSession, landing_zone: Path) -> Iterator[DrainCycle]:
    """A drain of the restored database, started when the old drains are gone."""
    sql.run(restored, "DELETE FROM mirrorgate.workers")
    url = restored.url.set(drivername="postgresql").render_as_string(hide_password=False)
    place = BuildPlace(url, ZonePlace(str(landing_zone)), FileLayout(False, "zstd"))
    cycle = DrainCycle(uuid4(), spark, place, FileLimits(2**30, 10**6, 0.0), tasks=2)
    with cycle.engine.begin() as connection:
        renew_lease(connection, cycle.worker_id, 60)
    yield cycle
    cycle.engine.dispose()


def test_a_file_of_batches_that_the_backup_holds_is_recorded_and_not_landed_twice(
    restored: sa.Engine, landing_zone: Path, worker: DrainCycle
) -> None:
    drain(worker)
    stage_keys(restored, current(restored, "t"), [3])
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[1], [2], [3]]
    assert current(restored, "t").state is TableState.ACTIVE


def test_a_file_that_the_backup_knows_nothing_of_stops_its_table_alone(
    restored: sa.Engine, landing_zone: Path, worker: DrainCycle
) -> None:
    stage_keys(restored, current(restored, "u"), [7])
    stage_keys(restored, current(restored, "t"), [3])
    drain(worker)
    assert current(restored, "u").state is TableState.QUARANTINED
    assert sql.value(restored, "SELECT state_reason FROM mirrorgate.tables WHERE name = 'u'").startswith("foreign_file")
    assert landed_keys(landing_zone, "u") == [[1], [9]]
