"""What one transaction stages: the locks, the checks under them, the blocks, row images and source positions.

Everything that another transaction may have changed since a request was typed is looked at again here, by
statements that begin after the lock was granted. A request that no longer fits, or whose partial updates no row
image completes, is left out whole; its neighbours go on.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import sqlalchemy as sa

from app.domain.arrow.payload import encode_payload
from app.domain.model.table import BatchSequence, Table, TableId
from app.domain.rows.completed_bytes import CompletedBytes, TooMuchTogether
from app.domain.rows.image_overlay import ImageOverlay, Layer
from app.domain.rows.landing_rows import LandingRows
from app.errors import RejectedInput
from app.staging.batches.batch import AlreadyStaged, Batch, BlockKey, Receipt, StagingRequest, TableMoved
from app.staging.batches.commit_verification import TransactionId
from app.staging.batches.dead_letter_transaction import DeadLetterTransaction
from app.staging.batches.idempotency import IdempotencyTransaction
from app.staging.batches.row_images import read_present_keys, read_row_images, write_row_images
from app.staging.batches.sequence_lock import Counters, TableVersionCheck, lock_counters, read_table_versions
from app.staging.batches.source_positions import record_source_position, source_positions
from app.staging.batches.staged_blocks import BatchBorders, NewBlock, stage_block


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """One staged batch: its receipt, and its rows as they will land."""

    receipt: Receipt
    rows: LandingRows


Outcome: TypeAlias = list[StagedBatch] | AlreadyStaged | TableMoved | RejectedInput
"""What became of a request: its batches in the order given, or why it was left out."""


def encode_blocks(requests: Sequence[StagingRequest]) -> dict[BlockKey, bytes]:
    """The payloads that these requests make if all of them are staged as they are.

    Encoding needs no lock, so it comes before. Tables with gaps to fill are left out.
    """
    members: dict[BlockKey, list[LandingRows]] = defaultdict(list)
    for request in requests:
        for batch in request.batches:
            members[batch.block_key].append(batch.rows)
    return {
        key: encode_payload([rows.batch for rows in all_rows])
        for key, all_rows in members.items()
        if not any(rows.images and rows.images.incomplete for rows in all_rows)
    }


@dataclass(frozen=True, slots=True)
class StagedGroup:
    """What became of each request, and how to tell later whether this transaction was committed, if it has blocks."""

    outcomes: Sequence[Outcome]
    transaction: TransactionId | None


def stage_requests(
    connection: sa.Connection, requests: Sequence[StagingRequest], payloads: Mapping[BlockKey, bytes]
) -> StagedGroup:
    """Stage what fits, in the order given; `payloads` are those of `encode_blocks`. The caller commits.

    Dying before the commit leaves nothing.
    """
    book = IdempotencyTransaction.of(requests)
    book.lock_producers(connection)
    tables = _locked(connection, requests)
    book.lock_keys(connection)
    letters = DeadLetterTransaction(requests)
    letters.lock(connection)
    outcomes = [_stage(request, tables, book, letters) for request in requests]
    whole = all(isinstance(outcome, list) for outcome in outcomes)
    touched = [table for table in tables.values() if table.members]
    blocks = [table.block(payloads.get(table.members[0][0].block_key) if whole else None) for table in touched]
    stored = [_store(connection, table, block) for table, block in zip(touched, blocks, strict=True)]
    book.store(connection)
    letters.store(connection)
    return StagedGroup(outcomes, stored[0] if stored else None)


def check_gaps(connection: sa.Connection, batches: Sequence[Batch]) -> None:
    """Raises RejectedInput, as `ImageOverlay.complete` does, where the row images that are stored now do not fit."""
    for batch in batches:
        _overlay(connection, batch.table, [batch], CompletedBytes()).complete(batch.rows)


def _stage(
    request: StagingRequest,
    tables: Mapping[TableId, "_LockedTable"],
    book: IdempotencyTransaction,
    letters: DeadLetterTransaction,
) -> Outcome:
    """Add the request to its tables if all of it fits and it was not staged before. Raises TooMuchTogether."""
    try:
        if request.identity is not None:
            book.check(request.identity)
        if any(table.table_id not in tables for table in request.tables):
            raise TableMoved
        checked = [(batch, *tables[batch.table.table_id].check(batch)) for batch in request.batches]
        if not all(tables[entry.table.table_id].version.accepts(entry.table) for entry in request.letters):
            raise TableMoved
        letters.check(request)
    except TooMuchTogether:
        raise
    except (AlreadyStaged, TableMoved, RejectedInput) as reason:
        return reason
    staged = [tables[batch.table.table_id].add(batch, rows, layer) for batch, rows, layer in checked]
    receipts = [batch.receipt for batch in staged]
    if request.identity is not None:
        book.add(request.identity, request.answer(receipts))
    letters.add(request, receipts)
    return staged


def _store(connection: sa.Connection, table: "_LockedTable", block: NewBlock) -> TransactionId:
    """Everything of a table."""
    transaction = stage_block(connection, block, cdc_started=table.cdc_started)
    if table.overlay.written:
        write_row_images(connection, block.table_id, block.generation, table.overlay.written)
    for task, last_sequence in table.advanced.items():
        record_source_position(connection, block.table_id, block.generation, task, last_sequence)
    return transaction


@dataclass
class _LockedTable:
    """One table under its sequence lock, with what this transaction adds to it so far."""

    version: TableVersionCheck
    counters: Counters
    overlay: ImageOverlay
    positions: Mapping[str, str]
    cdc_started: bool
    members: list[tuple[Batch, LandingRows]] = field(default_factory=list)
    advanced: dict[str, str] = field(default_factory=dict)
    """The positions that this transaction moves."""

    def check(self, batch: Batch) -> tuple[LandingRows, Layer]:
        """The rows as they will land. Raises TableMoved, or RejectedInput as `ImageOverlay.complete` does."""
        if not self.version.accepts(batch.table):
            raise TableMoved
        if batch.rows.has_snapshots and self.cdc_started != batch.table.cdc_started:
            raise TableMoved
        positions = {**self.positions, **self.advanced} if batch.advances else {}
        if any(positions.get(advance.task) != advance.seen for advance in batch.advances):
            raise TableMoved
        return self.overlay.complete(batch.rows)

    def add(self, batch: Batch, rows: LandingRows, layer: Layer) -> StagedBatch:
        """Give a checked batch the next sequence."""
        self.members.append((batch, rows))
        sequence = BatchSequence(self.counters.last_sequence + len(self.members))
        self.overlay.adopt(layer, sequence)
        self.cdc_started = self.cdc_started or rows.starts_cdc
        self.advanced |= {advance.task: advance.last for advance in batch.advances}
        return StagedBatch(
            Receipt(str(batch.table.name), batch.table.generation, sequence, rows.changes, rows.rows), rows
        )

    @property
    def _is_as_typed(self) -> bool:
        """Whether all members land as they were typed: row images changed nothing."""
        return all(rows is batch.rows for batch, rows in self.members)

    def block(self, payload: bytes | None) -> NewBlock:
        """The block of all members; without a `payload` that holds their rows, they are encoded now."""
        table = self.members[0][0].table
        all_rows = [rows for _, rows in self.members]
        return NewBlock(
            table.table_id,
            table.generation,
            table.schema_version,
            BatchSequence(self.counters.last_sequence + 1),
            [BatchBorders(rows.changes, rows.rows) for rows in all_rows],
            payload if payload and self._is_as_typed else encode_payload([rows.batch for rows in all_rows]),
            all_rows[-1].ends_transaction,
            next((rows.source_position for rows in reversed(all_rows) if rows.source_position), None),
        )


def _locked(connection: sa.Connection, requests: Sequence[StagingRequest]) -> dict[TableId, _LockedTable]:
    """The tables of these requests, locked, and what is stored of them that the requests depend on."""
    batches: dict[TableId, list[Batch]] = {}
    known: dict[TableId, Table] = {}
    for request in requests:
        for table in request.tables:
            batches.setdefault(table.table_id, [])
            known[table.table_id] = table
        for batch in request.batches:
            batches[batch.table.table_id].append(batch)
    counters = lock_counters(connection, batches)
    versions = read_table_versions(connection, batches)
    tables = {}
    completed = CompletedBytes()
    for table_id, members in batches.items():
        if table_id in counters:
            fitting = [member for member in members if versions[table_id].accepts(member.table)] or members
            tables[table_id] = _LockedTable(
                versions[table_id],
                counters[table_id],
                _overlay(connection, fitting[0].table if fitting else known[table_id], fitting, completed),
                _positions(connection, fitting),
                counters[table_id].cdc_started,
            )
    return tables


def _overlay(
    connection: sa.Connection, table: Table, members: Sequence[Batch], completed: CompletedBytes
) -> ImageOverlay:
    images = [member.rows.images for member in members if member.rows.images]
    wanted = set[bytes]().union(*(rows.wanted() for rows in images))
    asked = set[bytes]().union(*(rows.asked() for rows in images)) - wanted
    stored = read_row_images(connection, table.table_id, table.generation, wanted) if wanted else {}
    present = read_present_keys(connection, table.table_id, table.generation, asked) if asked else frozenset()
    return ImageOverlay(table, stored, present, completed=completed)


def _positions(connection: sa.Connection, members: Sequence[Batch]) -> Mapping[str, str]:
    tasks = {advance.task for member in members for advance in member.advances}
    table = members[0].table if tasks else None
    return source_positions(connection, table.table_id, table.generation, tasks) if table else {}
