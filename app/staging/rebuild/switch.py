"""Correct the copied rows of a rebuild, then make the rebuilt generation of the table the current one.

`correct_copies` brings copied rows up to date with the batches that were staged after their snapshot. Invariant: a copy
has exactly the image that is noted for its key, or the present one if none is noted. So a correction knows under which
key the copy of a row is, whatever the row has become since.

`switch_generation` makes the generation current. From the commit on, changes are typed by the new schema and queue
behind the rebuilt rows. The table is `rebuilding` until the folder of the generation before is gone; then `finish_drop`
of `app.staging.tables.operations` makes it active, or paused as it was before.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import sqlalchemy as sa

from app.domain.arrow import encode_payload
from app.domain.model.change import Operation
from app.domain.model.table import BatchSequence, DropAction, DropPlan, Table, TableState
from app.domain.model.table_schema import SchemaVersion
from app.domain.publication import seed
from app.domain.rebuild import (
    AuditedRows,
    RebuildPhase,
    RebuiltRows,
    UnfitRows,
    deletes_of,
    projected_batch,
    rebuilt_rows,
)
from app.domain.rows.landing_projection import Acceptance
from app.domain.rows.row_image import StoredImage
from app.domain.rows.row_rules import RowMarker
from app.staging.batches.row_images import read_present_keys, write_row_images
from app.staging.batches.sequence_lock import lock_counters
from app.staging.batches.staged_blocks import NewBlock, insert_block
from app.staging.connection.database import installation_id
from app.staging.ledger.files import append_block
from app.staging.ledger.leases import LOCK_LEASE
from app.staging.rebuild.copies import require_parts
from app.staging.rebuild.progress import (
    Rebuild,
    TouchedRow,
    clear_touched,
    forget_touched,
    is_planned_for,
    read_touched,
    require_attempt,
)
from app.staging.tables.operations import COPY_POSITIONS, END_EPOCH
from app.staging.tables.registry import find_table_by_id
from app.staging.tables.schema_versions import announce_version, store_version
from mirrorgate.errors import Code, RejectedInput

LAST_SEQUENCE = sa.text("""
    SELECT coalesce(max(last_sequence), 0) AS sequence, coalesce(max(schema_version), 1) AS version
    FROM mirrorgate.staged_blocks WHERE table_id = :table_id AND generation = :generation""")
"""Read the last batch of a generation, and its newest schema version."""


def correct_copies(
    connection: sa.Connection, table: Table, rebuild: Rebuild, *, limit: int | None = None
) -> list[UnfitRows]:
    """Correct the copies of changed rows, at most `limit` of them, under the sequence lock; return what does not fit.

    The corrections are one batch of deletes and upserts after the copied rows. With findings nothing must be committed;
    a duplicate key is certain only without `limit`. A process that dies before the commit leaves copies and notes.
    """
    touched = read_touched(connection, table.table_id, rebuild.generation, limit=limit)
    changed = [row for row in touched if row.copied != row.present]
    if changed:
        findings = _correct(connection, table, rebuild, changed)
        if findings:
            return findings
    if touched:
        forget_touched(connection, table.table_id, [row.row_key for row in touched])
    return []


def _correct(
    connection: sa.Connection, table: Table, rebuild: Rebuild, changed: Sequence[TouchedRow]
) -> list[UnfitRows]:
    plan, width = rebuild.plan, len(table.schema.columns)
    before = rebuilt_rows([row.copied for row in changed if row.copied is not None], plan, width)
    after = rebuilt_rows(
        [row.present for row in changed if row.present is not None], plan, width, marker=RowMarker.UPSERT
    )
    if not isinstance(after, RebuiltRows):
        return after
    assert isinstance(before, RebuiltRows), "the copied rows have been converted before"
    next_generation, copied, present = rebuild.next_generation, before.keys.to_pylist(), after.keys.to_pylist()
    keys = set(present)
    gone = [at for at, key in enumerate(copied) if key not in keys]
    write_row_images(connection, table.table_id, next_generation, dict.fromkeys(copied))
    taken = read_present_keys(connection, table.table_id, next_generation, present)
    duplicates = len(present) - len(keys) + len(taken)
    if duplicates:
        return [UnfitRows(None, Code.KEY_IN_USE, duplicates, 1)]
    batch = pa.concat_batches([deletes_of(before, plan, gone), after.batch])
    operations = [Operation.DELETE] * len(gone) + [Operation.UPSERT] * len(present)
    audited = AuditedRows(operations, [True] * len(gone) + after.deleted)
    sequence = _stage(connection, table, rebuild, batch, audited)
    images = {key: StoredImage(image, sequence) for key, image in zip(present, after.images.to_pylist(), strict=True)}
    write_row_images(connection, table.table_id, next_generation, images)
    return []


def _stage(
    connection: sa.Connection, table: Table, rebuild: Rebuild, batch: pa.RecordBatch, audited: AuditedRows
) -> BatchSequence:
    """Stage the corrections under a schema version with the row marker; return their sequence."""
    plan = rebuild.plan
    keys = {"table_id": rebuild.table_id, "generation": rebuild.next_generation}
    last = connection.execute(LAST_SEQUENCE, keys).one()
    version = SchemaVersion(2 if plan.schema.bare else 1)
    if last.version < version:
        store_version(connection, rebuild.table_id, rebuild.next_generation, version, plan.marked)
    sequence = BatchSequence(last.sequence + 1)
    rebuilt, acceptance = plan.rebuilt(table), Acceptance(sequence, datetime.now(UTC))
    landing = projected_batch(batch, audited, rebuilt, acceptance) if rebuilt.is_projected else batch
    block = NewBlock(
        rebuild.table_id,
        rebuild.next_generation,
        version,
        sequence,
        [landing.num_rows],
        [batch.num_rows],
        *encode_payload([landing]),
        cdc_started=True,
    )
    insert_block(connection, block)
    return sequence


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

MOVE_LETTERS = sa.text("""
    UPDATE mirrorgate.dead_letters d SET generation = :generation
    FROM (SELECT letter_id FROM mirrorgate.dead_letters
        WHERE table_id = :table_id AND generation = :generation - 1 AND state = 'waiting'
        ORDER BY letter_id FOR UPDATE) waiting
    WHERE d.letter_id = waiting.letter_id""")
"""Keep the dead letters that wait: their messages are in no row image, and can be replayed by the new schema."""

MARK_REPLACING = sa.text("UPDATE mirrorgate.rebuilds SET phase = :phase, detail = NULL WHERE table_id = :table_id")
"""Store that the rows are copied, whatever attempts failed before, and that the old folder is deleted next."""


@dataclass
class RefusedSwitch(Exception):  # not frozen: `contextlib` sets the traceback of an exception
    """The rebuild cannot end well: what was found, and why."""

    findings: list[UnfitRows]
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
    connection.execute(MOVE_LETTERS, generation_keys)
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
