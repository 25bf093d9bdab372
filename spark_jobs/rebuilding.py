"""Rebuilds in the drain: row images -> blocks and images of a table's next generation.

They run in a thread beside the drain's loop, which continues to publish the table. An attempt reads one snapshot of the
row images, has Spark tasks copy its parts, corrects what changed meanwhile, and switches the table to its next
generation in one transaction. The loop then deletes the old folder and publishes as always.

Each attempt starts from the beginning, so nothing of an attempt that died is needed. A task may run more than once, and
a lost attempt may keep running: the database takes each part of an attempt once, and none of an attempt that is over.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import structlog

from app.domain.model.change import Operation
from app.domain.model.table import BatchSequence, Table, TableId
from app.domain.rebuild import (
    AuditedRows,
    CheckedRows,
    RebuildPhase,
    RebuildPlan,
    RebuiltRows,
    UnfitRows,
    checked_rows,
    merged,
    projected_batch,
    rebuilt_rows,
)
from app.domain.rows.landing_projection import Acceptance, rows_of_block
from app.domain.rows.row_rules import RowRules
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.database import Connection, answer_within
from app.staging.rebuild.copies import (
    CopySource,
    DuplicateKeys,
    Part,
    PartIsStored,
    image_snapshot,
    parts_of,
    read_part,
    reading_snapshot,
    require_parts,
    store_part,
)
from app.staging.rebuild.progress import (
    AttemptIsOver,
    Rebuild,
    count_touched,
    end_check,
    fail_rebuild,
    find_rebuild,
    is_planned_for,
    note_detail,
    note_rows,
    require_attempt,
    start_attempt,
)
from app.staging.rebuild.switch import RefusedSwitch, correct_copies, switch_generation
from app.staging.tables.registry import find_table_by_id
from mirrorgate.errors import Code
from spark_jobs.background import BackgroundWork, DrainStopped
from spark_jobs.build_files import BuildConfig, FileBuilder, worker_engine
from spark_jobs.steps.context import DrainContext

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
    """The outcome of a part: values that do not fit, and in a dry run the hashes of its new keys in order."""

    rows: int
    findings: list[UnfitRows]
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
        return PartResult(part.rows, [UnfitRows(None, Code.KEY_IN_USE, 1, part.first_row)])
    except PartIsStored:  # by a task that Spark had given up; or the attempt is over, which its end finds out
        return PartResult(part.rows, [])
    return PartResult(part.rows, [])


def _checked(rows: CheckedRows, part: Part) -> PartResult:
    hashes = b"".join(hashlib.blake2b(key, digest_size=HASH_BYTES).digest() for key in rows.keys.to_pylist())
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


log = structlog.get_logger()

ROWS_PER_PART: Final = 20_000
"""Row images that become one block: some MB in a task, and a transaction of a tenth of a second."""

PARTS_PER_TASK: Final = 8
"""Parts that each task of one Spark job copies, between two notes of the progress."""

MAX_LAST_CORRECTIONS: Final = 5_000
"""Changed rows that the switch corrects by itself; requests wait for it."""

MAX_CORRECTION_ROUNDS: Final = 100
"""Rounds of corrections before the switch, for a source that changes rows faster than they are corrected."""

COPY_SECONDS_PER_CHECK: Final = 1.5
"""Ratio of the time of copying to that of checking: 1.33 with another type, 1.54 with another key (decision 0068)."""

TRANSACTION_SECONDS: Final = 600.0
"""Deleting what an attempt copied of a large table takes far longer than any other transaction."""


@dataclass(frozen=True, slots=True)
class RebuildRun:
    """Rebuilds of tables by one drain, one attempt at a time."""

    context: DrainContext
    builder: FileBuilder
    is_stopping: Callable[[], bool]

    def run(self, table_id: TableId) -> None:
        """Make one attempt. A process that dies inside leaves the present generation, and the next one begins again.

        Raises Stopped when the drain stops, and AttemptIsOver.
        """
        with answer_within(TRANSACTION_SECONDS), self.context.engine.begin() as connection:
            rebuild = start_attempt(connection, table_id)
            table = find_table_by_id(connection, table_id)
            if rebuild is None or table is None:
                return
            is_planned = is_planned_for(connection, rebuild, table)
        if not is_planned:
            self._fail(rebuild, [], "the table's columns, options or generation have changed; rebuild it again")
            return
        started = time.monotonic()
        findings, parts = self._copy(rebuild, table)
        seconds = time.monotonic() - started
        if rebuild.phase is RebuildPhase.CHECKING:
            with self.context.engine.begin() as connection:
                end_check(connection, rebuild, findings, estimated_seconds=seconds * COPY_SECONDS_PER_CHECK)
            log.info("rebuild_checked", table=str(table.name), findings=len(findings), seconds=round(seconds, 3))
        elif findings:
            self._fail(rebuild, findings, "rows cannot be rebuilt under this plan; a dry run counts all of them")
        else:
            self._switch(rebuild, parts)
            log.info(
                "table_rebuilt", table=str(table.name), generation=rebuild.next_generation, seconds=round(seconds, 3)
            )

    def _copy(self, rebuild: Rebuild, table: Table) -> tuple[list[UnfitRows], int]:
        """Copy or check all parts of a snapshot; return what does not fit, and the number of parts."""
        is_check = rebuild.phase is RebuildPhase.CHECKING
        engine = self.context.engine
        with (
            answer_within(TRANSACTION_SECONDS),
            image_snapshot(engine, rebuild) as (source, reader),
        ):
            rules = RowRules.of(rebuild.plan.rebuilt(table))
            parts = parts_of(reader, source, size=rows_of_block(rules, ROWS_PER_PART))
            total, done = sum(part.rows for part in parts), 0
            self._note(rebuild, total, done)
            results: list[PartResult] = []
            size = self.builder.parallel_tasks * PARTS_PER_TASK
            for start in range(0, len(parts), size):
                if self.is_stopping():
                    raise DrainStopped
                dry_run = is_check or any(result.findings for result in results)
                orders = [PartOrder(source, part, rebuild.plan, table, dry_run) for part in parts[start : start + size]]
                results += self._run_tasks(orders)
                done += sum(order.part.rows for order in orders)
                self._note(rebuild, total, done)
            findings = merged(finding for result in results for finding in result.findings)
            return findings + _duplicates(results) if is_check else findings, len(parts)

    def _run_tasks(self, orders: Sequence[PartOrder]) -> list[PartResult]:
        """Copy parts at the same time: in Spark tasks, or in this thread if there is one."""
        config = self.builder.config
        if len(orders) == 1:
            return [copy_part(config, orders[0])]
        context = self.builder.spark.sparkContext
        job = context.parallelize(orders, min(len(orders), self.builder.parallel_tasks)).mapPartitions(task_of(config))
        with self.builder.calls.running():
            return list(job.collect())

    def _switch(self, rebuild: Rebuild, parts: int) -> None:
        """Correct what changed while the images were copied, and switch; fail if that is not possible.

        Raises AttemptIsOver: another attempt continues with the copies, and this one must change none of them, or one
        of the parts is not there, because it was left out for another attempt or Postgres has lost it.
        """
        try:
            self._correct(rebuild, parts)
            with answer_within(TRANSACTION_SECONDS), self.context.engine.begin() as connection:
                marker_first = self.context.config.layout.marker_first
                switch_generation(connection, rebuild, parts, marker_first=marker_first)
        except RefusedSwitch as refused:
            self._fail(rebuild, refused.findings, refused.detail)

    def _correct(self, rebuild: Rebuild, parts: int) -> None:
        """Correct copies in rounds until few are left for the switch. Requests wait for one round at most.

        A round that finds something leaves the rest to the switch, which sees all corrections together.
        """
        for _ in range(MAX_CORRECTION_ROUNDS):
            with self.context.engine.begin() as connection:
                if count_touched(connection, rebuild.table_id) <= MAX_LAST_CORRECTIONS:
                    return
                lock_counters(connection, [rebuild.table_id])
                require_attempt(connection, rebuild)
                require_parts(connection, rebuild, parts)
                table = find_table_by_id(connection, rebuild.table_id)
                if table is None or not is_planned_for(connection, rebuild, table):
                    return
                if correct_copies(connection, table, rebuild, limit=MAX_LAST_CORRECTIONS):
                    connection.rollback()
                    return

    def _note(self, rebuild: Rebuild, total: int, done: int) -> None:
        with self.context.engine.begin() as connection:
            note_rows(connection, rebuild, total=total, done=done)

    def _fail(self, rebuild: Rebuild, findings: list[UnfitRows], detail: str) -> None:
        with answer_within(TRANSACTION_SECONDS), self.context.engine.begin() as connection:
            fail_rebuild(connection, rebuild, findings, detail)
        log.warning("rebuild_failed", table_id=rebuild.table_id, findings=len(findings), detail=detail)


def _duplicates(results: Sequence[PartResult]) -> list[UnfitRows]:
    """Return how many rows have the key of an earlier row, found by the hashes of all keys."""
    hashes = np.frombuffer(b"".join(result.hashes for result in results), np.uint64)
    order = np.argsort(hashes, kind="stable")
    repeated = order[1:][hashes[order][1:] == hashes[order][:-1]]
    if not len(repeated):
        return []
    keyless = [position for result in results for position in result.keyless]
    positions = np.delete(np.arange(1, len(hashes) + len(keyless) + 1), np.asarray(keyless, np.int64) - 1)
    return [UnfitRows(None, Code.KEY_IN_USE, len(repeated), int(positions[repeated].min()))]


class Rebuilds(BackgroundWork):
    """The rebuilds of one drain. The next drain begins each of them again."""

    def __init__(self, context: DrainContext, builder: FileBuilder) -> None:
        """Start no thread yet."""
        super().__init__("rebuild", context.engine)
        self._run = RebuildRun(context, builder, self._stopping.is_set)

    def run(self, table_id: TableId) -> bool:
        """Make one attempt; return whether it was not replaced by another one."""
        try:
            self._run.run(table_id)
        except AttemptIsOver:
            return False
        return True

    def note(self, connection: Connection, table_id: TableId, detail: str) -> None:
        """Store why an attempt failed."""
        rebuild = find_rebuild(connection, table_id)
        if rebuild is not None and rebuild.phase.is_due:
            note_detail(connection, rebuild, detail)
