"""Tables under their sequence locks, with what one staging transaction adds to them.

Everything that another transaction may have changed since a request was typed is read again here, by statements that
begin after the locks were granted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import sqlalchemy as sa

from app.domain.arrow import Payload, encode_payload
from app.domain.model.table import BatchSequence, Table, TableId
from app.domain.model.table_options import OperationCounting
from app.domain.rows.image_overlay import ImageOverlay, Layer
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.projection.landing_projection import Acceptance, landed
from app.domain.rows.row_image import CompletedBytes
from app.domain.rows.source_order import Reached
from app.domain.rows.source_progress import NO_PROGRESS, NOT_COUNTED, Counted
from app.staging.batches.batch import Batch, Receipt, StagingRequest, TableMoved
from app.staging.batches.block_insert import NewBlock
from app.staging.batches.row_images import read_present_keys, read_row_images
from app.staging.batches.sequence_lock import (
    Counters,
    TableVersionCheck,
    lock_counters,
    read_tables_of_schema_ids,
)
from app.staging.batches.source_positions import read_versions_and_positions


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """One staged batch: its receipt, and its rows as they will land."""

    receipt: Receipt
    rows: LandingRows


@dataclass
class LockedTable:
    """One table under its sequence lock, with what this transaction adds to it so far."""

    version: TableVersionCheck
    counters: Counters
    overlay: ImageOverlay
    positions: Mapping[str, Reached]
    cdc_started: bool
    described: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The names of the tables that the batches' schema ids have described, for all tables of the transaction."""
    added: list[tuple[Batch, LandingRows]] = field(default_factory=list)
    """The batches, each with its rows as they will land."""
    are_as_typed: bool = True
    """False if rows were left out, completed, marked or ordered otherwise under the lock."""
    advanced: dict[str, Reached] = field(default_factory=dict)
    """The source positions that this transaction moves."""
    locked_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    counted: Counted = NOT_COUNTED
    """The counts of operations with what this transaction adds."""
    image_places: Mapping[bytes, str] = field(default_factory=dict)
    """Location of the row images of the overlay, by row key."""

    def check(self, batch: Batch, admitted: LandingRows) -> tuple[LandingRows, Layer]:
        """Return the admitted rows of a batch as they will land, and the row images that they leave.

        Raises TableMoved, or RejectedInput like `ImageOverlay.complete`.
        """
        if not self.version.accepts(batch.table):
            raise TableMoved
        if batch.found_by is not None and self.described.get(batch.found_by.schema_id) != batch.found_by.names:
            raise TableMoved
        if batch.rows.has_snapshots and self.cdc_started != batch.table.cdc_started:
            raise TableMoved
        if not all(advance.follows(self.reached(advance.key)) for advance in batch.advances):
            raise TableMoved
        return self.overlay.complete(admitted)

    def add(self, batch: Batch, rows: LandingRows, layer: Layer) -> StagedBatch:
        """Add a checked batch, and give it the next sequence."""
        sequence = BatchSequence(self.counters.last_sequence + len(self.added) + 1)
        self.are_as_typed = self.are_as_typed and rows.batch is batch.rows.batch
        rows = landed(rows, batch.table, Acceptance(sequence, self.locked_at))
        self.added.append((batch, rows))
        self.overlay.adopt(layer, sequence)
        self.cdc_started = self.cdc_started or rows.starts_cdc
        counts = batch.rows.progress.counts
        if counts is not None and batch.table.options.operation_counts is OperationCounting.CHECK:
            self.counted = self.counted.then(counts)
        for advance in batch.advances:
            before = self.reached(advance.key)
            self.advanced[advance.key] = advance.to if before is None else before.then(advance.to)
        return StagedBatch(
            Receipt(str(batch.table.name), batch.table.generation, sequence, rows.changes, rows.rows), rows
        )

    def reached(self, key: str) -> Reached | None:
        """Return how far a log is accepted, with what this transaction adds."""
        return self.advanced.get(key) or self.positions.get(key)

    def block(self, payload: Payload | None) -> NewBlock:
        """Return the block of all added batches; encode their rows unless `payload` holds them as they will land."""
        table = self.added[0][0].table
        all_rows = [rows for _, rows in self.added]
        if payload is None or not self.are_as_typed:
            payload = encode_payload([rows.batch for rows in all_rows])
        return NewBlock(
            table.table_id,
            table.generation,
            table.schema_version,
            BatchSequence(self.counters.last_sequence + 1),
            [rows.rows for rows in all_rows],
            [rows.changes for rows in all_rows],
            *payload,
            self.cdc_started,
            all_rows[-1].ends_transaction,
            next((rows.source_position for rows in reversed(all_rows) if rows.source_position), None),
            next((rows.progress for rows in reversed(all_rows) if rows.progress.committed), NO_PROGRESS),
            self.counted,
            self.advanced,
        )


def lock_tables(connection: sa.Connection, requests: Sequence[StagingRequest]) -> dict[TableId, LockedTable]:
    """Lock the tables of these requests, and read what the requests depend on; missing tables are left out."""
    batches: dict[TableId, list[Batch]] = {}
    known: dict[TableId, Table] = {}
    schema_ids: set[str] = set()
    for request in requests:
        for batch in request.batches:
            batches.setdefault(batch.table.table_id, []).append(batch)
            if batch.found_by is not None:
                schema_ids.add(batch.found_by.schema_id)
        for entry in request.letters:
            known[entry.table.table_id] = entry.table
    counters = lock_counters(connection, batches.keys() | known.keys())
    wanted = {
        (table_id, batch.table.generation, advance.key)
        for table_id in counters
        for batch in batches.get(table_id, [])
        for advance in batch.advances
    }
    versions, reached = read_versions_and_positions(connection, counters, wanted)
    described = read_tables_of_schema_ids(connection, schema_ids) if schema_ids else {}
    positions: dict[TableId, dict[str, Reached]] = {}
    for (table_id, generation, task), position in reached.items():
        if generation == versions[table_id].generation:
            positions.setdefault(table_id, {})[task] = position
    completed = CompletedBytes()
    tables = {}
    for table_id, counted in counters.items():
        of_table = batches.get(table_id, [])
        fitting = [batch for batch in of_table if versions[table_id].accepts(batch.table)] or of_table
        places: dict[bytes, str] = {}
        overlay = image_overlay(
            connection, fitting[0].table if fitting else known[table_id], fitting, completed, places
        )
        tables[table_id] = LockedTable(
            versions[table_id],
            counted,
            overlay,
            positions.get(table_id, {}),
            counted.cdc_started,
            described,
            counted=counted.counted,
            image_places=places,
        )
    return tables


def image_overlay(
    connection: sa.Connection,
    table: Table,
    batches: Sequence[Batch],
    completed: CompletedBytes,
    places: dict[bytes, str] | None = None,
) -> ImageOverlay:
    """Read the row images that these batches of one table need, and add their places."""
    images = [batch.rows.images for batch in batches if batch.rows.images]
    if not images:
        return ImageOverlay(table, {}, completed=completed)
    wanted = set[bytes]().union(*(rows.wanted() for rows in images))
    if table.options.flags_deletes:
        wanted = wanted.union(*(rows.flagged() for rows in images))
    asked = set[bytes]().union(*(rows.asked() for rows in images)) - wanted
    stored = read_row_images(connection, table.table_id, table.generation, wanted, places, completed) if wanted else {}
    present = read_present_keys(connection, table.table_id, table.generation, asked) if asked else frozenset()
    return ImageOverlay(table, stored, present, completed=completed)
