"""Makes the rebuilt generation of a table the current one.

From the commit on, changes are typed by the new schema and queue behind the rebuilt rows. The table is `rebuilding`
until the folder of the generation before is gone; then `drop_completion` makes it active, or paused as it was before.
"""

import json
from dataclasses import dataclass

import sqlalchemy as sa

from app.domain.model.drop_plan import DropAction, DropPlan
from app.domain.model.table import Table, TableState
from app.domain.publication.metadata_chain import seed
from app.domain.rebuild.plan import RebuildPhase
from app.domain.rebuild.rebuilt_rows import Finding
from app.errors import Code, RejectedInput
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.database import installation_id
from app.staging.ledger.leases import LOCK_LEASE
from app.staging.ledger.metadata_chain import append_block
from app.staging.rebuild.copies import require_parts
from app.staging.rebuild.corrections import LAST_SEQUENCE, correct_copies
from app.staging.rebuild.progress import Rebuild, is_planned_for, require_attempt
from app.staging.rebuild.touched_rows import clear_touched
from app.staging.tables.operations import END_EPOCH
from app.staging.tables.registry import find_table_by_id
from app.staging.tables.schema_versions import announce_version

SWITCH_TABLE = sa.text("""
    UPDATE mirrorgate.tables
    SET state = 'rebuilding', state_reason = NULL, drop_plan = CAST(:plan AS jsonb), folder_gone_at = NULL,
        generation = :generation, schema_version = :version, options = CAST(:options AS jsonb),
        column_stays = CAST(:stays AS jsonb), rebuild_due = false, revision = revision + 1
    WHERE table_id = :table_id""")
"""Make the rebuilt generation the current one."""

SWITCH_COUNTERS = sa.text("""
    UPDATE mirrorgate.table_counters c
    SET last_sequence = b.last, accepted_changes = b.changes, accepted_rows = b.rows, next_file_number = 1,
        recorded_file_number = 0, published_through = 0, flush_through = b.last
    FROM (
        SELECT coalesce(max(last_sequence), 0) AS last, coalesce(sum(change_count), 0) AS changes,
            coalesce(sum(row_count), 0) AS rows
        FROM mirrorgate.staged_blocks WHERE table_id = :table_id AND generation = :generation) b
    WHERE c.table_id = :table_id""")
"""Set the counters of a table to what the rebuilt generation has, and ask to publish it."""

COPY_POSITIONS = sa.text("""
    INSERT INTO mirrorgate.source_positions (table_id, generation, task, last_sequence)
    SELECT table_id, :generation, task, last_sequence FROM mirrorgate.source_positions
    WHERE table_id = :table_id AND generation = :generation - 1
    ON CONFLICT DO NOTHING""")
"""Keep the positions of the sources: they do not begin again."""

MARK_REPLACING = sa.text("UPDATE mirrorgate.rebuilds SET phase = :phase, detail = NULL WHERE table_id = :table_id")
"""Store that the rows are copied, whatever attempts failed before, and that the old folder is deleted next."""


@dataclass(frozen=True, slots=True)
class RefusedSwitch(Exception):
    """The rebuild cannot end well: what was found, and why."""

    findings: list[Finding]
    detail: str


def switch_generation(connection: sa.Connection, rebuild: Rebuild, parts: int, *, marker_first: bool) -> None:
    """Correct the last copies and make the rebuilt generation current.

    One transaction, under the lease and the sequence lock of the table: a process that dies before the commit leaves
    the present generation and an attempt that the next one replaces; after it, the old owner's plan is void, and the
    next owner deletes the old folder. Its COMMIT waits for the disk, and so for all parts. Raises AttemptIsOver, also
    if Postgres has died and lost one of the `parts`, RefusedSwitch if the table has changed or rows do not fit, and
    RejectedInput if the table is being dropped.
    """
    keys = {"table_id": rebuild.table_id}
    connection.execute(LOCK_LEASE, keys)
    lock_counters(connection, [rebuild.table_id])
    require_attempt(connection, rebuild)
    require_parts(connection, rebuild, parts)
    table = find_table_by_id(connection, rebuild.table_id)
    if table is None or not is_planned_for(connection, rebuild, table):
        raise RefusedSwitch([], "the table's columns, options or generation changed meanwhile; rebuild it again")
    if table.state.deletes_folder:
        raise RejectedInput(Code.WRONG_TABLE_STATE, f"table {table.name} is {table.state}")
    findings = correct_copies(connection, table, rebuild)
    if findings:
        raise RefusedSwitch(findings, "rows that changed meanwhile cannot be rebuilt")
    _begin_chain(connection, table, rebuild, marker_first=marker_first)
    generation_keys = {**keys, "generation": rebuild.next_generation}
    plan = DropPlan(DropAction.REBUILD, stays_paused=table.state is TableState.PAUSED)
    switched = {
        **generation_keys,
        "plan": json.dumps(plan.to_json()),
        "version": connection.execute(LAST_SEQUENCE, generation_keys).one().version,
        "options": json.dumps(rebuild.plan.options.to_stored()),
        "stays": json.dumps(_stays(table, rebuild)),
    }
    connection.execute(SWITCH_TABLE, switched)
    connection.execute(SWITCH_COUNTERS, generation_keys)
    connection.execute(COPY_POSITIONS, generation_keys)
    connection.execute(MARK_REPLACING, {**keys, "phase": RebuildPhase.REPLACING})
    clear_touched(connection, rebuild.table_id)
    connection.execute(END_EPOCH, keys)


def _begin_chain(connection: sa.Connection, table: Table, rebuild: Rebuild, *, marker_first: bool) -> None:
    """Begin the metadata chain of the generation with the schemas of its files."""
    generation, table_id = rebuild.next_generation, rebuild.table_id
    append_block(connection, table_id, generation, seed(str(table.name), generation, installation_id(connection)))
    keys = {"table_id": table_id, "generation": generation}
    versions = connection.execute(LAST_SEQUENCE, keys).one().version
    for schema in (rebuild.plan.schema, rebuild.plan.marked)[:versions]:
        announce_version(connection, table_id, generation, schema, marker_first=marker_first)


def _stays(table: Table, rebuild: Rebuild) -> dict[str, None]:
    """Return the columns that have left the source, by their new names; what the images lack of others has landed."""
    return {
        column.name: None
        for column, place in zip(rebuild.plan.schema.columns, rebuild.plan.places, strict=True)
        if table.schema.names[place] in table.left_columns
    }
