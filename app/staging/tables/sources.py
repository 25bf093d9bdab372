"""Which table a source's name leads to: its own table's name, or a name in the option `sources`.

Invariant: a name feeds one table. The routing lock serializes everything that gives names to tables or sources.
"""

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.projection.rejections import bad_option
from app.domain.model.source_name import SourceName
from app.domain.model.table import TableId
from app.domain.model.table_options import TableOptions
from app.errors import RejectedInput
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.advisory_locks import AdvisoryLock, lock_for_transaction
from app.staging.tables.registry import find_route, find_table

DELETE_SOURCES = sa.text("DELETE FROM mirrorgate.table_sources WHERE table_id = :table_id")
"""Delete the source names of a table."""

INSERT_SOURCE = sa.text("""
    INSERT INTO mirrorgate.table_sources (folded_source, table_id) VALUES (:folded_source, :table_id)
    ON CONFLICT (folded_source) DO NOTHING""")
"""Route a source name to a table, unless it has one."""

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
    """Return the other tables that these sources feed now, from which they are about to be taken."""
    fed = [find_route(connection, SourceName.parse(text)).table for text in options.sources]
    return {table.table_id for table in fed if table is not None and table.table_id != table_id}


def set_sources(connection: sa.Connection, table_id: TableId, name: TableName, options: TableOptions) -> None:
    """Route the names of the option `sources` to a table.

    A name that is a table of its own, or feeds another table, is rejected. Names that differ only in letter case can
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
    """Tell whether a source name is another table's name; a name in another letter case may be kept apart."""
    if str(source) == str(name):
        return False
    try:
        table = find_table(connection, source.table)
    except RejectedInput:
        return False
    return table is not None and table.name == source.table and table.name != name
