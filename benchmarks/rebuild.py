"""Rate of rebuilds, `python -m benchmarks.rebuild`: row images -> published files of the next generation.

A drain with Spark on the machine's cores rebuilds a table of 8 columns by another key, and by another type. The rates
count everything: copying, the switch, the removal of the old folder, and the publication of the new files. The check is
the dry run of the same plan. Figures are medians over the runs.
"""

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import sqlalchemy as sa
import structlog
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table as Grid
from structlog.testing import capture_logs
from structlog.typing import EventDict

from app.domain.model.names import TableName
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.domain.publication import FileLimits
from app.domain.rebuild import RebuiltColumn
from app.landing.open_zone import ZoneAddress
from app.landing.parquet_file import FileLayout
from app.local.embedded import PrivatePostgres
from app.settings import Settings
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import migrate
from app.staging.ledger.leases import renew_lease
from app.staging.rebuild.progress import begin_rebuild
from app.staging.tables.registration import register_table
from app.staging.tables.registry import find_table
from spark_jobs.build_files import BuildConfig
from spark_jobs.drain_cycle import DrainCycle, open_cycle
from spark_jobs.drain_loop import DrainLoop
from spark_jobs.spark.session import running_spark

T: Final = TableName.parse("orders")
TYPES: Final = {
    "id": "int64",
    "code": "string",
    "customer": "int64",
    "status": "string",
    "total": "decimal(12,2)",
    "ordered": "date",
    "clerk": "string",
    "note": "string",
}
WRITE_IMAGES: Final = sa.text("""
    INSERT INTO mirrorgate.row_images (table_id, generation, row_key, sequence, image)
    SELECT table_id, 1, convert_to(n::text, 'UTF8'), 1, convert_to('["' || concat_ws('","', n, 'order-' || n, n % 15000,
        'O', n % 500000 || '.25', '1996-01-' || 10 + n % 20, 'Clerk#' || n % 1000, 'text of row ' || n) || '"]', 'UTF8')
    FROM mirrorgate.tables, generate_series(1, :rows) AS n""")
"""Give the table images as the gateway writes them for a source that sends texts."""

console = Console(highlight=False)


@dataclass
class Work:
    """A plan, and its rates."""

    title: str
    columns: Sequence[RebuiltColumn] | None
    keys: Sequence[str] | None
    check: list[float] = field(default_factory=list)
    rebuild: list[float] = field(default_factory=list)
    copy: list[float] = field(default_factory=list)
    """How much longer copying the images took than checking them, from which a dry run estimates it."""


def works() -> list[Work]:
    """Return the workloads."""
    columns = [RebuiltColumn(Column(name, ColumnType.parse(of)), name) for name, of in TYPES.items()]
    wider = [
        RebuiltColumn(Column("total", ColumnType.parse("decimal(18,4)")), "total") if one.source == "total" else one
        for one in columns
    ]
    return [Work("another type", wider, None), Work("another key", None, ["code"])]


def measured(database_url: str, work: Work, rows: int, cycle: DrainCycle) -> None:
    """Give the table its images, and time the dry run and the rebuild."""
    engine = open_engine(database_url)
    with engine.begin() as connection:
        schema = TableSchema(tuple(Column(name, ColumnType.parse(of)) for name, of in TYPES.items()), ("id",))
        register_table(connection, T, schema, TableOptions.parse({"row_images": "on"}))
        connection.execute(WRITE_IMAGES, {"rows": rows})
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE mirrorgate.row_images")
    copied: list[float] = []
    for dry_run, rates in ((True, work.check), (False, work.rebuild)):
        with engine.begin() as connection:
            table = find_table(connection, T)
            assert table is not None
            begin_rebuild(connection, T, table.generation, work.columns, work.keys, "benchmark", dry_run=dry_run)
            renew_lease(connection, cycle.context.worker_id, 600.0)
        started = time.perf_counter()
        with capture_logs() as logs:
            DrainLoop(cycle, worker_slots=2).drain_pending()
        rates.append(rows / (time.perf_counter() - started))
        copied += [line["seconds"] for line in logs if line["event"] in {"rebuild_checked", "table_rebuilt"}]
    work.copy.append(copied[1] / copied[0])
    with engine.begin() as connection:
        published = connection.exec_driver_sql(
            "SELECT sum(row_count) FROM mirrorgate.landing_files WHERE state = 'published' AND generation = 2"
        ).scalar()
    if published != rows:
        raise RuntimeError(f"{published} rows are published instead of {rows}")
    engine.dispose()


def run_once(place: Path, spark: SparkSession, work: Work, rows: int) -> None:
    """Measure a workload in a new database and landing zone."""
    with PrivatePostgres(place / "database") as postgres:
        migrate(postgres.url)
        config = BuildConfig(postgres.url, ZoneAddress(str(place / "zone")), FileLayout(False, "zstd"))
        cycle = open_cycle(uuid4(), spark, config, FileLimits(128 * 2**20, 1_000_000, 0.0))
        measured(postgres.url, work, rows, cycle)
        cycle.rebuilds.stop()
        cycle.context.engine.dispose()


def errors_alone(_: Any, method: str, event: EventDict) -> EventDict:
    """Leave other lines to `capture_logs`."""
    if method not in {"error", "critical", "exception"}:
        raise structlog.DropEvent
    return event


def main() -> None:
    """Run every workload and print the table of rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    structlog.configure(processors=[errors_alone, *structlog.get_config()["processors"]])
    found = works()
    with running_spark(Settings(spark_master="local[*]")) as spark:
        for _ in range(arguments.runs):
            for work in found:
                with tempfile.TemporaryDirectory() as place:
                    run_once(Path(place), spark, work, arguments.rows)
    grid = Grid("plan", "rows/s, dry run", "rows/s, rebuild", "ratio", "copying ÷ checking")
    for work in found:
        check, rebuild = statistics.median(work.check), statistics.median(work.rebuild)
        grid.add_row(
            work.title,
            f"{check:,.0f}",
            f"{rebuild:,.0f}",
            f"{check / rebuild:.2f}",
            f"{statistics.median(work.copy):.2f}",
        )
    console.print(grid)
    load = os.getloadavg()[0]
    console.print(
        f"{arguments.rows:,} rows, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    main()
