"""Which tables can have a backfill: those whose staged and mirrored rows tell the rows of their source."""

from typing import Final

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import Table
from app.domain.model.table_schema import TableSchema
from app.domain.rows.projection.source_rows import lost_in_landing
from app.errors import Code, RejectedInput
from app.staging.batches.sequence_lock import Counters, lock_counters
from app.staging.tables.registration_events import ROW_RULES_CHANGED
from app.staging.tables.registry import find_table, find_table_by_id

SELECT_RULES_CHANGED = sa.text("""
    SELECT EXISTS (SELECT FROM mirrorgate.table_events
        WHERE folded_name = :folded_name AND table_id = :table_id AND generation = :generation AND action = :action)""")
"""Tell whether the masks, the filter or the names of a table's columns in files have changed in this generation."""

SELECT_PROJECTED_VERSIONS = sa.text("""
    SELECT key_columns, columns, bare, lands_as FROM mirrorgate.schema_versions
    WHERE table_id = :table_id AND generation = :generation""")
"""Read the schemas that a generation has had."""

RECREATE: Final = "Recreate the table with row_images=on and load it again (docs/tables.md)."


def found_table(connection: sa.Connection, name: TableName) -> Table:
    """Return a table. Raises RejectedInput `unknown_table`."""
    table = find_table(connection, name)
    if table is None:
        remedy = "`mirrorgate tables list` shows all tables."
        raise RejectedInput(Code.UNKNOWN_TABLE, f"there is no table {name}", remedy=remedy)
    return table


def locked_table(connection: sa.Connection, table: Table) -> tuple[Table, Counters]:
    """Return a table that `check_table` has passed as it is now, under its sequence lock, and its counters.

    Raises RejectedInput if the table has changed too much, or `backfill_stopped` if its images are complete: a step of
    an older place would give images to rows that were deleted since.
    """
    counters = lock_counters(connection, [table.table_id])[table.table_id]
    present = find_table_by_id(connection, table.table_id)
    if present is None or present.generation != table.generation:
        raise RejectedInput(Code.UNKNOWN_TABLE, f"{table.name} has been dropped or recreated")
    if (present.revision, present.schema_version) != (table.revision, table.schema_version):
        # Each change of the rules or the columns raises one of them. Without one, `check_table` passed already.
        check_table(connection, present)
    if present.images_complete:
        raise RejectedInput(Code.BACKFILL_STOPPED, "another process has completed the backfill")
    return present, counters


def check_table(connection: sa.Connection, table: Table) -> None:
    """Raise RejectedInput unless the images are complete, or rows of the table can complete them."""
    if not table.options.keeps_images:
        raise RejectedInput(Code.NO_ROW_IMAGES, f"{table.name} keeps no row images to complete")
    if table.images_complete:
        return
    lost = _lost(connection, table)
    if lost is not None:
        detail = f"the staged and mirrored rows of {table.name} are not those of its source: {lost}"
        raise RejectedInput(Code.BAD_OPTION, detail, remedy=RECREATE)
    if table.options.reads_images:
        detail = "partial updates would be completed from rows that a backfill has not brought up to date yet"
        remedy = "Set row_images=on and partial_updates=reject until the backfill has ended."
        raise RejectedInput(Code.BAD_OPTION, detail, remedy=remedy)


def _lost(connection: sa.Connection, table: Table) -> str | None:
    """Return why the rows of a table do not tell those of its source; None if they do."""
    life = {"table_id": table.table_id, "generation": table.generation}
    changed = {**life, "folded_name": table.name.folded, "action": ROW_RULES_CHANGED}
    if connection.execute(SELECT_RULES_CHANGED, changed).scalar_one():
        return "its masks, its filter or its `rename` have changed since its generation began"
    stored = connection.execute(SELECT_PROJECTED_VERSIONS, life).mappings()
    return lost_in_landing(table.schema, table.options, [TableSchema.from_json(dict(one)) for one in stored])
