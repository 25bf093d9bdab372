"""Finishes a drop (R6): ends the table, starts its next generation (recreate, rename), or lets a rebuilt one publish.

Batches of the old generation without a recorded file are counted and discarded; they never land in the new generation.
After a rename the rows are staged again from the row images, if those are the rows that the table landed. Retention
deletes the images that no generation reads any more.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from app.domain.arrow import encode_payload
from app.domain.model.change import Change, Image, Operation
from app.domain.model.landing_schema import with_landing
from app.domain.model.table import (
    BatchSequence,
    DropAction,
    DropPlan,
    Epoch,
    Generation,
    Table,
    TableState,
    former_generation,
)
from app.domain.model.table_options import InitialLoad
from app.domain.model.table_schema import SchemaVersion, TableSchema
from app.domain.publication import seed
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.projection.landing_projection import Acceptance, landed, rows_of_block
from app.domain.rows.projection.row_facts import with_deleted
from app.domain.rows.row_image import decode_image, is_deleted
from app.domain.rows.row_rules import RowRules
from app.staging.batches.block_insert import NewBlock, stage_blocks
from app.staging.batches.row_images import move_row_images, scan_row_images
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.database import installation_id
from app.staging.ledger.files import append_block
from app.staging.ledger.leases import check_epoch
from app.staging.tables.events import COMPLETIONS, record_event
from app.staging.tables.registry import DELETE_SOURCES, find_table_by_id, set_sources
from app.staging.tables.schema_versions import insert_version

SELECT_UNPUBLISHED = sa.text("""
    SELECT coalesce(sum(cardinality(batch_rows)), 0)::bigint AS batches,
        coalesce(sum(row_count), 0)::bigint AS rows
    FROM mirrorgate.staged_blocks
    WHERE table_id = :table_id AND generation = :generation AND first_sequence > :published_through""")
"""Count the batches and rows of a generation that no file was recorded for."""

END_TABLE = sa.text("""
    UPDATE mirrorgate.tables SET state = 'dropped', state_reason = NULL, drop_plan = NULL, folder_gone_at = NULL,
        replicate_metadata = NULL
    WHERE table_id = :table_id""")
"""Mark a table as dropped."""

BEGIN_GENERATION = sa.text("""
    UPDATE mirrorgate.tables
    SET state = 'active', state_reason = NULL, drop_plan = NULL, folder_gone_at = NULL, generation = :generation,
        schema_version = 1, name = :name, folded_name = :folded_name, options = CAST(:options AS jsonb),
        column_stays = '{}', arcion_catalog = NULL, revision = revision + 1
    WHERE table_id = :table_id""")
"""Make a table active in its next generation, under its old or new name."""

END_REBUILDING = sa.text("""
    WITH ended AS (
        UPDATE mirrorgate.tables SET state = :state, state_reason = NULL, drop_plan = NULL, folder_gone_at = NULL
        WHERE table_id = :table_id)
    UPDATE mirrorgate.rebuilds SET phase = 'done', finished_at = clock_timestamp() WHERE table_id = :table_id
    RETURNING (SELECT coalesce(sum(row_count), 0)::bigint FROM mirrorgate.staged_blocks b
        WHERE b.table_id = :table_id AND b.generation = :generation)""")
"""Let a rebuilt table publish, unless it is paused, and return the rows that its new generation has so far."""

RESET_COUNTERS = sa.text("""
    UPDATE mirrorgate.table_counters
    SET last_sequence = 0, accepted_changes = 0, accepted_rows = 0, next_file_number = 1, recorded_file_number = 0,
        published_through = 0, flush_through = 0, cdc_started = false,
        operation_count = NULL, counted_changes = 0, missing_changes = 0
    WHERE table_id = :table_id""")
"""Reset the counters of a table for its next generation."""

ROWS_PER_BLOCK: Final = 20_000
"""Row images that become one staged block of the next generation."""


@dataclass(frozen=True, slots=True)
class FinishedDrop:
    """The discarded batches of the old generation, and how many rows the new one begins with."""

    generation: int
    discarded_batches: int
    discarded_rows: int
    landed_again: int


def finish_drop(connection: sa.Connection, table: Table, epoch: Epoch, *, marker_first: bool) -> FinishedDrop:
    """Carry out the drop plan, now that nothing of the old folder is left (R6).

    One transaction: a process that dies before its commit leaves a dropping table without a folder, and the next owner
    does all of it. Raises InvariantBroken `stale_epoch`.
    """
    check_epoch(connection, table.table_id, epoch)
    counters = lock_counters(connection, [table.table_id])[table.table_id]
    plan = table.drop_plan
    assert plan is not None
    keys = {"table_id": table.table_id, "generation": table.generation}
    if plan.action is DropAction.REBUILD:
        return _finish_rebuild(connection, table, plan)
    unpublished = connection.execute(
        SELECT_UNPUBLISHED, {**keys, "published_through": counters.published_through}
    ).one()
    landed_again = 0
    if plan.action is DropAction.DROP:
        connection.execute(END_TABLE, keys)
        connection.execute(DELETE_SOURCES, keys)
    else:
        renewed = _begin_generation(connection, table, plan, marker_first=marker_first)
        if plan.action is DropAction.RENAME and table.can_land_again:
            landed_again = _stage_from_images(connection, table.generation, renewed)
    finished = FinishedDrop(table.generation, unpublished.batches, unpublished.rows, landed_again)
    record_event(connection, table, "drain", COMPLETIONS[plan.action], details=asdict(finished))
    return finished


def _finish_rebuild(connection: sa.Connection, table: Table, plan: DropPlan) -> FinishedDrop:
    """Let the rebuilt generation publish, or wait for the end of a pause from before the rebuild.

    Nothing was discarded: the row images had every accepted change.
    """
    ended = former_generation(table)
    state = TableState.PAUSED if plan.stays_paused else TableState.ACTIVE
    keys = {"table_id": table.table_id, "generation": table.generation, "state": state}
    rows = connection.execute(END_REBUILDING, keys).scalar_one()
    finished = FinishedDrop(ended.generation, 0, 0, rows)
    record_event(connection, ended, "drain", COMPLETIONS[DropAction.REBUILD], details=asdict(finished))
    return finished


def _begin_generation(connection: sa.Connection, table: Table, plan: DropPlan, *, marker_first: bool) -> Table:
    """Start the next generation: counters, options, routes, metadata chain and schema version 1."""
    name = plan.new_name or table.name
    options = plan.options or table.options
    schema = replace(plan.schema or table.schema, bare=options.initial_load is InitialLoad.WITHOUT_MARKER)
    generation = Generation(table.generation + 1)
    parameters = {
        "table_id": table.table_id,
        "name": str(name),
        "folded_name": name.folded,
        "generation": generation,
        "options": json.dumps(options.to_stored()),
    }
    connection.execute(DELETE_SOURCES, parameters)
    connection.execute(BEGIN_GENERATION, parameters)
    connection.execute(RESET_COUNTERS, parameters)
    set_sources(connection, table.table_id, name, options)
    append_block(connection, table.table_id, generation, seed(str(name), generation, installation_id(connection)))
    first = with_landing(schema, options)
    insert_version(connection, table.table_id, generation, SchemaVersion(1), first, marker_first=marker_first)
    renewed = find_table_by_id(connection, table.table_id)
    assert renewed is not None
    return renewed


def _stage_from_images(connection: sa.Connection, old: Generation, table: Table) -> int:
    """Stage the rows of the old generation's images as snapshot rows, and keep the images; return how many."""
    total = 0
    rules, staged_at = RowRules(table.schema, table.options, from_images=True), datetime.now(UTC)
    limit = rows_of_block(rules, ROWS_PER_BLOCK)
    for sequence, chunk in enumerate(scan_row_images(connection, table.table_id, old, limit), start=1):
        first = BatchSequence(sequence)
        rows = landing_rows(list(_snapshots(chunk, table.schema)), rules)
        if table.options.flags_deletes:
            rows = replace(rows, batch=with_deleted(rows.batch, [*map(is_deleted, chunk.values())]))
        rows = landed(rows, table, Acceptance(first, staged_at))
        payload = encode_payload([rows.batch])
        life = (table.table_id, table.generation, table.schema_version)
        block = NewBlock(*life, first, [rows.rows], [rows.changes], *payload, cdc_started=False)
        stage_blocks(connection, [block])
        move_row_images(connection, table.table_id, old, table.generation, list(chunk), first)
        total += rows.rows
    return total


def _snapshots(images: dict[bytes, bytes], schema: TableSchema) -> Iterator[Change]:
    for index, image in enumerate(images.values()):
        after: Image = {schema.names[place]: value for place, value in decode_image(image).items()}
        yield Change(index, Operation.SNAPSHOT, None, after, "", "")
