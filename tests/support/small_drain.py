"""A drain in the test's own process that builds its files itself: the real cycle without a JVM."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from uuid import uuid4

from pyspark.sql import SparkSession

from app.domain.publication.drain_plan import FileLimits
from app.landing.open_zone import ZoneAddress
from app.landing.parquet_file import FileLayout
from app.staging.ledger.leases import renew_lease
from spark_jobs.build_files import BuildConfig
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.drain_loop import Drain
from tests.chaos.parts.building import builds_in_process


@contextmanager
def small_drain(database_url: str, zone: Path | ZoneAddress, *, rows: int = 10**6) -> Iterator[DrainCycle]:
    """A worker with a running lease that publishes everything pending at once, at most `rows` rows a file."""
    place = zone if isinstance(zone, ZoneAddress) else ZoneAddress(str(zone))
    build_place = BuildConfig(database_url, place, FileLayout(False, "zstd"))
    cycle = DrainCycle(uuid4(), cast("SparkSession", None), build_place, FileLimits(2**30, rows, 0.0), tasks=1)
    with builds_in_process():
        with cycle.engine.begin() as connection:
            renew_lease(connection, cycle.worker_id, 60)
        try:
            yield cycle
        finally:
            cycle.engine.dispose()


def publish_pending(cycle: DrainCycle) -> None:
    """Publish until nothing is due."""
    Drain(cycle, bins=1).drain_pending()
