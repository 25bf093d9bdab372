"""A drain in the test's own process that builds its files itself: the real cycle without a JVM."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from uuid import uuid4

from pyspark.sql import SparkSession

from app.domain.publication import FileLimits
from app.landing.open_zone import ZoneAddress
from app.landing.parquet_file import FileLayout
from spark_jobs.build_files import BuildConfig
from spark_jobs.drain_cycle import DrainCycle, open_cycle
from spark_jobs.drain_loop import DrainLoop
from tests.chaos.parts.building import builds_in_process


@contextmanager
def small_drain(database_url: str, zone: Path | ZoneAddress, *, rows: int = 10**6) -> Iterator[DrainCycle]:
    """Yield a worker with a lease that publishes everything pending at once, with at most `rows` rows per file."""
    address = zone if isinstance(zone, ZoneAddress) else ZoneAddress(str(zone))
    config = BuildConfig(database_url, address, FileLayout(False, "zstd"))
    cycle = open_cycle(uuid4(), cast("SparkSession", None), config, FileLimits(2**30, rows, 0.0), tasks=1)
    with builds_in_process():
        cycle.renew_lease(60)
        try:
            yield cycle
        finally:
            cycle.stop()  # a connection that is still in use would never be closed
            cycle.context.engine.dispose()


def publish_pending(cycle: DrainCycle) -> None:
    """Publish until nothing is due."""
    DrainLoop(cycle, worker_slots=1).drain_pending()
