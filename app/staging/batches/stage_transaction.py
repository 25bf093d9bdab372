"""The transaction that stages a group of requests: blocks, row images, source positions, receipts and dead letters.

Each request is checked again under the sequence locks of its tables: everything that another transaction may have
changed since it was typed is read by statements that begin after the locks were granted. One that no longer fits, or
whose partial updates no row image completes, is left out as a whole; the other requests are staged.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

import sqlalchemy as sa

from app.domain.arrow import Payload, encode_payload
from app.domain.loads import LoadStep
from app.domain.model.change import NO_PROGRESS, NOT_COUNTED, Counted
from app.domain.model.table import BatchSequence, Table, TableId
from app.domain.model.table_options import OperationCounting
from app.domain.rows.image_overlay import ImageOverlay, Layer
from app.domain.rows.landing_projection import Acceptance, landed, needs_acceptance
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.row_image import CompletedBytes, TooMuchTogether
from app.domain.rows.source_order import Reached
from app.staging.batches.batch import AlreadyStaged, Batch, BlockKey, Receipt, StagingRequest, TableMoved
from app.staging.batches.dead_letters import DeadLetterTransaction, Replayed
from app.staging.batches.idempotency import IdempotencyTransaction
from app.staging.batches.load_transaction import LoadTransaction
from app.staging.batches.row_images import note_touched, read_present_keys, read_row_images, write_row_images
from app.staging.batches.sequence_lock import (
    Counters,
    TableVersionCheck,
    lock_counters,
    read_table_versions,
    read_tables_of_schema_ids,
    read_versions_and_positions,
)
from app.staging.batches.staged_blocks import NewBlock, TransactionId, stage_blocks
from mirrorgate.errors import RejectedInput


class StagedBatch(NamedTuple):
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


StagingOutcome: TypeAlias = list[StagedBatch] | AlreadyStaged | TableMoved | RejectedInput
"""The outcome of a request: its batches in the order given, or the reason why it was left out."""


def encode_blocks(requests: Sequence[StagingRequest]) -> dict[BlockKey, Payload]:
    """Return the payloads that these requests make if all of them are staged as they are.

    Encoding needs no lock, so it happens before the transaction. Left out are tables with partial updates to complete
    or deletes to flag, and tables whose files say where or when a batch is accepted: the sequence lock decides both.
    """
    batches_of_block: dict[BlockKey, list[Batch]] = defaultdict(list)
    for request in requests:
        for batch in request.batches:
            batches_of_block[batch.block_key].append(batch)
    return {
        key: encode_payload([landed(batch.rows, batch.table, None).batch for batch in batches])
        for key, batches in batches_of_block.items()
        if not any(map(_lock_decides, batches))
    }


class MissingChanges(NamedTuple):
    """Changes of a table that are missing by Arcion's counts of operations, found in one transaction."""

    table: Table
    changes: int
    operation_count: int | None
    """The count behind them."""


@dataclass(frozen=True, slots=True)
class StagedGroup:
    """The outcome of each request, and the blocks with the identity of their transaction, if it has staged any."""

    outcomes: Sequence[StagingOutcome]
    blocks: Sequence[NewBlock]
    transaction: TransactionId | None
    missing: Sequence[MissingChanges] = ()
    replayed: Sequence[Replayed] = ()


def stage_requests(
    connection: sa.Connection, requests: Sequence[StagingRequest], payloads: Mapping[BlockKey, Payload]
) -> StagedGroup:
    """Stage the requests that fit, in the order given; `payloads` are those of `encode_blocks`.

    The caller commits; dying before that leaves nothing.
    """
    idempotency = IdempotencyTransaction.of(requests)
    idempotency.lock_producers(connection)
    tables = lock_tables(connection, requests)
    loads = LoadTransaction.read(connection, requests, {table_id: table.counters for table_id, table in tables.items()})
    idempotency.lock_keys(connection)
    letters = DeadLetterTransaction(requests)
    letters.lock(connection)
    outcomes = [_stage(request, tables, loads, idempotency, letters) for request in requests]
    all_staged = all(
        isinstance(outcome, list) and len(outcome) == len(request.batches)
        for request, outcome in zip(requests, outcomes, strict=True)
    )
    touched = [table for table in tables.values() if table.added]
    missing = [*_missing(connection, touched)]
    blocks = [table.block(payloads.get(table.added[0][0].block_key) if all_staged else None) for table in touched]
    transaction = stage_blocks(connection, blocks) if blocks else None
    for table, block in zip(touched, blocks, strict=True):
        _store(connection, table, block)
    loads.store(connection)
    idempotency.store(connection)
    letters.store(connection)
    return StagedGroup(outcomes, blocks, transaction, missing, letters.replayed)


def check_gaps(connection: sa.Connection, batches: Sequence[Batch]) -> None:
    """Raise RejectedInput, like `ImageOverlay.complete`, if present row images do not complete these batches.

    Raises TableMoved if a table is not as the batch was typed for it: its images may be of another generation.
    """
    versions = read_table_versions(connection, [batch.table.table_id for batch in batches])
    for batch in batches:
        present = versions.get(batch.table.table_id)
        if present is None or not present.accepts(batch.table):
            raise TableMoved
    completed = CompletedBytes()
    for batch in batches:
        image_overlay(connection, batch.table, [batch], completed).complete(batch.rows)


def _lock_decides(batch: Batch) -> bool:
    """Return True if only the sequence lock says how the rows of a batch land."""
    images, flags = batch.rows.images, batch.table.options.flags_deletes
    depends = images is not None and (len(images.incomplete) > 0 or (flags and images.has_deletes))
    return depends or needs_acceptance(batch.table)


def _stage(
    request: StagingRequest,
    tables: Mapping[TableId, LockedTable],
    loads: LoadTransaction,
    idempotency: IdempotencyTransaction,
    letters: DeadLetterTransaction,
) -> StagingOutcome:
    """Add a request to its tables if all of it fits and it was not staged before. Raises TooMuchTogether."""
    try:
        if request.identity is not None:
            idempotency.check(request.identity)
        if not tables.keys() >= request.table_ids:
            raise TableMoved
        loads.check(request)
        checked = []
        for batch in request.batches:
            table = tables[batch.table.table_id]
            rows, layer = table.check(batch, loads.admitted(batch, request.load, table.overlay))
            checked.append((batch, rows, layer))
        if not all(tables[entry.table.table_id].version.accepts(entry.table) for entry in request.letters):
            raise TableMoved
        letters.check(request)
    except TooMuchTogether:
        raise
    except (AlreadyStaged, TableMoved, RejectedInput) as reason:
        return reason
    staged = [*_add(request.load, tables, loads, checked)]
    receipts = [batch.receipt for batch in staged]
    if request.identity is not None:
        idempotency.add(request.identity, request.answer(receipts))
    letters.add(request, receipts)
    return staged


def _add(
    step: LoadStep | None,
    tables: Mapping[TableId, LockedTable],
    loads: LoadTransaction,
    checked: Sequence[tuple[Batch, LandingRows, Layer]],
) -> Iterator[StagedBatch]:
    """Add the checked batches of a request. One of a load of which no row lands takes no sequence."""
    for batch, rows, layer in checked:
        if step is None:
            loads.note_stream(batch.table, layer)
            yield tables[batch.table.table_id].add(batch, rows, layer)
            continue
        staged = tables[batch.table.table_id].add(batch, rows, layer) if rows.rows else None
        loads.note_step(step, batch, rows, staged.receipt.sequence if staged else None)
        if staged:
            yield staged


def _missing(connection: sa.Connection, tables: Sequence[LockedTable]) -> Iterator[MissingChanges]:
    """Yield the changes that are missing, unless another table has one of the counts between (decision 0078).

    The counts are then those of several tables, and a jump says nothing about one of them.
    """
    for table in tables:
        before, counted = table.counters.counted, table.counted
        changes, batch = counted.missing - before.missing, table.added[-1][0]
        if changes <= 0:
            continue
        low, high = before.last or 0, counted.last or 0
        others = [one.counted.last or 0 for one in tables if one is not table]
        keys = {"table_id": batch.table.table_id, "low": low, "high": high}
        if any(low < other < high for other in others) or connection.execute(SELECT_BETWEEN, keys).scalar():
            table.counted = replace(counted, run=0, missing=before.missing)
        else:
            yield MissingChanges(batch.table, changes, counted.last)


SELECT_BETWEEN = sa.text("""
    SELECT EXISTS (
        SELECT FROM mirrorgate.table_counters
        WHERE table_id <> :table_id AND operation_count > :low AND operation_count < :high)""")
"""Read whether another table has a count of operations between two others."""


def _store(connection: sa.Connection, table: LockedTable, block: NewBlock) -> None:
    """Write the row images that the batches of a table leave."""
    if table.overlay.written:
        if table.version.rebuild_due:
            note_touched(connection, block.table_id, block.generation, table.overlay.written)
        write_row_images(connection, block.table_id, block.generation, table.overlay.written, table.image_places)
