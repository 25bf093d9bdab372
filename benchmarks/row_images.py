"""Rate and size of row images, `python -m benchmarks.row_images`: stored with their batches, and alone.

The limit is measured in the same run: the same images written by the same statement, and nothing else. Both sides
commit after each batch. Figures are medians over the runs, which alternate.
"""

import argparse
import logging
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import sqlalchemy as sa
import structlog
from rich.console import Console
from rich.table import Table as Grid

from app.domain.model.change import Change, Operation
from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, Table
from app.domain.model.table_options import PartialUpdates, TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_image import StoredImage
from app.domain.rows.row_rules import RowRules
from app.local.embedded import PrivatePostgres
from app.staging.batches.batch import Batch, StagingRequest
from app.staging.batches.row_images import write_row_images
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import migrate
from app.staging.tables.registration import register_table
from app.staging.writer.group_commit import GroupCommit

COLUMNS: Final = 16
NAMES: Final = [f"column_{number:02d}" for number in range(COLUMNS)]
SCHEMA: Final = TableSchema(
    tuple(Column(name, ColumnType.parse("int64" if number < 8 else "string")) for number, name in enumerate(NAMES)),
    (NAMES[0],),
)
OPTIONS: Final = TableOptions(partial_updates=PartialUpdates.COMPLETE)
WEIGHT: Final = sa.text("""
    SELECT pg_total_relation_size('mirrorgate.row_images'), pg_relation_size('mirrorgate.row_images'),
        pg_indexes_size('mirrorgate.row_images'), sum(octet_length(image)), count(*) FROM mirrorgate.row_images""")
console = Console(highlight=False)


def changes(first: int, count: int, operation: Operation) -> list[Change]:
    """Return full rows of 16 columns as Arcion messages give them: 8 numbers and 8 short texts, all as text."""
    return [
        Change(
            key,
            operation,
            None,
            {name: str(key) if number < 8 else f"text of row {key}" for number, name in enumerate(NAMES)},
            "",
            "",
        )
        for key in range(first, first + count)
    ]


def registered(engine: sa.Engine, name: str) -> Table:
    """Register a table that completes updates, and return it."""
    with engine.begin() as connection:
        return register_table(connection, TableName.parse(name), SCHEMA, OPTIONS).table


def typed_batches(table: Table, rows: int, per_batch: int, operation: Operation) -> list[Batch]:
    """Return the rows in batches that are ready to be staged."""
    return [
        Batch(table, landing_rows(changes(first, per_batch, operation), RowRules.of(table)))
        for first in range(0, rows, per_batch)
    ]


def stage(engine: sa.Engine, batches: Sequence[Batch]) -> None:
    """Stage each batch in its own transaction."""
    writer = GroupCommit(engine)
    writer.start()
    for batch in batches:
        writer.submit(StagingRequest([batch])).result()
    writer.close()


def images_of(batches: Sequence[Batch]) -> list[dict[bytes, StoredImage | None]]:
    """Return the row images that each batch leaves."""
    found = []
    for number, batch in enumerate(batches, 1):
        assert batch.rows.images is not None
        sequence, pairs = BatchSequence(number), zip(batch.rows.images.keys, batch.rows.images.images, strict=True)
        found.append({key: None if image is None else StoredImage(image, sequence) for key, image in pairs})
    return found


def upsert(engine: sa.Engine, table: Table, batches: Sequence[Mapping[bytes, StoredImage | None]]) -> None:
    """Write only the images, those of each batch in their own transaction."""
    for images in batches:
        with engine.begin() as connection:
            write_row_images(connection, table.table_id, table.generation, images)


def rate(rows: int, call: Callable[[], None]) -> float:
    """Return the rows per second of one call."""
    started = time.perf_counter()
    call()
    return rows / (time.perf_counter() - started)


def emptied(engine: sa.Engine) -> None:
    """Remove all rows, payloads and images."""
    tables = "mirrorgate.row_images, mirrorgate.block_payloads, mirrorgate.staged_blocks"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f"TRUNCATE {tables}"))
        connection.execute(sa.text("CHECKPOINT"))


@dataclass
class Work:
    """One workload over all rows of a table, and its rates: with the batches, and of the images alone."""

    title: str
    batches: Sequence[Batch]
    images: Sequence[Mapping[bytes, StoredImage | None]] = field(init=False)
    staged: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    weight: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.images = images_of(self.batches)

    def speeds(self) -> list[str]:
        """Return a row of the table of rates."""
        done, limit = statistics.median(self.staged), statistics.median(self.alone)
        spread = f"{min(self.staged):,.0f} to {max(self.staged):,.0f}"
        return [self.title, f"{done:,.0f}", spread, f"{limit:,.0f}", f"{done / limit:.2f}"]


def measure(engine: sa.Engine, rows: int, per_batch: int, runs: int) -> list[Work]:
    """Measure a first load and a rewrite of every row, in batches of this size."""
    table = registered(engine, f"bench_{per_batch}")
    works = [
        Work(f"{title}, {per_batch:,} rows per batch", typed_batches(table, rows, per_batch, operation))
        for title, operation in (("first load", Operation.INSERT), ("every row again", Operation.UPDATE))
    ]
    for _ in range(runs):
        emptied(engine)
        for work in works:
            work.alone.append(rate(rows, partial(upsert, engine, table, work.images)))
        emptied(engine)
        for work in works:
            work.staged.append(rate(rows, partial(stage, engine, work.batches)))
            work.weight = weight(engine)
    return works


def weight(engine: sa.Engine) -> list[str]:
    """Return the bytes per row: of the image, the heap, the index, and on disk."""
    with engine.begin() as connection:
        total, heap, index, images, count = connection.execute(WEIGHT).one()
    return [f"{size / count:,.0f}" for size in (images, heap, index, total)]


def main() -> int:
    """Measure batches of 10,000 and of 1,000 rows; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.row_images", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the table (default: 100,000)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each workload (default: 3)")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    speeds = Grid(title="row images per second (median; lowest to highest)")
    for title in ("workload", "with their batches", "spread", "upserted alone", "ratio"):
        speeds.add_column(title, justify="left" if title == "workload" else "right")
    weights = Grid(title="bytes per row")
    for title in ("after", "image", "heap", "index", "on disk"):
        weights.add_column(title, justify="left" if title == "after" else "right")
    with tempfile.TemporaryDirectory() as folder, PrivatePostgres(Path(folder)) as server:
        migrate(server.administration_url)
        engine = open_engine(server.administration_url)
        for per_batch in (10_000, 1_000):
            for work in measure(engine, arguments.rows, per_batch, arguments.runs):
                speeds.add_row(*work.speeds())
                weights.add_row(work.title, *work.weight)
        engine.dispose()
    console.print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    console.print(speeds)
    console.print(weights)
    return 0


if __name__ == "__main__":
    sys.exit(main())
