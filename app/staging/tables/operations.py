"""Operations that operators ask of a table: drop, recreate, rename, pause, resume, flush, repair, release.

Each one names the generation that it means, so a repeated command cannot hit the next generation. It runs under the
table's sequence lock and leaves an event.

A drop only begins here (R1): the table's owner deletes the folder, and then `finish_drop` ends the table, starts its
next generation (recreate, rename), or lets a rebuilt one publish (R6). Batches of the old generation without a recorded
file are counted and discarded; they never land in the new generation. After a rename the rows are staged again from the
row images, if those are the rows that the table landed. Retention deletes the images that no generation reads any more.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from app.domain.arrow import encode_payload
from app.domain.model.change import Change, Image, Operation
from app.domain.model.names import TableName, check_new_table_name, unknown_table
from app.domain.model.table import (
    BatchSequence,
    DropAction,
    DropPlan,
    Epoch,
    FileNumber,
    Generation,
    Table,
    TableId,
    TableState,
    former_generation,
    with_landing,
)
from app.domain.model.table_options import InitialLoad
from app.domain.model.table_schema import SchemaVersion, TableSchema, check_new_columns
from app.domain.publication import seed
from app.domain.rows.landing_projection import Acceptance, check_values, landed, rows_of_block
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_facts import with_deleted
from app.domain.rows.row_image import decode_image, is_deleted
from app.domain.rows.row_rules import RowRules
from app.staging.batches.row_images import move_row_images, scan_row_images
from app.staging.batches.sequence_lock import Counters, lock_counters
from app.staging.batches.staged_blocks import NewBlock, stage_blocks
from app.staging.connection.database import installation_id
from app.staging.ledger.files import append_block
from app.staging.ledger.leases import LOCK_LEASE, check_epoch
from app.staging.tables.events import COMPLETIONS, record_event
from app.staging.tables.registry import (
    DELETE_SOURCES,
    INSERT_SOURCE,
    find_table,
    find_table_by_id,
    find_table_id,
    lock_routing,
    set_sources,
)
from app.staging.tables.schema_versions import insert_version
from mirrorgate.errors import Code, RejectedInput

BEGIN_DROP = sa.text("""
    UPDATE mirrorgate.tables SET state = 'dropping', state_reason = NULL, drop_plan = CAST(:plan AS jsonb)
    WHERE table_id = :table_id""")
"""Set a table to dropping, and store what follows."""

END_EPOCH = sa.text("UPDATE mirrorgate.table_leases SET epoch = epoch + 1 WHERE table_id = :table_id")
"""End the epoch of a table's owner."""

SET_STATE = sa.text("""
    UPDATE mirrorgate.tables SET state = :state, state_reason = NULL WHERE table_id = :table_id""")
"""Set the state of a table."""

REQUEST_FLUSH = sa.text("""
    UPDATE mirrorgate.table_counters SET flush_through = last_sequence WHERE table_id = :table_id""")
"""Ask to publish everything that a table has accepted so far."""

REQUEST_REPAIR = sa.text("""
    UPDATE mirrorgate.landing_files f SET repair_requested = true
    WHERE table_id = :table_id AND generation = :generation AND number = :number AND state = 'published'
      AND f.row_count = (
        SELECT coalesce(sum(b.row_count), 0) FROM mirrorgate.staged_blocks b
        JOIN mirrorgate.block_payloads p USING (table_id, generation, first_sequence)
        WHERE p.bucket >= b.bucket
          AND b.table_id = f.table_id AND b.generation = f.generation
          AND b.first_sequence BETWEEN f.first_sequence AND f.last_sequence)""")
"""Ask to write a published file again, if all its payloads are kept; a seed file has none."""

SELECT_PUBLISHED = sa.text("""
    SELECT FROM mirrorgate.landing_files
    WHERE table_id = :table_id AND generation = :generation AND number = :number AND state = 'published'
    UNION ALL
    SELECT FROM mirrorgate.purged_totals
    WHERE table_id = :table_id AND generation = :generation AND :number BETWEEN 1 AND files""")
"""Return True if a file number is published, including purged ones."""


def begin_drop(
    connection: sa.Connection,
    name: TableName,
    generation: Generation,
    plan: DropPlan,
    actor: str,
    *,
    given: Collection[str] | None = None,
) -> Table:
    """Begin a drop (R1): reject changes from now on, end the owner's epoch, and store what follows.

    Repeating it changes nothing. If `given` names options, the plan takes the others from the table. A process that
    dies before the commit leaves the table as it was; after it, the next owner carries out the plan. Raises
    RejectedInput `unknown_table`, `generation_mismatch`, `wrong_table_state`, `bad_name` or `bad_option`.
    """
    if plan.new_name is not None or plan.options is not None:
        lock_routing(connection)  # before the locks of tables, as a registration takes them
    table = locked_table(connection, name, generation, with_lease=True)
    if plan.options is not None and given is not None:
        plan = replace(plan, options=plan.options.over(table.options, given))
    options = plan.options or table.options
    if plan.schema is not None:
        schema = options.declared(plan.schema)
        check_new_columns(column for column in schema.columns if column.name not in table.schema.names)
        plan = replace(plan, schema=schema)
    if table.state is TableState.DROPPING:
        if table.drop_plan == plan:
            return table
        raise RejectedInput(Code.WRONG_TABLE_STATE, f"table {table.name} is already being dropped")
    if table.rebuild_due or table.state is TableState.REBUILDING:
        raise RejectedInput(Code.WRONG_TABLE_STATE, f"table {table.name} is being rebuilt")
    options.check(plan.schema or table.schema)
    check_values(options, plan.schema or table.schema)
    keys = {"table_id": table.table_id}
    if plan.new_name is not None:
        check_new_table_name(plan.new_name)
        reserved = connection.execute(INSERT_SOURCE, keys | {"folded_source": plan.new_name.folded}).rowcount
        if not reserved or find_table_id(connection, plan.new_name) is not None:
            raise RejectedInput(Code.BAD_NAME, f"the name {plan.new_name} is taken")
    if options.sources != table.options.sources:
        set_sources(connection, table.table_id, name, options)
    plan = replace(plan, stays_paused=table.state is TableState.PAUSED)
    connection.execute(BEGIN_DROP, {**keys, "plan": json.dumps(plan.to_json())})
    connection.execute(END_EPOCH, keys)
    record_event(connection, table, actor, plan.action, details=plan.to_json())
    return replace(table, state=TableState.DROPPING, drop_plan=plan)


def set_publishing(
    connection: sa.Connection, name: TableName, generation: Generation, state: TableState, actor: str
) -> Table:
    """Pause or resume publishing; the table still accepts changes. Repeating it changes nothing.

    Raises RejectedInput `unknown_table`, `generation_mismatch` or `wrong_table_state`.
    """
    table = locked_table(connection, name, generation)
    if table.state is state:
        return table
    if table.state not in (TableState.ACTIVE, TableState.PAUSED):
        raise _wrong_state(table)
    connection.execute(SET_STATE, {"table_id": table.table_id, "state": state})
    record_event(connection, table, actor, "pause" if state is TableState.PAUSED else "resume")
    return replace(table, state=state)


def request_flush(connection: sa.Connection, name: TableName, generation: Generation, actor: str) -> Table:
    """Ask to publish what is accepted so far, without waiting for a full or an old enough file.

    Raises RejectedInput `unknown_table`, `generation_mismatch` or `wrong_table_state`.
    """
    table = locked_table(connection, name, generation)
    if not table.state.accepts_changes:
        raise _wrong_state(table)
    connection.execute(REQUEST_FLUSH, {"table_id": table.table_id})
    record_event(connection, table, actor, "flush")
    return table


def request_repair(
    connection: sa.Connection, name: TableName, generation: Generation, number: FileNumber, actor: str
) -> Table:
    """Ask to write a published file again under its own number, from its payloads.

    Raises RejectedInput as `request_flush`, `unknown_file`, or `payloads_purged` if the payloads are no longer kept.
    """
    table = locked_table(connection, name, generation)
    if not table.state.accepts_changes:
        raise _wrong_state(table)
    keys = {"table_id": table.table_id, "generation": generation, "number": number}
    if connection.execute(SELECT_PUBLISHED, keys).first() is None:
        raise RejectedInput(Code.UNKNOWN_FILE, f"generation {generation} has no published file {number}")
    if connection.execute(REQUEST_REPAIR, keys).rowcount == 0:
        raise RejectedInput(Code.PAYLOADS_PURGED, f"the payloads of file {number} are no longer kept")
    record_event(connection, table, actor, "repair", details={"number": number})
    return table


def locked_table(
    connection: sa.Connection, name: TableName, generation: Generation, *, with_lease: bool = False
) -> Table:
    """Return the live table of this generation, as `locked_with_counters` does.

    Raises RejectedInput `unknown_table` or `generation_mismatch`.
    """
    table, _ = locked_with_counters(connection, name, with_lease=with_lease)
    if table.generation != generation:
        detail = f"table {table.name} is in generation {table.generation}, not {generation}"
        raise RejectedInput(Code.GENERATION_MISMATCH, detail)
    return table


def locked_with_counters(
    connection: sa.Connection, name: TableName, *, with_lease: bool = False
) -> tuple[Table, Counters]:
    """Return the live table under its sequence lock, and with its lease locked before that, as the drain locks them.

    Raises RejectedInput `unknown_table`.
    """
    table_id = find_table_id(connection, name)
    if table_id is None:
        raise unknown_table(name)
    if with_lease:
        connection.execute(LOCK_LEASE, {"table_id": table_id})
    counters = lock_counters(connection, [table_id])
    table = find_table(connection, name)
    if table is None or table.table_id != table_id:  # dropped before the lock, and perhaps registered again
        raise unknown_table(name)
    return table, counters[table_id]


def _wrong_state(table: Table) -> RejectedInput:
    return RejectedInput(Code.WRONG_TABLE_STATE, f"table {table.name} is {table.state}")


RELEASE = sa.text("""
    UPDATE mirrorgate.tables SET state = 'active', state_reason = NULL, rewrite_marker = :rewrite_marker
    WHERE table_id = :table_id AND state = 'quarantined'""")
"""Make a quarantined table active, and ask for a new marker or not."""

SELECT_REWRITE = sa.text("SELECT rewrite_marker FROM mirrorgate.tables WHERE table_id = :table_id")
"""Return True if an operator asked for a new marker."""

END_REWRITE = sa.text("UPDATE mirrorgate.tables SET rewrite_marker = false WHERE table_id = :table_id")
"""End the request for a new marker."""


def release(
    connection: sa.Connection,
    name: TableName,
    generation: Generation,
    actor: str,
    reason: str,
    *,
    rewrite_marker: bool = False,
) -> Table:
    """Let a quarantined table publish again, after an operator has decided.

    With `rewrite_marker` the next owner first writes `_gateway.json` again, if the ledger's files prove that the folder
    is the table's. Raises RejectedInput `unknown_table`, `generation_mismatch` or `wrong_table_state`.
    """
    table = locked_table(connection, name, generation)
    released = {"table_id": table.table_id, "rewrite_marker": rewrite_marker}
    if table.state is not TableState.QUARANTINED or connection.execute(RELEASE, released).rowcount == 0:
        raise _wrong_state(table)
    details = {"rewrite_marker": True} if rewrite_marker else {}
    record_event(connection, table, actor, "release", reason, details=details)
    return replace(table, state=TableState.ACTIVE)


def is_marker_to_be_rewritten(connection: sa.Connection, table_id: TableId) -> bool:
    """Return True if an operator asked for a new `_gateway.json`."""
    return bool(connection.execute(SELECT_REWRITE, {"table_id": table_id}).scalar())


def end_marker_rewrite(connection: sa.Connection, table_id: TableId, epoch: Epoch) -> None:
    """End the request for a new marker, which is carried out or was rejected.

    A process that dies before the commit leaves the request to the next owner. Raises InvariantBroken `stale_epoch`.
    """
    check_epoch(connection, table_id, epoch)
    connection.execute(END_REWRITE, {"table_id": table_id})


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
    SET state = :state, state_reason = NULL, drop_plan = NULL, folder_gone_at = NULL, generation = :generation,
        schema_version = 1, name = :name, folded_name = :folded_name, options = CAST(:options AS jsonb),
        column_stays = CAST(:stays AS jsonb), arcion_catalog = NULL, revision = revision + 1
    WHERE table_id = :table_id""")
"""Begin a table's next generation, under its old or new name."""

SET_COLUMN_STAYS = sa.text("""
    UPDATE mirrorgate.tables SET column_stays = CAST(:stays AS jsonb), revision = revision + 1
    WHERE table_id = :table_id""")
"""Store which columns have left the source, and which ones older rows lack."""

COPY_POSITIONS = sa.text("""
    INSERT INTO mirrorgate.source_positions (table_id, generation, task, last_position, last_rows, newest_at)
    SELECT table_id, :generation, task, last_position, last_rows, newest_at FROM mirrorgate.source_positions
    WHERE table_id = :table_id AND generation = :generation - 1
    ON CONFLICT DO NOTHING""")
"""Keep the positions of the sources: they do not begin again where the rows land again."""

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
    unpublished = connection.execute(SELECT_UNPUBLISHED, keys | {"published_through": counters.published_through}).one()
    landed_again = 0
    if plan.action is DropAction.DROP:
        connection.execute(END_TABLE, keys)
        connection.execute(DELETE_SOURCES, keys)
    else:
        renewed = _begin_generation(connection, table, plan, marker_first=marker_first)
        if plan.action is DropAction.RENAME and table.can_land_again:
            landed_again = _stage_from_images(connection, table, renewed)
    finished = FinishedDrop(table.generation, unpublished.batches, unpublished.rows, landed_again)
    record_event(connection, table, "drain", COMPLETIONS[plan.action], details=asdict(finished))
    return finished


def _finish_rebuild(connection: sa.Connection, table: Table, plan: DropPlan) -> FinishedDrop:
    """Let the rebuilt generation publish, or wait for the end of a pause from before the rebuild.

    Nothing was discarded: the row images had every accepted change.
    """
    ended = former_generation(table)
    keys = {"table_id": table.table_id, "generation": table.generation, "state": plan.next_state}
    finished = FinishedDrop(ended.generation, 0, 0, connection.execute(END_REBUILDING, keys).scalar_one())
    record_event(connection, ended, "drain", COMPLETIONS[DropAction.REBUILD], details=asdict(finished))
    return finished


def _begin_generation(connection: sa.Connection, table: Table, plan: DropPlan, *, marker_first: bool) -> Table:
    """Start the next generation: counters, options, routes, metadata chain and schema version 1."""
    name = plan.new_name or table.name
    options = plan.options or table.options
    schema = replace(plan.schema or table.schema, bare=options.initial_load is InitialLoad.WITHOUT_MARKER)
    generation = Generation(table.generation + 1)
    left = table.left_columns.difference(set(table.options.exclude).difference(options.exclude))
    parameters = {
        "table_id": table.table_id,
        "name": str(name),
        "folded_name": name.folded,
        "generation": generation,
        "state": plan.next_state,
        "options": json.dumps(options.to_stored()),
        "stays": json.dumps({} if plan.schema else dict.fromkeys(left)),
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


def _stage_from_images(connection: sa.Connection, before: Table, table: Table) -> int:
    """Stage the rows of the former generation's images as snapshot rows; return how many.

    Keep the images, what they lack, and the source positions that they are of.
    """
    total = sequence = 0
    rules, staged_at = RowRules(table.schema, table.options, from_images=True), datetime.now(UTC)
    limit = rows_of_block(rules, ROWS_PER_BLOCK)
    for sequence, chunk in enumerate(scan_row_images(connection, table.table_id, before.generation, limit), start=1):
        first = BatchSequence(sequence)
        rows = landing_rows(list(_snapshots(chunk, table.schema)), rules)
        if table.options.flags_deletes:
            rows = replace(rows, batch=with_deleted(rows.batch, [*map(is_deleted, chunk.values())]))
        rows = landed(rows, table, Acceptance(first, staged_at))
        payload = encode_payload([rows.batch])
        life = (table.table_id, table.generation, table.schema_version)
        block = NewBlock(*life, first, [rows.rows], [rows.changes], *payload, cdc_started=before.cdc_started)
        stage_blocks(connection, [block])
        move_row_images(connection, table.table_id, before.generation, table.generation, list(chunk), first)
        total += rows.rows
    keys = {"table_id": table.table_id, "generation": table.generation}
    connection.execute(COPY_POSITIONS, keys)
    if before.late_columns and sequence:
        stays = {**dict.fromkeys(table.left_columns), **dict.fromkeys(before.late_columns, sequence)}
        connection.execute(SET_COLUMN_STAYS, {**keys, "stays": json.dumps(stays)})
    return total


def _snapshots(images: dict[bytes, bytes], schema: TableSchema) -> Iterator[Change]:
    for index, image in enumerate(images.values()):
        after: Image = {schema.names[place]: value for place, value in decode_image(image).items()}
        yield Change(index, Operation.SNAPSHOT, None, after, "", "")
