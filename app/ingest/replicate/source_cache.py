"""The cache of what Postgres stores of Replicate sources, as one API process last saw it.

With it, a request whose table and source version were seen before needs no query.

Invariant: an entry can be out of date, and the sequence lock notices it. Metadata that changes advances the revision of
its table, which every batch is checked for; a batch whose table was found by a schema id is also checked for the
tables that have the id. An id without a table is never cached.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

from app.domain.access.rights import Principal
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Table
from app.formats.replicate.columnar_images import ImageReader
from app.formats.replicate.history import SourceVersion
from app.ingest.replicate.tables import history_of
from app.ingest.table_cache import NotCached, TableCache
from app.staging.batches.batch import SchemaIdTables
from app.staging.connection.database import translated_errors
from app.staging.tables.replicate_sources import names_with_schema_id, source_facts

MAX_CACHED_SOURCES: Final = 4_000
"""Tables whose sources are kept in memory."""


@dataclass(frozen=True, slots=True)
class CachedSource:
    """The current version of a table's source; None if no metadata message declared one."""

    table: Table
    """The table as it was when the version was read."""
    version: SourceVersion | None
    reader: ImageReader | None
    """Reads the source's messages; None for a table whose column names exclude that."""

    def is_of(self, table: Table) -> bool:
        """Return True if this is the source of the table as it is in `table`."""
        return self.table.typed_under == table.typed_under


@dataclass(frozen=True, slots=True)
class FoundSource:
    """The table of a message, the version of its source, and the schema id by which it was found."""

    table: Table
    source: CachedSource
    found_by: SchemaIdTables | None


@dataclass(frozen=True, slots=True)
class SourceCache:
    """Cache of the table and the source version of data messages; all readers share the table cache."""

    table_cache: TableCache

    def find(
        self, requested: SourceName | None, own: SourceName | None, schema_id: str | None, principal: Principal
    ) -> FoundSource | None:
        """Return what a message is for: `?table=`, its own address and its schema id must agree.

        None where they do not, where the caller has no such table, or where the schema id is not that of the current
        version. Raises NotCached if a query has to find it first.
        """
        addresses = [address for address in (requested, own) if address is not None]
        found_by = None
        if not addresses:
            if schema_id is None:
                return None
            found_by = self._tables_of(schema_id)
            names = [name for name in map(TableName.parse, found_by.names) if principal.may_touch(name)]
            if len(names) != 1:
                return None
            addresses = [SourceName.address(names[0])]
        for address in addresses:
            self.table_cache.require_cached(address)
        tables = [self.table_cache.get_cached(address, principal) for address in addresses]
        table = tables[0]
        if table is None or any(other is None or other.table_id != table.table_id for other in tables):
            return None
        source = self._source_of(table, addresses)
        if schema_id is not None and (source.version is None or source.version.schema_id != schema_id):
            return None
        return FoundSource(table, source, found_by)

    def keep(self, source: CachedSource) -> None:
        """Cache the source of a table."""
        if len(self.table_cache.replicate_sources) >= MAX_CACHED_SOURCES:
            self.table_cache.replicate_sources.clear()
            self.table_cache.image_types.clear()
        self.table_cache.replicate_sources[source.table.table_id] = source
        if source.reader and source.version and source.version.schema_id:
            self.table_cache.image_types[source.version.schema_id] = source.reader.image_type

    def _tables_of(self, schema_id: str) -> SchemaIdTables:
        names = self.table_cache.described.get(schema_id)
        if names is None:
            raise NotCached(partial(self._look_up_names, schema_id))
        return SchemaIdTables(schema_id, names)

    def _source_of(self, table: Table, addresses: list[SourceName]) -> CachedSource:
        source: CachedSource | None = self.table_cache.replicate_sources.get(table.table_id)
        if source is not None and source.is_of(table):
            return source
        raise NotCached(partial(self._look_up_source, table, addresses))

    def _look_up_names(self, schema_id: str) -> frozenset[str] | None:
        """Cache the tables of a schema id, and the one table with its source."""
        with translated_errors(), self.table_cache.begin() as connection:
            names = self.table_cache.note_described(schema_id, names_with_schema_id(connection, schema_id))
        if len(names) == 1:
            address = SourceName.address(TableName.parse(next(iter(names))))
            table = self.table_cache.route(address)
            if table is not None:
                self._look_up_source(table, [address])
        return names or None

    def _look_up_source(self, table: Table, addresses: list[SourceName]) -> object:
        """Cache the source of a table, and return None if the table is gone.

        A table that has changed since it was cached is queried again the next time.
        """
        with translated_errors(), self.table_cache.begin() as connection:
            facts = source_facts(connection, table.name)
        if facts is None or (facts.table_id, facts.revision) != (table.table_id, table.revision):
            for address in addresses:
                self.table_cache.forget(address)
            return facts
        history = history_of(facts)
        version = history.current if history else None
        source = CachedSource(table, version, _reader_of(table, version))
        self.keep(source)
        return source


def _reader_of(table: Table, version: SourceVersion | None) -> ImageReader | None:
    try:
        return ImageReader(table.schema.names, frozenset(table.options.exclude), version)
    except ValueError:
        return None
