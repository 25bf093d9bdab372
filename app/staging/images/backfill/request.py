"""Asks the drain that owns a table for the backfill of its row images, and cancels one, in a request's transaction.

A backfill can run for a table whose staged rows tell the rows of its source, while all payloads that it needs are kept.
"""

from dataclasses import replace
from typing import Final, NamedTuple

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.projection.audit_columns import History
from app.domain.model.table import BatchSequence, Generation, Table
from app.errors import Code, RejectedInput
from app.staging.images.backfill.progress import BackfillState, begin_backfill, end_backfill, find_backfill
from app.staging.tables.events import record_event
from app.staging.tables.operations import locked_table
from app.staging.tables.registration_events import ROW_RULES_CHANGED

SELECT_RULES_CHANGED = sa.text("""
    SELECT EXISTS (SELECT FROM mirrorgate.table_events
        WHERE folded_name = :folded_name AND table_id = :table_id AND generation = :generation AND action = :action)""")
"""Tell whether the masks, the filter or the names of a table's columns in files have changed in this generation."""

SELECT_LEFT = sa.text("""
    SELECT c.last_sequence, coalesce(sum(b.row_count), 0)::bigint AS rows,
        c.last_sequence <= :after OR coalesce(
            min(b.first_sequence) <= :after + 1 AND bool_and(k.bucket IS NOT NULL), false) AS is_there
    FROM mirrorgate.table_counters c
    LEFT JOIN mirrorgate.staged_blocks b
        ON b.table_id = c.table_id AND b.generation = :generation AND b.last_sequence > :after
    LEFT JOIN mirrorgate.payload_buckets k ON k.bucket = b.bucket
    WHERE c.table_id = :table_id GROUP BY c.last_sequence""")
"""Read the last batch of a table, and the rows behind a sequence; tell whether all their payloads are there."""

_RECREATE: Final = (
    "Recreate the table with row_images=on and load it again, in one go or beside its changes in a load session "
    "(docs/loads.md)."
)


class Left(NamedTuple):
    """What there is to read behind a batch."""

    last: BatchSequence
    """The table's last batch."""
    rows: int
    is_there: bool
    """False if retention has deleted a payload of it."""


def request_backfill(connection: sa.Connection, name: TableName, generation: Generation, actor: str) -> Table:
    """Ask for the backfill of a table, or for the rest of one that has ended. Repeating it changes nothing.

    A table with complete images is left as it is. A process that dies before the commit has asked for nothing. Raises
    RejectedInput `unknown_table`, `generation_mismatch`, `wrong_table_state`, `no_row_images`, `bad_option` or
    `payloads_purged`.
    """
    table = locked_table(connection, name, generation)
    if table.state.deletes_folder:
        raise RejectedInput(Code.WRONG_TABLE_STATE, f"table {table.name} is {table.state}")
    check_table(connection, table)
    if table.images_complete or table.backfill_due:
        return table
    present = find_backfill(connection, table)
    after = BatchSequence(0) if present is None else present.through_sequence
    left = what_is_left(connection, table, after)
    if not left.is_there:
        raise purged(table, after)
    begin_backfill(connection, table, present, left.rows, left.last)
    record_event(connection, table, actor, "backfill")
    return replace(table, backfill_due=True)


def stop_backfill(connection: sa.Connection, name: TableName, generation: Generation, actor: str) -> Table:
    """Cancel the running backfill of a table. Without one, change nothing.

    Its images stay, and the next request continues it. A process that dies before the commit has cancelled nothing.
    Raises RejectedInput `unknown_table` or `generation_mismatch`.
    """
    table = locked_table(connection, name, generation)
    if end_backfill(connection, table, BackfillState.CANCELLED):
        record_event(connection, table, actor, "backfill cancelled")
    return replace(table, backfill_due=False)


def check_table(connection: sa.Connection, table: Table) -> None:
    """Raise RejectedInput unless the images are complete, or staged rows of the table can complete them."""
    if not table.options.keeps_images:
        raise RejectedInput(Code.NO_ROW_IMAGES, f"{table.name} keeps no row images to complete")
    if table.images_complete:
        return
    lost = _lost(connection, table)
    if lost is not None:
        detail = f"the staged rows of {table.name} are not those of its source: {lost}"
        raise RejectedInput(Code.BAD_OPTION, detail, remedy=_RECREATE)
    if table.options.reads_images:
        detail = "partial updates would be completed from rows that a backfill has not brought up to date yet"
        remedy = "Set row_images=on and partial_updates=reject until the backfill has ended."
        raise RejectedInput(Code.BAD_OPTION, detail, remedy=remedy)


def what_is_left(connection: sa.Connection, table: Table, after: BatchSequence) -> Left:
    """Return what there is to read behind a batch."""
    keys = {"table_id": table.table_id, "generation": table.generation, "after": after}
    return Left(*connection.execute(SELECT_LEFT, keys).one())


def purged(table: Table, after: BatchSequence) -> RejectedInput:
    """Return the rejection of a backfill that needs a payload behind a batch which retention has deleted."""
    detail = f"payloads of {table.name} from batch {after + 1} on are purged"
    return RejectedInput(Code.PAYLOADS_PURGED, detail, remedy=_RECREATE)


def _lost(connection: sa.Connection, table: Table) -> str | None:
    """Return why the staged rows of a table do not tell those of its source; None if they do."""
    if table.options.history is not History.OFF:
        return "its files have every version of a row (history=append_only)"
    if table.options.masks or table.options.filter is not None:
        return "masks or a filter apply to it"
    life = {"folded_name": table.name.folded, "table_id": table.table_id, "generation": table.generation}
    if connection.execute(SELECT_RULES_CHANGED, {**life, "action": ROW_RULES_CHANGED}).scalar_one():
        return "its masks, its filter or its `rename` have changed since its generation began"
    return None
