"""Spark tasks of a rebuild: each copies, or in a dry run only checks, one part of a table's row images.

A task may run more than once, and a lost attempt may keep running. The database takes each part of an attempt once, and
none of an attempt that is over.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

import pyarrow as pa

from app.domain.model.change import Operation
from app.domain.model.table import BatchSequence, Table
from app.domain.rebuild.plan import RebuildPlan
from app.domain.rebuild.rebuilt_rows import (
    AuditedRows,
    CheckedRows,
    Finding,
    RebuiltRows,
    checked_rows,
    projected_batch,
    rebuilt_rows,
)
from app.domain.rows.projection.landing_projection import Acceptance
from app.errors import Code
from app.staging.rebuild.copies import (
    CopySource,
    DuplicateKeys,
    Part,
    PartIsStored,
    read_part,
    reading_snapshot,
    store_part,
)
from spark_jobs.build_files import BuildConfig, worker_engine

HASH_BYTES: Final = 8
"""Bytes of the hash by which a dry run compares keys: two of 10 million keys share one in 1 of 370,000 dry runs."""


@dataclass(frozen=True, slots=True)
class PartOrder:
    """One part to copy or to check."""

    source: CopySource
    part: Part
    plan: RebuildPlan
    table: Table
    """The table in its present generation."""
    dry_run: bool


@dataclass(frozen=True, slots=True)
class PartResult:
    """What became of a part: what does not fit, and in a dry run the hashes of its new keys in order."""

    rows: int
    findings: list[Finding]
    hashes: bytes = b""
    keyless: tuple[int, ...] = ()
    """The positions of rows that have no new key, and so no hash."""


Task: TypeAlias = Callable[[Iterable[PartOrder]], Iterator[PartResult]]


def task_of(config: BuildConfig) -> Task:
    """Return the function that a Spark task runs over its parts."""

    def run(orders: Iterable[PartOrder]) -> Iterator[PartResult]:
        return (copy_part(config, order) for order in orders)

    return run


def copy_part(config: BuildConfig, order: PartOrder) -> PartResult:
    """Copy one part in one transaction; a process that dies inside leaves nothing of it."""
    part, plan = order.part, order.plan
    engine = worker_engine(config.database_url, config.application)
    try:
        with reading_snapshot(engine, order.source) as connection:
            images = read_part(connection, order.source, part)
            width = len(order.table.schema.columns)
            if order.dry_run:
                return _checked(checked_rows(images, plan, width, first_row=part.first_row), part)
            rows = rebuilt_rows(images, plan, width, first_row=part.first_row)
            if not isinstance(rows, RebuiltRows):
                return PartResult(part.rows, rows)
            store_part(connection, order.source, part, rows, _landing(rows, order))
    except DuplicateKeys:
        return PartResult(part.rows, [Finding(None, Code.KEY_IN_USE, 1, part.first_row)])
    except PartIsStored:  # by a task that Spark had given up; or the attempt is over, which its end finds out
        return PartResult(part.rows, [])
    return PartResult(part.rows, [])


def _checked(rows: CheckedRows, part: Part) -> PartResult:
    hashes = b"".join(map(_hash, rows.keys.to_pylist()))
    return PartResult(part.rows, rows.findings, hashes, tuple(rows.keyless))


def _landing(rows: RebuiltRows, order: PartOrder) -> pa.RecordBatch:
    """Return the rows of a part as they land, which most tables' rows do as they are."""
    rebuilt = order.plan.rebuilt(order.table)
    if not rebuilt.is_projected:
        return rows.batch
    audited = AuditedRows([Operation.SNAPSHOT] * order.part.rows, rows.deleted)
    return projected_batch(
        rows.batch, audited, rebuilt, Acceptance(BatchSequence(order.part.number), datetime.now(UTC))
    )


def _hash(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=HASH_BYTES).digest()
