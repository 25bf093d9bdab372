"""Load sessions in a staging transaction: which of their rows land, and what the transaction leaves for later rows.

Everything here happens under the sequence locks of the tables. Invariants: a row of a load lands only if the stream has
not written or deleted its key since the load began, in this transaction or before it; and while a load is open, no
insert lands on a key that has a row (decision 0069).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from app.domain.loads import LoadId, LoadSession, LoadState, LoadStep, check_step
from app.domain.model.table import BatchSequence, Table, TableId
from app.domain.rows.image_overlay import ImageOverlay, Layer
from app.domain.rows.landing_rows import (
    LandingRows,
    check_loadable,
    has_repeats,
    insert_keys,
    with_inserts,
    without_keys,
)
from app.staging.batches.batch import Batch, MarkerNeeded, StagingRequest
from app.staging.batches.row_images import chunks, read_present_keys
from app.staging.batches.sequence_lock import Counters
from app.staging.connection.database import BINARY_RESULT
from app.staging.connection.raw_sql import driver_rows, int_array_literal, text_array_literal
from mirrorgate.parameters import LoadMode

SELECT_LOADS: Final = """
    SELECT CAST(l.load_id AS text), l.table_id, l.generation, l.mode,
        CASE WHEN l.state NOT IN ('open', 'completing') THEN l.state
             WHEN t.generation <> l.generation OR t.state IN ('dropping', 'dropped') THEN 'aborted'
             WHEN l.expires_at <= clock_timestamp() THEN 'expired' ELSE l.state END,
        l.begin_sequence, l.batches, l.rows, l.superseded, l.deletes, l.scanned_through, l.idle_seconds, l.started_by,
        l.started_at, l.expires_at, l.ended_at
    FROM mirrorgate.loads l JOIN mirrorgate.tables t ON t.table_id = l.table_id
    WHERE l.load_id = ANY(%(load_ids)s::uuid[])"""
"""Read load sessions as they are now; a stored state is the last one that a request has set."""

SELECT_STREAM_KEYS: Final = """
    SELECT array_agg(row_key) FROM (
        SELECT row_key FROM mirrorgate.row_images i
        WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = ANY(%(keys)b)
          AND sequence >= %(begin_sequence)s AND NOT EXISTS (
            SELECT FROM mirrorgate.load_batches b WHERE b.load_id = %(load_id)s::uuid AND b.sequence = i.sequence)
        UNION
        SELECT row_key FROM mirrorgate.load_deletes
        WHERE load_id = %(load_id)s::uuid AND row_key = ANY(%(keys)b)) AS changed"""
"""Read which of some keys the stream has written or deleted since a load began."""

SELECT_SEEN_KEYS: Final = """
    SELECT array_agg(key) FROM unnest(%(keys)b::bytea[]) AS asked (key)
    WHERE NOT EXISTS (
        SELECT FROM mirrorgate.row_images
        WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = key
          AND sequence < %(begin_sequence)s)"""
"""Read which of some keys have no row any more, or one that was written since a load began."""

ADVANCE_LOAD: Final = """
    UPDATE mirrorgate.loads
    SET batches = batches + %(batches)s, rows = rows + %(rows)s, superseded = superseded + %(superseded)s,
        deletes = deletes + %(deletes)s, scanned_through = coalesce(%(scanned_through)b, scanned_through),
        expires_at = clock_timestamp() + make_interval(secs => idle_seconds)
    WHERE load_id = %(load_id)s::uuid
    RETURNING 1"""
"""Count what a transaction has staged of a load, and extend the time to its expiry."""

INSERT_LOAD_BATCHES: Final = """
    INSERT INTO mirrorgate.load_batches (load_id, sequence)
    SELECT %(load_id)s::uuid, sequence FROM unnest(%(sequences)s::bigint[]) AS sequence
    RETURNING 1"""
"""Store which batches are a load's."""

INSERT_LOAD_DELETES: Final = """
    INSERT INTO mirrorgate.load_deletes (load_id, row_key)
    SELECT load_id, row_key FROM mirrorgate.loads, unnest(%(keys)b::bytea[]) AS row_key
    WHERE load_id = %(load_id)s::uuid AND ended_at IS NULL
    ON CONFLICT DO NOTHING"""
"""Store which keys the stream has deleted while a load is open."""


@dataclass
class _Added:
    """The part that a transaction adds to a load session."""

    sequences: list[BatchSequence] = field(default_factory=list)
    rows: int = 0
    superseded: int = 0
    deletes: int = 0
    scanned_through: bytes | None = None


@dataclass
class LoadTransaction:
    """The load sessions that concern the requests of one transaction."""

    sessions: Mapping[LoadId, LoadSession]
    """The sessions that requests name."""
    open_loads: Mapping[TableId, LoadId]
    """The loads that may be open, by table."""
    _blocked: defaultdict[tuple[TableId, bool], set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """Keys whose rows do not land, by table and whether they are deletes."""
    _live: dict[TableId, set[bytes]] = field(default_factory=dict)
    """Those of the keys that batches may insert that have a row before this transaction."""
    _added: defaultdict[LoadId, _Added] = field(default_factory=lambda: defaultdict(_Added))
    _deleted: defaultdict[LoadId, set[bytes]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def read(
        cls, connection: sa.Connection, requests: Sequence[StagingRequest], counters: Mapping[TableId, Counters]
    ) -> "LoadTransaction":
        """Read what these requests depend on, after the sequence locks of their tables were granted."""
        open_loads = {table_id: one.open_load for table_id, one in counters.items() if one.open_load is not None}
        named = {request.load.load_id for request in requests if request.load is not None}
        loads = cls({load.load_id: load for load in find_loads(connection, named)} if named else {}, open_loads)
        for request in requests:
            if request.load is not None:
                loads._read_keys(connection, request.load, request.batches, counters)
            for batch in request.batches:
                if batch.table.table_id in counters and loads._asks_for_rows(batch, request.load):
                    loads._read_live(connection, batch)
        return loads

    def check(self, request: StagingRequest) -> None:
        """Check that a request may take its step. Raises what `check_step` raises."""
        if request.load is not None:
            check_step(self.sessions.get(request.load.load_id), request.load, request.table_ids)

    def admitted(self, batch: Batch, step: LoadStep | None, overlay: ImageOverlay) -> LandingRows:
        """Return the rows of a batch that land, all of them if they are the stream's.

        The overlay then knows which of their inserts have a row already. Raises RejectedInput like `check_loadable`,
        and MarkerNeeded if an insert could repeat a key in files that have no row marker.
        """
        rows, table_id = batch.rows, batch.table.table_id
        if step is not None:
            images = rows.images if step.removes else check_loadable(rows)
            if images is not None:
                rows = without_keys(rows, images, self._blocked[table_id, step.removes])
        if rows.images is None or not self._asks_for_rows(batch, step):
            return rows
        live = self._live.get(table_id, set())
        if not batch.table.schema.bare:
            overlay.present = live  # this table asks for no other keys
            return with_inserts(rows)
        if has_repeats(rows.images.keys) or not (live | overlay.written.keys()).isdisjoint(rows.images.keys):
            raise MarkerNeeded(batch.table)
        return rows

    def note_stream(self, table: Table, layer: Layer) -> None:
        """Remember which keys a batch of the stream changes: later rows of an open load do not land on them."""
        load_id = self.open_loads.get(table.table_id)
        if load_id is None:
            return
        for removes in (False, True):
            self._blocked[table.table_id, removes].update(layer)
        self._deleted[load_id].update(key for key, image in layer.items() if image is None)

    def note_step(self, step: LoadStep, batch: Batch, rows: LandingRows, sequence: BatchSequence | None) -> None:
        """Count what a batch adds to its load; `sequence` is None if none of its rows lands."""
        added = self._added[step.load_id]
        if sequence is not None:
            added.sequences.append(sequence)
        if step.removes:
            added.deletes += rows.rows
            added.scanned_through = step.scanned_through
        else:
            added.rows += rows.rows
            added.superseded += batch.rows.rows - rows.rows

    def store(self, connection: sa.Connection) -> None:
        """Store what the transaction adds to load sessions; dying before COMMIT leaves them as they were."""
        for load_id, added in self._added.items():
            facts: dict[str, Any] = {"load_id": load_id, "batches": len(added.sequences), "rows": added.rows}
            facts |= {"superseded": added.superseded, "deletes": added.deletes}
            driver_rows(connection, ADVANCE_LOAD, facts | {"scanned_through": added.scanned_through})
            if added.sequences:
                parameters = {"load_id": load_id, "sequences": int_array_literal(added.sequences)}
                driver_rows(connection, INSERT_LOAD_BATCHES, parameters)
        for load_id, deleted in self._deleted.items():
            for keys in chunks(deleted):
                connection.exec_driver_sql(INSERT_LOAD_DELETES, {"load_id": load_id, "keys": keys})

    def _read_keys(
        self,
        connection: sa.Connection,
        step: LoadStep,
        batches: Sequence[Batch],
        counters: Mapping[TableId, Counters],
    ) -> None:
        """Read which keys of a load's rows do not land. A load that has ended must not block those of the open one."""
        load = self.sessions.get(step.load_id)
        if load is None or load.state.has_ended:
            return
        for batch in batches:
            table, images = batch.table, batch.rows.images
            if images is None or load.table_id != table.table_id or table.table_id not in counters:
                continue
            blocked = self._blocked[table.table_id, step.removes]
            if step.removes:
                blocked |= _keys(connection, SELECT_SEEN_KEYS, load, images.keys)
            elif counters[table.table_id].last_sequence >= load.begin_sequence + load.batches:  # not only its own
                blocked |= _keys(connection, SELECT_STREAM_KEYS, load, images.keys)

    def _asks_for_rows(self, batch: Batch, step: LoadStep | None) -> bool:
        """Return True if a batch may insert a row that has landed already.

        Files without a row marker cannot say so, whatever row images know. In other tables a batch of the stream asks
        beside an open load only, and never where row images decide about each insert anyway. Deletes need no answer.
        """
        is_loading = step is not None or batch.table.table_id in self.open_loads
        if batch.table.schema.bare:
            return is_loading or batch.table.options.reads_images
        return is_loading and not (batch.table.options.reads_images or (step is not None and step.removes))

    def _read_live(self, connection: sa.Connection, batch: Batch) -> None:
        table, images = batch.table, batch.rows.images
        if images is not None:
            keys = images.keys if table.schema.bare else insert_keys(batch.rows)
            live = read_present_keys(connection, table.table_id, table.generation, keys)
            self._live.setdefault(table.table_id, set()).update(live)


def find_loads(connection: sa.Connection, load_ids: Iterable[LoadId]) -> list[LoadSession]:
    """Return the load sessions with these ids, in no order."""
    rows = driver_rows(connection, SELECT_LOADS, {"load_ids": text_array_literal([*load_ids])})
    return [
        LoadSession(load_id, table_id, generation, LoadMode(mode), LoadState(state), *facts)
        for load_id, table_id, generation, mode, state, *facts in rows
    ]


def _keys(connection: sa.Connection, statement: str, load: LoadSession, keys: Collection[bytes]) -> set[bytes]:
    found: set[bytes] = set()
    place = {"table_id": load.table_id, "generation": load.generation, "begin_sequence": load.begin_sequence}
    for chunk in chunks(keys):
        parameters = {**place, "load_id": load.load_id, "keys": chunk}
        row = connection.exec_driver_sql(statement, parameters, execution_options=BINARY_RESULT).one()
        found.update(row[0] or ())
    return found
