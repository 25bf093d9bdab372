"""Which table a source's name leads to: table names, and the names in the option `sources`."""

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.model.table import TableId
from app.domain.model.table_options import TableOptions, bad_option
from app.errors import RejectedInput
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.advisory_locks import AdvisoryLock, lock_for_transaction
from app.staging.tables.registry import find_route, find_table

DELETE_SOURCES = sa.text("DELETE FROM mirrorgate.table_sources WHERE table_id = :table_id")

INSERT_SOURCE = sa.text("""
    INSERT INTO mirrorgate.table_sources (folded_source, table_id) VALUES (:folded_source, :table_id)
    ON CONFLICT (folded_source) DO NOTHING""")

SELECT_SOURCE_OWNER = sa.text("""
    SELECT t.name FROM mirrorgate.table_sources s JOIN mirrorgate.tables t ON t.table_id = s.table_id
    WHERE s.folded_source = :folded_source""")

ADVANCE_REVISIONS = sa.text("""
    UPDATE mirrorgate.tables SET revision = revision + 1 WHERE table_id = ANY(:table_ids)""")


def lock_routing(connection: sa.Connection) -> None:
    """Nobody else gives names to tables or sources until the transaction ends."""
    lock_for_transaction(connection, AdvisoryLock.ROUTING)


def losing_tables(connection: sa.Connection, table_id: TableId, options: TableOptions) -> set[TableId]:
    """The other tables that these sources have fed until now: one catalog's table may be taken from them."""
    fed = [find_route(connection, SourceName.parse(text)).table for text in options.sources]
    return {table.table_id for table in fed if table is not None and table.table_id != table_id}


def set_sources(connection: sa.Connection, table_id: TableId, name: TableName, options: TableOptions) -> None:
    """Route these source names here. One that is a table of its own, or feeds another, is rejected.

    Names that differ in letter case only may feed one table, not two.

    Whoever remembers the old way has typed under a revision that is over then.
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
    """Tell whether a source is a table of this very name; one in another letter case may be kept apart from it."""
    if str(source) == str(name):
        return False
    try:
        table = find_table(connection, source.table)
    except RejectedInput:
        return False
    return table is not None and (table.name == source.table or table.any_letter_case) and table.name != name
