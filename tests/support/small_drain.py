"""Drains that build their files themselves: the real cycle without a JVM."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID, uuid4

from pyspark.sql import SparkSession

from app.domain.model.table import TableId
from app.domain.publication import FileLimits
from app.landing.open_zone import ZoneAddress
from app.landing.parquet_file import FileLayout
from spark_jobs.build_files import BuildConfig, BuildOrder, BuildResult, FileBuilder, attempt_build
from spark_jobs.drain_cycle import DrainCycle, open_cycle
from spark_jobs.drain_loop import DrainLoop
from tests.support.gateway_parts import current, stage_keys


@contextmanager
def builds_in_process() -> Iterator[None]:
    """Within the block drains of this process build their files themselves, in the attempts of a Spark task (W5)."""

    def build(builder: FileBuilder, orders: Sequence[BuildOrder]) -> list[BuildResult]:
        return [attempt_build(builder.config, order) for order in orders]

    with patch.object(FileBuilder, "build", build):
        yield


def open_small_cycle(
    database_url: str,
    zone: Path | ZoneAddress,
    *,
    rows: int = 10**6,
    delay_seconds: float = 0.0,
    worker_id: UUID | None = None,
    spark: SparkSession | None = None,
    marker_first: bool = False,
    tasks: int = 1,
    **options: Any,
) -> DrainCycle:
    """Open a cycle without a lease, by default without Spark too; the caller disposes of `context.engine`.

    `options` are those of `open_cycle`.
    """
    address = zone if isinstance(zone, ZoneAddress) else ZoneAddress(str(zone))
    config = BuildConfig(database_url, address, FileLayout(marker_first, "zstd"))
    limits = FileLimits(2**30, rows, delay_seconds)
    return open_cycle(worker_id or uuid4(), cast("SparkSession", spark), config, limits, tasks=tasks, **options)


@contextmanager
def small_drain(database_url: str, zone: Path | ZoneAddress, *, rows: int = 10**6) -> Iterator[DrainCycle]:
    """Yield a worker with a lease that publishes everything pending at once, with at most `rows` rows per file."""
    cycle = open_small_cycle(database_url, zone, rows=rows)
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


def publish_each(cycle: DrainCycle, name: str, *keys: int) -> None:
    """Accept and publish one file per key, for a table whose only column is `id`."""
    engine = cycle.context.engine
    for key in keys:
        stage_keys(engine, current(engine, name), [key])
        publish_pending(cycle)


def publish_once(cycle: DrainCycle, due: Sequence[TableId]) -> None:
    """Claim these tables, and publish once what each of them has."""
    claimed, alone = cycle.prepare_leased(due)
    claimed += [entry for table_id in alone if (entry := cycle.prepare(table_id)) is not None]
    if claimed:
        cycle.build_and_publish(claimed)


@contextmanager
def draining(cycle: DrainCycle, poll_seconds: float = 0.1) -> Iterator[None]:
    """Let a drain publish by itself during the block, in a thread; fail if it ends before the block does."""
    loop = DrainLoop(cycle, worker_slots=2)
    thread = threading.Thread(target=loop.run, args=(threading.Event(), poll_seconds))
    thread.start()
    try:
        yield
        assert thread.is_alive(), "the drain ended by itself"
    finally:
        loop.stopping.set()
        thread.join()
