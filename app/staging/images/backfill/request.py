"""Asks a drain to carry out the backfill of a table, and cancels one, in the transaction of a request.

What is asked for is an attempt without a process: the drain that owns the table begins the next one at its place.
"""

from dataclasses import replace

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, Generation, Table
from app.errors import Code, RejectedInput
from app.staging.images.backfill.payloads import what_is_left
from app.staging.images.backfill.progress import (
    Backfill,
    BackfillStep,
    Place,
    begin_attempt,
    cancel_backfill,
    find_backfill,
)
from app.staging.images.backfill.rules import check_table
from app.staging.tables.events import record_event
from app.staging.tables.operations import locked_table


def request_backfill(connection: sa.Connection, name: TableName, generation: Generation, actor: str) -> Table:
    """Ask for the backfill of a table, or for the rest of one that has ended. Repeating it changes nothing.

    A command that runs it stops at its next step, and the drain continues there. A table with complete images is left
    as it is. A process that dies before the commit has asked for nothing. Raises RejectedInput `unknown_table`,
    `generation_mismatch`, `wrong_table_state`, `no_row_images` or `bad_option`.
    """
    table = locked_table(connection, name, generation)
    if table.state.deletes_folder:
        raise RejectedInput(Code.WRONG_TABLE_STATE, f"table {table.name} is {table.state}")
    check_table(connection, table)
    if table.images_complete or table.backfill_due:
        return table
    present = find_backfill(connection, table)
    continued = _continued(present)
    begin_attempt(
        connection, table, continued or _beginning(connection, table), is_new=continued is None, by_drain=True
    )
    record_event(connection, table, actor, "backfill")
    return replace(table, backfill_due=True)


def stop_backfill(connection: sa.Connection, name: TableName, generation: Generation, actor: str) -> Table:
    """Cancel the running backfill of a table, by a drain or by a command. Without one, change nothing.

    Its images stay, and the next request continues it. A process that dies before the commit has cancelled nothing.
    Raises RejectedInput `unknown_table` or `generation_mismatch`.
    """
    table = locked_table(connection, name, generation)
    if cancel_backfill(connection, table):
        record_event(connection, table, actor, "backfill cancelled")
    return replace(table, backfill_due=False)


def _continued(present: Backfill | None) -> Place | None:
    """Return where a backfill has ended; None if there is none, or its Delta version cannot be used."""
    if present is None or not present.can_continue:
        return None
    return Place.of(present, max(0, present.rows_total - present.rows_done), present.batches_total)


def _beginning(connection: sa.Connection, table: Table) -> Place:
    """Return the place before the first batch; the drain looks for a mirror if payloads are purged."""
    left = what_is_left(connection, table, BatchSequence(0))
    return Place(BackfillStep.PAYLOADS, BatchSequence(0), left.rows, left.last)
