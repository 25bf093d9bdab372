"""Everything that the database knows of chosen tables: what the API returns as their status and the console shows.

The number of queries does not depend on the number of tables. Read them in one `read_snapshot`, so that the facts are
of one moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from app.domain.health.facts import TableSummary
from app.domain.loads.load_session import LoadSession
from app.domain.model.table import Table
from app.staging.images.backfill.progress import Backfill, find_backfills
from app.staging.images.size import ImagesSize, image_sizes
from app.staging.ledger.fabric_status import FabricStatus, fabric_statuses
from app.staging.ledger.failures import TableFailure, failing_tables
from app.staging.loads.sessions import open_loads
from app.staging.mirror.progress import MirrorProgress, mirror_progress
from app.staging.rebuild.progress import Rebuild, find_rebuilds
from app.staging.tables.status import TableCounts, count_tables


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What the database knows of one table."""

    table: Table
    counts: TableCounts
    failure: TableFailure | None
    """Why its publication fails, if it has failed several times in a row."""
    fabric: FabricStatus | None
    mirror: MirrorProgress | None
    load: LoadSession | None
    """The open load session."""
    images: ImagesSize | None
    """The row images, if the table keeps any."""
    backfill: Backfill | None
    """The last backfill of row images, perhaps of an earlier generation."""
    rebuild: Rebuild | None
    """The last rebuild or dry run, perhaps of an earlier generation."""

    @property
    def summary(self) -> TableSummary:
        """Return what the table is judged by."""
        table, counts, failure, fabric, mirror = self.table, self.counts, self.failure, self.fabric, self.mirror
        return TableSummary(
            table_id=table.table_id,
            name=str(table.name),
            generation=table.generation,
            state=table.state,
            state_reason=counts.state_reason,
            accepted_rows=counts.accepted_rows,
            pending_rows=counts.pending_rows,
            oldest_seconds=counts.oldest_seconds,
            waiting_letters=counts.waiting_letters,
            oldest_letter_at=counts.oldest_letter_at,
            processed_rows=None if fabric is None else fabric.processed_rows,
            fabric_error=None if fabric is None else fabric.fault,
            fabric_whose=None if fabric is None else fabric.whose,
            failure_code=None if failure is None else failure.code,
            failure_detail=None if failure is None else failure.detail,
            failure_remedy=None if failure is None else failure.remedy,
            failure_tries=None if failure is None else failure.tries,
            failing_since=None if failure is None else failure.since,
            quarantined_at=counts.quarantined_at,
            staged_rows=counts.staged_rows,
            mirror_code=None if mirror is None else mirror.code,
            mirror_state="" if mirror is None else mirror.state,
            mirror_file=0 if mirror is None else mirror.file_number,
            mirror_detail="" if mirror is None else mirror.detail or "",
            mirror_remedy="" if mirror is None else mirror.remedy or "",
        )

    @property
    def present_backfill(self) -> Backfill | None:
        """Return the last backfill of the present generation."""
        backfill = self.backfill
        return backfill if backfill is not None and backfill.is_of(self.table) else None


def find_facts(connection: sa.Connection, tables: Sequence[Table], *, with_images: bool = True) -> list[TableFacts]:
    """Return the facts of these tables, in their order, by eight queries; by seven without their row images."""
    ids = [table.table_id for table in tables]
    counts, failures = count_tables(connection, ids), failing_tables(connection, ids)
    fabric, mirrored = fabric_statuses(connection, ids), mirror_progress(connection, ids)
    loads = open_loads(connection, ids)
    images = image_sizes(connection, [table.table_id for table in tables if with_images and table.options.keeps_images])
    backfills, rebuilds = find_backfills(connection, ids), find_rebuilds(connection, ids)
    return [
        TableFacts(
            table=table,
            counts=counts[table.table_id],
            failure=failures.get(table.table_id),
            fabric=fabric.get(table.table_id),
            mirror=mirrored.get(table.table_id),
            load=loads.get(table.table_id),
            images=images.get(table.table_id),
            backfill=backfills.get(table.table_id),
            rebuild=rebuilds.get(table.table_id),
        )
        for table in tables
    ]
