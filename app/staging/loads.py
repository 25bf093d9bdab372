"""Load sessions in Postgres: begin, end and read them, and find the rows that completing one deletes.

The database lets a table have one open session. Every transition happens under the sequence lock of the table, so that
each staged batch is before or after it. What a request with rows of a load stages is decided in
`app.staging.batches.load_transaction`.

Completing a full load deletes the rows whose image no batch wrote since the load began. Images are read without a lock,
in the order of their keys; the sequence lock decides again when the deletes are staged. No image with an older sequence
can appear behind the scan, because the stream and the load write newer ones.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from app.domain.loads import LoadId, LoadSession, LoadState, is_repeated_abort, is_repeated_completion, unknown_load
from app.domain.model.change import Change, Operation
from app.domain.model.names import TableName
from app.domain.model.table import Table, TableId
from app.domain.rows.landing_projection import rows_of_block
from app.domain.rows.landing_rows import LandingRows, landing_rows
from app.domain.rows.row_image import decode_image, is_deleted
from app.domain.rows.row_rules import RowRules
from app.observability.api_metrics import ENDED_LOADS
from app.staging.batches.load_transaction import find_loads
from app.staging.batches.row_images import read_row_images
from app.staging.batches.sequence_lock import lock_counters
from app.staging.tables.events import record_event
from app.staging.tables.operations import SET_COLUMN_STAYS, locked_with_counters
from app.staging.tables.registry import find_table_by_id
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import LoadMode

MAX_LISTED_LOADS: Final = 100
"""Newest load sessions of a table that are listed."""

INSERT_LOAD = sa.text("""
    WITH new AS (
        INSERT INTO mirrorgate.loads
            (load_id, table_id, generation, mode, begin_sequence, idle_seconds, started_by, expires_at)
        VALUES (CAST(:load_id AS uuid), :table_id, :generation, :mode, :begin_sequence, :idle_seconds, :started_by,
            clock_timestamp() + make_interval(secs => :idle_seconds))
        ON CONFLICT DO NOTHING RETURNING load_id)
    UPDATE mirrorgate.table_counters SET open_load = new.load_id FROM new WHERE table_id = :table_id""")
"""Store a new load session unless its id is used, and tell the requests of the stream about it."""

BEGIN_COMPLETION = sa.text("""
    UPDATE mirrorgate.loads
    SET state = 'completing', expires_at = clock_timestamp() + make_interval(secs => idle_seconds)
    WHERE load_id = CAST(:load_id AS uuid)""")
"""Let a load session take no more rows."""

END_LOAD = sa.text("""
    WITH cleared AS (
        UPDATE mirrorgate.table_counters SET open_load = NULL,
            missing_changes = CASE WHEN :state = 'completed' AND EXISTS (
                SELECT FROM mirrorgate.loads WHERE load_id = CAST(:load_id AS uuid) AND mode = 'full')
            THEN 0 ELSE missing_changes END
        WHERE table_id = :table_id AND open_load = CAST(:load_id AS uuid)),
    batches AS (DELETE FROM mirrorgate.load_batches WHERE load_id = CAST(:load_id AS uuid)),
    deletes AS (DELETE FROM mirrorgate.load_deletes WHERE load_id = CAST(:load_id AS uuid))
    UPDATE mirrorgate.loads SET state = :state, ended_at = clock_timestamp()
    WHERE load_id = CAST(:load_id AS uuid) AND ended_at IS NULL""")
"""End a load session, and delete what was kept for it. After a full load, no change is missing."""

SELECT_STORED_OPEN = sa.text("""
    SELECT CAST(load_id AS text) FROM mirrorgate.loads
    WHERE state IN ('open', 'completing')
      AND (CAST(:table_ids AS bigint[]) IS NULL OR table_id = ANY(CAST(:table_ids AS bigint[])))""")
"""List the load sessions that are stored as open, of some tables or of all."""

PURGE_LOADS = sa.text("""
    DELETE FROM mirrorgate.loads WHERE load_id IN (
        SELECT load_id FROM mirrorgate.loads
        WHERE ended_at < clock_timestamp() - make_interval(secs => :seconds) LIMIT :limit)""")
"""Delete load sessions that ended long ago."""

SELECT_OF_TABLE = sa.text("""
    SELECT CAST(load_id AS text) FROM mirrorgate.loads WHERE table_id = :table_id
    ORDER BY started_at DESC, load_id LIMIT :limit""")
"""List the newest load sessions of a table."""


def begin_load(
    connection: sa.Connection, name: TableName, load_id: LoadId, mode: LoadMode, idle_seconds: float, started_by: str
) -> tuple[LoadSession, bool]:
    """Begin a load session; return it, and False if the same request began it before.

    Dying before COMMIT leaves no session; a caller that chose the id can repeat the request. Raises RejectedInput
    `unknown_table`, `table_not_accepting`, `wrong_table_state` while a rebuild reads the row images, `no_row_images`,
    `delete_needs_marker`, `load_open`, or `load_ended` for an id that was used.
    """
    table, counters = locked_with_counters(connection, name)
    known = next(iter(find_loads(connection, [load_id])), None)
    if known is not None:
        if known.state.has_ended or (known.table_id, known.mode) != (table.table_id, mode):
            raise RejectedInput(Code.LOAD_ENDED, f"the id {load_id} was used for another load")
        return known, False
    if not table.state.accepts_changes:
        raise RejectedInput(Code.TABLE_NOT_ACCEPTING, f"table {table.name} is {table.state}")
    if table.rebuild_due:
        raise RejectedInput(Code.WRONG_TABLE_STATE, f"table {table.name} is being rebuilt, or checked for a rebuild")
    if mode is LoadMode.FULL and table.options.upserts_only:
        raise RejectedInput(Code.DELETE_NEEDS_MARKER, "a full load deletes the rows that it does not have")
    table.require_images()
    for other in _stored_open(connection, [table.table_id]):
        if not other.state.has_ended:
            raise RejectedInput(Code.LOAD_OPEN, f"the table has the open load {other.load_id}")
        _end(connection, table, other, other.state, started_by)
    new = {"load_id": load_id, "table_id": table.table_id, "generation": table.generation, "mode": mode}
    begun_at = {"begin_sequence": counters.last_sequence + 1, "idle_seconds": idle_seconds, "started_by": started_by}
    if connection.execute(INSERT_LOAD, new | begun_at).rowcount == 0:  # another table got the id at the same time
        raise RejectedInput(Code.LOAD_ENDED, f"the id {load_id} was used for another load")
    record_event(connection, table, started_by, "load begun", details={"load": load_id, "mode": mode})
    [begun] = find_loads(connection, [load_id])
    return begun, True


def begin_completion(connection: sa.Connection, name: TableName, load_id: LoadId, actor: str) -> LoadSession:
    """Take no more rows of a load, and return it; an append is completed with that. Repeating it changes nothing.

    Dying before COMMIT leaves the load open; after it, a full load remains `completing` until `finish_completion`.
    Raises RejectedInput `unknown_table`, `unknown_load`, `load_ended` or `no_row_images`.
    """
    table, _ = locked_with_counters(connection, name)
    load = get_load(connection, table, load_id)
    if is_repeated_completion(load):
        return load
    if load.mode is LoadMode.APPEND:
        return _end(connection, table, load, LoadState.COMPLETED, actor)
    table.require_images()
    connection.execute(BEGIN_COMPLETION, {"load_id": load_id})
    [completing] = find_loads(connection, [load_id])
    return completing


def finish_completion(connection: sa.Connection, name: TableName, load_id: LoadId, actor: str) -> LoadSession:
    """Complete a load of which no unseen row is left. Dying before COMMIT leaves it `completing`.

    Raises RejectedInput like `begin_completion`.
    """
    table, _ = locked_with_counters(connection, name)
    load = get_load(connection, table, load_id)
    if is_repeated_completion(load):
        return load
    table.require_images()
    return _end(connection, table, load, LoadState.COMPLETED, actor)


def abort_load(connection: sa.Connection, name: TableName, load_id: LoadId, actor: str) -> LoadSession:
    """End a load without deletes; what it landed remains. Repeating it changes nothing.

    Dying before COMMIT leaves the load open. Raises RejectedInput `unknown_table`, `unknown_load`, or `load_ended` for
    a completed load.
    """
    table, _ = locked_with_counters(connection, name)
    load = get_load(connection, table, load_id)
    return load if is_repeated_abort(load) else _end(connection, table, load, LoadState.ABORTED, actor)


def get_load(connection: sa.Connection, table: Table, load_id: LoadId) -> LoadSession:
    """Return a load session of a table. Raises RejectedInput `unknown_load`."""
    load = next(iter(find_loads(connection, [load_id])), None)
    if load is None or load.table_id != table.table_id:
        raise unknown_load(load_id)
    return load


def list_loads(connection: sa.Connection, table: Table) -> list[LoadSession]:
    """Return the newest load sessions of a table, the newest first."""
    parameters = {"table_id": table.table_id, "limit": MAX_LISTED_LOADS}
    ids = [LoadId(load_id) for (load_id,) in connection.execute(SELECT_OF_TABLE, parameters)]
    found = {load.load_id: load for load in find_loads(connection, ids)}
    return [found[load_id] for load_id in ids if load_id in found]


def open_loads(connection: sa.Connection, table_ids: Collection[TableId]) -> Mapping[TableId, LoadSession]:
    """Return the open load sessions of these tables."""
    return {load.table_id: load for load in _stored_open(connection, table_ids) if not load.state.has_ended}


def end_stale_loads(connection: sa.Connection) -> int:
    """End one load session that has expired or lost its generation; return 1, or 0 if there is none.

    Dying before COMMIT leaves it for the next round; requests treat it as ended anyway.
    """
    for stale in _stored_open(connection, None):
        if stale.state.has_ended:
            lock_counters(connection, [stale.table_id])
            [present] = find_loads(connection, [stale.load_id])
            if present.ended_at is not None or not present.state.has_ended:
                continue  # a request has used it, or a caller has aborted it, before the lock was granted
            _store_end(connection, find_table_by_id(connection, stale.table_id), present, present.state, "drain")
            return 1
    return 0


def _stored_open(connection: sa.Connection, table_ids: Collection[TableId] | None) -> list[LoadSession]:
    """Return the load sessions that are stored as open, as they are now; of all tables for None."""
    parameters = {"table_ids": None if table_ids is None else list(table_ids)}
    stored = [LoadId(load_id) for (load_id,) in connection.execute(SELECT_STORED_OPEN, parameters)]
    return find_loads(connection, stored) if stored else []


def _end(connection: sa.Connection, table: Table, load: LoadSession, state: LoadState, actor: str) -> LoadSession:
    """End a load by a request, under the sequence lock of its table.

    The metric counts it before COMMIT, so a COMMIT that fails is counted too.
    """
    ENDED_LOADS.labels(state).inc()
    if state is LoadState.COMPLETED and load.mode is LoadMode.FULL:
        _give_columns(connection, table, load)
    return _store_end(connection, table, load, state, actor)


def _give_columns(connection: sa.Connection, table: Table, load: LoadSession) -> None:
    """Record that rows have the columns that rows from before the load lacked: each row is of it, or newer."""
    lacked = {name: since for name, since in table.late_columns.items() if since >= load.begin_sequence}
    if len(lacked) < len(table.late_columns):
        stays = json.dumps({**dict.fromkeys(table.left_columns), **lacked})
        connection.execute(SET_COLUMN_STAYS, {"table_id": table.table_id, "stays": stays})


def _store_end(
    connection: sa.Connection, table: Table | None, load: LoadSession, state: LoadState, actor: str
) -> LoadSession:
    """End a load under the sequence lock of its table; the event of a dropped table is left out."""
    connection.execute(END_LOAD, {"table_id": load.table_id, "load_id": load.load_id, "state": state})
    [over] = find_loads(connection, [load.load_id])
    counts = {"rows": over.rows, "superseded": over.superseded, "deletes": over.deletes}
    if table is not None:
        record_event(connection, table, actor, f"load {state}", details={"load": load.load_id, **counts})
    return over


KEYS_PER_PAGE: Final = 20_000
"""Row images that one query looks at."""

DELETES_PER_BATCH: Final = 2_000
"""Rows that one batch deletes at most."""

SELECT_PAGE = sa.text("""
    SELECT row_key, sequence < :begin_sequence FROM mirrorgate.row_images
    WHERE table_id = :table_id AND generation = :generation
      AND (CAST(:after AS bytea) IS NULL OR row_key > :after) ORDER BY row_key LIMIT :limit""")
"""Read the next row keys of a generation, and tell which images are older than a load."""

NOTE_SCANNED = sa.text("""
    UPDATE mirrorgate.loads
    SET scanned_through = :scanned_through, expires_at = clock_timestamp() + make_interval(secs => idle_seconds)
    WHERE load_id = CAST(:load_id AS uuid) AND state = 'completing'""")
"""Store how far completing a load has looked at row images."""


@dataclass(frozen=True, slots=True)
class UnseenPage:
    """A part of the rows to delete, and how far the scan came with it."""

    rows: LandingRows | None
    """None if every row of this part was seen."""
    scanned_through: bytes | None
    """The last row key that was looked at; None at the end."""


def next_unseen(connection: sa.Connection, table: Table, load: LoadSession, *, keys: int = KEYS_PER_PAGE) -> UnseenPage:
    """Return the deletes of the next rows that were not seen, looking at this many row images at most."""
    after = load.scanned_through
    parameters = {"table_id": table.table_id, "generation": table.generation, "after": after, "limit": keys}
    page = connection.execute(SELECT_PAGE, parameters | {"begin_sequence": load.begin_sequence}).all()
    unseen = [bytes(key) for key, is_unseen in page if is_unseen]
    most = rows_of_block(RowRules.of(table), DELETES_PER_BATCH)
    if len(unseen) > most:
        unseen = unseen[:most]
        through: bytes | None = unseen[-1]
    else:
        through = bytes(page[-1][0]) if page else None
    if not unseen:
        return UnseenPage(None, through)
    found = read_row_images(connection, table.table_id, table.generation, unseen)
    images = {key: stored.image for key, stored in found.items() if not is_deleted(stored.image)}
    if not images:  # the stream has deleted them, since or before
        return UnseenPage(None, through)
    return UnseenPage(_deletes(images, table), through)


def note_scanned(connection: sa.Connection, load: LoadSession, scanned_through: bytes) -> LoadSession:
    """Store that no unseen row is left up to a row key, and return the load. Dying before COMMIT repeats the look."""
    connection.execute(NOTE_SCANNED, {"load_id": load.load_id, "scanned_through": scanned_through})
    [found] = find_loads(connection, [load.load_id])
    return found


def _deletes(images: Mapping[bytes, bytes], table: Table) -> LandingRows:
    rows = landing_rows([*_changes(images, table)], RowRules.of(table))
    if rows.images is None or {*rows.images.keys} != images.keys():
        raise RuntimeError(f"row images of table {table.name} have other keys than their rows")
    return rows


def _changes(images: Mapping[bytes, bytes], table: Table) -> Iterator[Change]:
    keys = [(name, table.schema.names.index(name)) for name in table.schema.key_columns]
    for index, image in enumerate(images.values()):
        values = decode_image(image)
        yield Change(index, Operation.DELETE, {name: values[at] for name, at in keys}, None, "", "")
