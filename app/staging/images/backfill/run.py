"""Gives row images to the rows that a table had before it kept any, step by step, from where an earlier run has ended.

A command runs it (`backfill_images`), or a drain that was asked for it (`run_asked`). Each step is one transaction
under the sequence lock, and stores its place. A process that dies leaves images that count as incomplete; the next run
continues behind the last step. The payloads are read if all are staged that are needed. Otherwise the rows of a Delta
version are read first, then the payloads behind it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, Table, TableId
from app.errors import Code, RejectedInput
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.database import Engine, translated_errors
from app.staging.images.backfill.mirrored import MirroredRows, MirrorReader, copy_rows, delete_older, last_batch_of
from app.staging.images.backfill.payloads import next_block, purged, replay_block, what_is_left
from app.staging.images.backfill.progress import (
    Backfill,
    BackfillState,
    BackfillStep,
    Place,
    Progress,
    begin_attempt,
    cancel_backfill,
    end_backfill,
    find_backfill,
    is_same_attempt,
    store_place,
)
from app.staging.images.backfill.rules import check_table, found_table, locked_table
from app.staging.ledger.leases import is_leased_by
from app.staging.tables.events import record_event
from app.staging.tables.registry import find_table_by_id

SET_COMPLETE = sa.text("""
    UPDATE mirrorgate.tables SET images_complete = true, revision = revision + 1
    WHERE table_id = :table_id AND generation = :generation""")
"""Record that no row of a table lacks a row image."""

_BEGINNING = BatchSequence(0)


def backfill_images(engine: Engine, name: TableName, progress: Progress, mirror: MirrorReader | None = None) -> Table:
    """Give an image to every row of a table, and return the table; it then has complete images.

    `progress` is called after each step. Raises RejectedInput `unknown_table`, `no_row_images`, `bad_option`,
    `payloads_purged`, `not_mirrored`, `unknown_version`, `mirror_duplicate_keys` or `backfill_stopped`, and
    TemporarilyUnavailable, with everything that was written left as it is: such images count as incomplete.
    """
    with translated_errors(), engine.begin() as connection:
        table = found_table(connection, name)
        check_table(connection, table)
    if table.images_complete:
        return table
    backfill, mirrored = _begin(engine, table, mirror, by_drain=False)
    with _failing(engine, table, backfill):
        progress(backfill)
        return _run(engine, table, backfill, mirrored, progress)


def run_asked(
    engine: Engine, table_id: TableId, worker_id: UUID, progress: Progress, mirror: MirrorReader | None
) -> None:
    """Carry out the backfill of a table that drains are asked for; do nothing if there is none.

    Nothing happens either if another worker has claimed the table since this one was due: the attempt is then that
    worker's, which may read a mirror that this one cannot.
    `progress` is called after each step and may raise, which leaves the backfill due, as a process that dies does: the
    next one continues it. Raises TemporarilyUnavailable, and RejectedInput as `backfill_images` after the backfill has
    ended as failed.
    """
    with translated_errors(), engine.begin() as connection:
        table = find_table_by_id(connection, table_id)
        is_due = table is not None and table.backfill_due and is_leased_by(connection, table_id, worker_id)
        asked = find_backfill(connection, table) if table is not None and is_due else None
    if table is None or asked is None:
        return
    with _failing(engine, table, asked):
        with translated_errors(), engine.begin() as connection:
            check_table(connection, table)
        backfill, mirrored = _begin(engine, table, mirror, by_drain=True)
        with _failing(engine, table, backfill):
            progress(backfill)
            _run(engine, table, backfill, mirrored, progress)


@contextmanager
def _failing(engine: Engine, table: Table, backfill: Backfill) -> Iterator[None]:
    """End an attempt as failed if the block raises RejectedInput, unless it is over by then.

    A process that dies before the commit leaves it running; the next attempt fails at the same place.
    """
    try:
        yield
    except RejectedInput as error:
        detail = f"{error.detail} ({error.code})"
        with translated_errors(), engine.begin() as connection:
            if end_backfill(connection, backfill, BackfillState.FAILED, detail) and backfill.by_drain:
                record_event(connection, table, "drain", "backfill failed", reason=detail)
        raise


def cancel(engine: Engine, name: TableName) -> bool:
    """Cancel the running backfill of a table, and return whether there was one. Raises RejectedInput `unknown_table`.

    A later run continues where the cancelled one has ended.
    """
    with translated_errors(), engine.begin() as connection:
        table = found_table(connection, name)
        lock_counters(connection, [table.table_id])
        return cancel_backfill(connection, table)


def _begin(
    engine: Engine, table: Table, mirror: MirrorReader | None, *, by_drain: bool
) -> tuple[Backfill, MirroredRows | None]:
    """Begin or continue a backfill, and return it with the Delta version whose rows it still has to copy.

    Opening the version takes up to minutes without a lock. Raises RejectedInput `backfill_stopped` if another process
    has begun or completed a backfill in that time, or the images were discarded: the place found before is then wrong.
    A drain does not begin one that was cancelled in that time either.
    """
    with translated_errors(), engine.begin() as connection:
        present = find_backfill(connection, table)
        whole = what_is_left(connection, table, _BEGINNING)
        behind = whole if present is None else what_is_left(connection, table, present.through_sequence)
    mirrored = None
    if present is not None and present.step is BackfillStep.MIRROR and behind.is_there:
        mirrored = _reopened(present, table, mirror)
    is_new = True
    if present is not None and behind.is_there and (mirrored or present.step is not BackfillStep.MIRROR):
        is_new = False
        to_copy = 0 if mirrored is None else mirrored.rows - present.mirror_rows
        place = Place.of(present, to_copy + behind.rows, behind.last)
    elif whole.is_there:
        place = Place(BackfillStep.PAYLOADS, _BEGINNING, whole.rows, whole.last)
    elif mirror is None:
        raise purged(table, _BEGINNING, has_mirror=False)
    else:
        mirrored = mirror(table.name, None)
        place = _place_before(engine, table, mirrored)
    with translated_errors(), engine.begin() as connection:
        locked, _ = locked_table(connection, table)
        found = find_backfill(connection, locked)
        is_cancelled = by_drain and (found is None or not found.is_due)
        if is_cancelled or not is_same_attempt(found, present):
            raise RejectedInput(
                Code.BACKFILL_STOPPED,
                "the backfill was cancelled, another process began it again, or its images were deleted",
            )
        return begin_attempt(connection, locked, place, is_new=is_new, by_drain=by_drain), mirrored


def _reopened(present: Backfill, table: Table, mirror: MirrorReader | None) -> MirroredRows | None:
    """Return the version that an earlier run has begun to copy; None if it cannot be read, or failed before."""
    if mirror is None or not present.can_continue:
        return None
    try:
        mirrored = mirror(table.name, present.mirror_version)
    except RejectedInput as error:
        if error.code is not Code.UNKNOWN_VERSION:
            raise
        return None
    return mirrored if mirrored.table_id == present.mirror_id else None


def _place_before(engine: Engine, table: Table, mirrored: MirroredRows) -> Place:
    """Return the place before the first row of a version.

    Raises RejectedInput as `last_batch_of`, and `payloads_purged` if a payload behind the version is.
    """
    with translated_errors(), engine.begin() as connection:
        through = last_batch_of(connection, table, mirrored)
        behind = what_is_left(connection, table, through)
    if not behind.is_there:
        raise purged(table, through)
    return Place(
        BackfillStep.MIRROR, through, mirrored.rows + behind.rows, behind.last, mirrored.table_id, mirrored.version
    )


def _run(
    engine: Engine,
    table: Table,
    backfill: Backfill,
    mirrored: MirroredRows | None,
    progress: Progress,
) -> Table:
    """Do the steps that are left, and return the table with complete images."""
    if mirrored is not None:
        backfill = copy_rows(engine, table, mirrored, backfill, progress)
    backfill = delete_older(engine, table, backfill, progress)
    while True:
        with translated_errors(), engine.begin() as connection:
            block = next_block(connection, table, backfill.through_sequence)
        if block is None:
            completed = _complete(engine, table, backfill)
            if completed is not None:
                return completed
            continue
        backfill = replay_block(engine, table, block, backfill, progress)


def _complete(engine: Engine, table: Table, backfill: Backfill) -> Table | None:
    """Record that the images are complete, and return the table; None if a batch was accepted meanwhile.

    A process that dies before the commit leaves a backfill that the next run completes at once.
    """
    with translated_errors(), engine.begin() as connection:
        present, counters = locked_table(connection, table)
        if counters.last_sequence > backfill.through_sequence:
            # Under the lock: a block that is not there now was purged.
            if next_block(connection, present, backfill.through_sequence) is None:
                raise purged(present, backfill.through_sequence)
            return None
        store_place(connection, backfill)
        end_backfill(connection, backfill, BackfillState.DONE)
        if backfill.by_drain:
            record_event(connection, present, "drain", "backfill done")
        connection.execute(SET_COMPLETE, {"table_id": table.table_id, "generation": table.generation})
        return find_table_by_id(connection, table.table_id)
