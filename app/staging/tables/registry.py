"""The registry of tables: which exist, under which names, which sources feed them, and what keeps one from publishing.

A `Table` is a snapshot of one moment. Before a change depends on it, take the sequence lock and read it again.

`find_route` returns the table that a source's name leads to: the table of that name, or the one that has it in the
option `sources`. Invariant: a name feeds one table. The lock of `lock_routing` serializes everything that gives names
to tables or sources.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
import structlog

from app.domain.model.names import SourceName, TableName
from app.domain.model.projection import bad_option
from app.domain.model.table import BatchSequence, DropPlan, Generation, Route, Table, TableId, TableState, route
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import SchemaVersion, TableSchema
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.database import AdvisoryLock, lock_for_transaction
from app.staging.ledger.leases import IS_BACKFILL_DUE
from app.staging.tables.events import record_event
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable

log = structlog.get_logger()

_SELECT_TABLES = f"""
    SELECT t.table_id, t.name, t.generation, t.state, t.schema_version, t.options, t.revision, t.column_stays,
        t.images_complete, t.arcion_catalog, t.drop_plan, t.rebuild_due,
        (SELECT mirrorgate.database_run()) AS database_run,
        {IS_BACKFILL_DUE} AS backfill_due,
        t.mask_fingerprint, c.cdc_started, v.key_columns, v.columns, v.bare, v.lands_as
    FROM mirrorgate.tables t
    JOIN mirrorgate.table_counters c ON c.table_id = t.table_id
    JOIN mirrorgate.schema_versions v
      ON v.table_id = t.table_id AND v.generation = t.generation AND v.version = t.schema_version
    WHERE t.state <> 'dropped'"""  # noqa: S608  # constant text
"""Read the live tables with their counters and current schema."""

SELECT_BY_NAME = sa.text(_SELECT_TABLES + " AND t.folded_name = :folded_name")
"""Read the live table of a name."""

SELECT_ID_BY_NAME = sa.text("""
    SELECT table_id FROM mirrorgate.tables WHERE folded_name = :folded_name AND state <> 'dropped'""")
"""Find the id of the live table of a name."""

_CANDIDATES = """
    SELECT table_id FROM mirrorgate.table_sources WHERE folded_source = ANY(:sources)
    UNION SELECT table_id FROM mirrorgate.tables WHERE folded_name = :folded_name AND state <> 'dropped'"""
"""List the tables that a source may feed."""

SELECT_BY_ROUTE = sa.text(_SELECT_TABLES + f" AND t.table_id = ANY(ARRAY({_CANDIDATES}))")
"""Read the live tables that a source may feed."""

SELECT_BY_IDS = sa.text(_SELECT_TABLES + " AND t.table_id = ANY(:table_ids)")
"""Read the live tables among these ids."""

SELECT_ALL = sa.text(_SELECT_TABLES + " ORDER BY t.name")
"""Read all live tables by name."""

SELECT_NAMED = sa.text("""
    SELECT table_id, name, generation, state <> 'dropped' AS is_live FROM mirrorgate.tables
    ORDER BY folded_name, table_id""")
"""Read the names of all tables, also of dropped ones."""

SELECT_DROPPED = sa.text("SELECT table_id FROM mirrorgate.tables WHERE state = 'dropped'")
"""List the dropped tables."""

PIN_CATALOG = sa.text("""
    UPDATE mirrorgate.tables SET arcion_catalog = coalesce(arcion_catalog, :catalog)
    WHERE table_id = :table_id RETURNING arcion_catalog""")
"""Set the Arcion catalog of a table unless it is set, and return the one that holds."""

NOTE_TROUBLE = sa.text("""
    UPDATE mirrorgate.tables SET state_reason = :reason
    WHERE table_id = :table_id AND state IN ('dropping', 'rebuilding')""")
"""Store why a drop has not ended yet."""

QUARANTINE = sa.text("""
    UPDATE mirrorgate.tables SET state = 'quarantined', state_reason = :reason
    WHERE table_id = :table_id AND state = 'active'""")
"""Quarantine an active table."""


@dataclass(frozen=True, slots=True)
class NamedTable:
    """The name and the present generation of a table; a dropped one has none that lives."""

    table_id: TableId
    name: TableName
    generation: Generation
    is_live: bool


def find_table(connection: sa.Connection, name: TableName) -> Table | None:
    """Return the live table of a name, in any letter case. Raises TemporarilyUnavailable `table_too_new`."""
    row = connection.execute(SELECT_BY_NAME, {"folded_name": name.folded}).mappings().one_or_none()
    return _table(row) if row else None


def find_table_id(connection: sa.Connection, name: TableName) -> TableId | None:
    """Return the id of the live table of a name, to lock the table before it is read."""
    table_id: TableId | None = connection.execute(SELECT_ID_BY_NAME, {"folded_name": name.folded}).scalar()
    return table_id


def find_route(connection: sa.Connection, source: SourceName) -> Route:
    """Return the live table that a source's table feeds; `app.domain.model.table` has the rules.

    Raises TemporarilyUnavailable `table_too_new` if this program cannot read a table that the source may feed.
    """
    sources = list(dict.fromkeys([source.folded, source.without_catalog.folded]))
    parameters = {"sources": sources, "folded_name": source.without_catalog.folded}
    return route(source, [_table(row) for row in connection.execute(SELECT_BY_ROUTE, parameters).mappings()])


def find_table_by_id(connection: sa.Connection, table_id: TableId) -> Table | None:
    """Return the live table with this id. Raises TemporarilyUnavailable `table_too_new`."""
    row = connection.execute(SELECT_BY_IDS, {"table_ids": [table_id]}).mappings().one_or_none()
    return _table(row) if row else None


def find_tables_by_id(connection: sa.Connection, table_ids: Collection[TableId]) -> list[Table]:
    """Return those of these tables that are not dropped and that this program can read, in no order."""
    return [*_readable(connection.execute(SELECT_BY_IDS, {"table_ids": list(table_ids)}).mappings())]


def list_tables(connection: sa.Connection) -> list[Table]:
    """Return all live tables that this program can read, by name."""
    return [*_readable(connection.execute(SELECT_ALL).mappings())]


def named_tables(connection: sa.Connection) -> list[NamedTable]:
    """Return the names of all tables, also of dropped ones, whose dead letters and events are still kept."""
    return [
        NamedTable(TableId(row.table_id), TableName.parse(row.name), Generation(row.generation), row.is_live)
        for row in connection.execute(SELECT_NAMED)
    ]


def dropped_tables(connection: sa.Connection) -> set[TableId]:
    """Return the ids of the dropped tables; a recreated table is not among them."""
    return {TableId(table_id) for (table_id,) in connection.execute(SELECT_DROPPED)}


def pin_arcion_catalog(connection: sa.Connection, table_id: TableId, catalog: str) -> str:
    """Return the Arcion catalog that feeds the table; if there was none, it is this one from now on."""
    pinned: str = connection.execute(PIN_CATALOG, {"table_id": table_id, "catalog": catalog}).scalar_one()
    return pinned


def note_drop_trouble(connection: sa.Connection, table_id: TableId, reason: str) -> None:
    """Store why a drop has not ended yet, for operators; the drain tries it again."""
    connection.execute(NOTE_TROUBLE, {"table_id": table_id, "reason": reason})


def quarantine_table(connection: sa.Connection, table_id: TableId, reason: str) -> bool:
    """Stop publishing an active table until an operator decides; return False for another state.

    The table still accepts changes. The event records when it stopped and why. A process that dies before the commit
    leaves the table active, and the next owner finds the same disagreement.
    """
    if connection.execute(QUARANTINE, {"table_id": table_id, "reason": reason}).rowcount == 0:
        return False
    table = find_table_by_id(connection, table_id)
    assert table is not None
    record_event(connection, table, "drain", "quarantined", reason)
    return True


def _readable(rows: Iterable[sa.RowMapping]) -> Iterator[Table]:
    """Yield the tables without those of a newer version, so that one table does not hide the others."""
    for row in rows:
        try:
            yield _table(row)
        except TemporarilyUnavailable as error:
            log.warning("table_left_out", code=error.code, detail=error.detail)


def _table(row: sa.RowMapping) -> Table:
    try:
        return _parsed(row)
    except (RejectedInput, ValueError) as error:
        detail = f"table {row['name']} has what this version does not know: {error}"
        raise TemporarilyUnavailable(Code.TABLE_TOO_NEW, detail) from error


def _parsed(row: sa.RowMapping) -> Table:
    stays: Mapping[str, int | None] = row["column_stays"]
    return Table(
        table_id=TableId(row["table_id"]),
        name=TableName.parse(row["name"]),
        generation=Generation(row["generation"]),
        state=TableState(row["state"]),
        schema_version=SchemaVersion(row["schema_version"]),
        schema=TableSchema.from_json(dict(row)),
        options=TableOptions.parse(row["options"]),
        revision=row["revision"],
        database_run=row["database_run"],
        left_columns=frozenset(name for name, since in stays.items() if since is None),
        late_columns={name: BatchSequence(since) for name, since in stays.items() if since is not None},
        cdc_started=row["cdc_started"],
        images_complete=row["images_complete"],
        arcion_catalog=row["arcion_catalog"],
        drop_plan=DropPlan.from_json(row["drop_plan"]) if row["drop_plan"] else None,
        rebuild_due=row["rebuild_due"],
        mask_fingerprint=row["mask_fingerprint"],
        backfill_due=row["backfill_due"],
    )


DELETE_SOURCES = sa.text("DELETE FROM mirrorgate.table_sources WHERE table_id = :table_id")
"""Delete the source names of a table."""

INSERT_SOURCE = sa.text("""
    INSERT INTO mirrorgate.table_sources (folded_source, table_id) VALUES (:folded_source, :table_id)
    ON CONFLICT (folded_source) DO NOTHING""")
"""Route a source name to a table unless it has one; wait while a rename to it ends, so look for a table afterwards."""

SELECT_SOURCE_OWNER = sa.text("""
    SELECT t.name FROM mirrorgate.table_sources s JOIN mirrorgate.tables t ON t.table_id = s.table_id
    WHERE s.folded_source = :folded_source""")
"""Find the table that a source name feeds."""

ADVANCE_REVISIONS = sa.text("""
    UPDATE mirrorgate.tables SET revision = revision + 1 WHERE table_id = ANY(:table_ids)""")
"""Advance the revisions of tables, so that requests typed under the old routes are typed again."""


def lock_routing(connection: sa.Connection) -> None:
    """Keep others from giving names to tables or sources until the transaction ends."""
    lock_for_transaction(connection, AdvisoryLock.ROUTING)


def losing_tables(connection: sa.Connection, table_id: TableId, options: TableOptions) -> set[TableId]:
    """Return the other tables that these sources, or callers by these names, feed now and are about to lose."""
    fed = [find_route(connection, SourceName.parse(text)._replace(any_case=True)).table for text in options.sources]
    return {table.table_id for table in fed if table is not None and table.table_id != table_id}


def set_sources(connection: sa.Connection, table_id: TableId, name: TableName, options: TableOptions) -> None:
    """Route the names of the option `sources` to a table.

    A name that is another table, or feeds another table, is rejected. Names that differ only in letter case can
    feed one table, not two. The tables that lose a source get a new revision, so requests that were typed under the old
    routes are typed again. Raises RejectedInput `bad_option`.
    """
    losing = losing_tables(connection, table_id, options)
    if losing:
        lock_counters(connection, losing)
        connection.execute(ADVANCE_REVISIONS, {"table_ids": sorted(losing)})
    connection.execute(DELETE_SOURCES, {"table_id": table_id})
    sources = [SourceName.parse(text) for text in options.sources]
    own: set[str] = set()
    for place, source in enumerate(sources):
        text = options.sources[place]
        if source in sources[:place]:
            raise bad_option(f"the source {text} is named twice", "sources", str(place))
        if source.catalog is None and _is_another_table(connection, source, name):
            raise bad_option(f"the source {text} is a table itself", "sources", str(place))
        parameters = {"folded_source": source.folded, "table_id": table_id}
        if source.folded not in own and connection.execute(INSERT_SOURCE, parameters).rowcount == 0:
            raise bad_option(f"the source {text} feeds another table", "sources", str(place))
        own.add(source.folded)


def _is_another_table(connection: sa.Connection, source: SourceName, name: TableName) -> bool:
    """Return True if a source name is another table's name; a name in another letter case may be kept apart."""
    if str(source) == str(name):
        return False
    try:
        table = find_table(connection, source.table)
    except RejectedInput:
        return False
    return table is not None and table.name == source.table and table.name != name
