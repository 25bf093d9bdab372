"""The transaction that stages a group of requests: blocks, row images, source positions, receipts and dead letters.

Each request is checked again under the sequence locks of its tables. One that no longer fits, or whose partial updates
no row image completes, is left out as a whole; the other requests are staged.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import sqlalchemy as sa

from app.domain.arrow import Payload, encode_payload
from app.domain.loads import LoadStep
from app.domain.model.table import Table, TableId
from app.domain.rows.image_overlay import Layer
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.projection.landing_projection import landed, needs_acceptance
from app.domain.rows.row_image import CompletedBytes, TooMuchTogether
from app.staging.batches.batch import AlreadyStaged, Batch, BlockKey, StagingRequest, TableMoved
from app.staging.batches.block_insert import NewBlock, TransactionId, stage_blocks
from app.staging.batches.dead_letter_transaction import DeadLetterTransaction
from app.staging.batches.idempotency import IdempotencyTransaction
from app.staging.batches.load_transaction import LoadTransaction
from app.staging.batches.locked_table import LockedTable, StagedBatch, image_overlay, lock_tables
from app.staging.batches.row_images import note_touched, write_row_images
from app.staging.batches.sequence_lock import read_table_versions
from mirrorgate.errors import RejectedInput

Outcome: TypeAlias = list[StagedBatch] | AlreadyStaged | TableMoved | RejectedInput
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

    outcomes: Sequence[Outcome]
    blocks: Sequence[NewBlock]
    transaction: TransactionId | None
    missing: Sequence[MissingChanges] = ()


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
    return StagedGroup(outcomes, blocks, transaction, missing)


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
) -> Outcome:
    """Add a request to its tables if all of it fits and it was not staged before. Raises TooMuchTogether."""
    try:
        if request.identity is not None:
            idempotency.check(request.identity)
        if not tables.keys() >= request.table_ids:
            raise TableMoved
        loads.check(request)
        checked = [_checked(batch, request.load, tables[batch.table.table_id], loads) for batch in request.batches]
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


def _checked(
    batch: Batch, step: LoadStep | None, table: LockedTable, loads: LoadTransaction
) -> tuple[Batch, LandingRows, Layer]:
    """Return a batch with its rows as they will land, and the row images that they leave."""
    return (batch, *table.check(batch, loads.admitted(batch, step, table.overlay)))


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
