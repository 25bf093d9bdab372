"""Finds the table that a Replicate message is for, from the message's source, its schema id and `?table=`.

Everything is looked up once per request, past the table cache: a metadata message can change a table, and the sequence
lock does not check what is decided here. The columnar path uses `source_cache` instead. Tables that the caller may not
touch count as unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app.domain.access.rights import Principal
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.model.source_routing import case_detail
from app.domain.model.table import Table
from app.errors import Code, RejectedInput
from app.formats.replicate.history import SourceHistory
from app.formats.replicate.metadata import TableMetadata
from app.ingest.table_cache import TableCache
from app.staging.connection.database import translated_errors
from app.staging.tables.replicate_sources import SourceFacts, names_with_schema_id, source_facts


@dataclass
class Destinations:
    """The tables that the sources of one request feed, and what Postgres stores of those sources."""

    table_cache: TableCache
    principal: Principal
    _found: dict[SourceName, tuple[TableName | None, Table | None]] = field(default_factory=dict)
    """By source: the table that it feeds, and a table fed by a source that differs in letter case only."""
    _described: dict[str, list[TableName]] = field(default_factory=dict)
    """By schema id: the caller's tables that have it or had it."""
    _facts: dict[str, SourceFacts | None] = field(default_factory=dict)
    """By folded table name: what is stored, of the source's versions the current one only."""

    def requested(self, name: TableName) -> TableName:
        """Return the name of the table that `?table=` means, or the same name if the caller has no such table."""
        return self.of(SourceName.address(name)) or name

    def of(self, source: SourceName, requested: TableName | None = None) -> TableName | None:
        """Return the table that a source feeds, None if the caller has no such table.

        Raises RejectedInput `source_case_mismatch`, unless another table is `requested` for the source.
        """
        if source not in self._found:
            table = self.table_cache.refresh(source)
            twin = self.table_cache.twin(source, self.principal) if table is None else None
            visible = table is not None and self.principal.may_touch(table.name)
            self._found[source] = (table.name if table is not None and visible else None, twin)
        destination, twin = self._found[source]
        if twin is not None and (requested is None or requested.folded == twin.name.folded):
            raise RejectedInput(Code.SOURCE_CASE_MISMATCH, case_detail(source, twin))
        return destination

    def of_message(self, source: SourceName | None, requested: TableName | None) -> TableName | None:
        """Return the table that a message's own address names; where it feeds none, `?table=` decides."""
        if source is None:
            return None
        return self.of(source, requested) or (source.table if requested is None else None)

    def of_metadata(self, entry: TableMetadata, requested: TableName | None) -> TableMetadata:
        """Return a metadata message with its destination: the table of its source, else that of `?table=`.

        A source whose name differs from the table's gets an order of its own. Raises RejectedInput `table_mismatch`,
        `source_case_mismatch` or `bad_name`.
        """
        destination = self.of(entry.source, requested)
        if requested is not None and destination is not None and requested.folded != destination.folded:
            detail = f"the message describes {entry.source}, but `table` names another table"
            raise RejectedInput(Code.TABLE_MISMATCH, detail)
        if destination is None and requested is not None and requested.folded != entry.source.folded:
            self._check_source(entry, requested)
            destination = requested
        if (destination or entry.table).folded == entry.source.folded:
            return replace(entry, destination=destination)
        return replace(entry, destination=destination, task=f"{entry.task or ''}/{entry.source}")

    def described_by(self, schema_id: str | None) -> Sequence[TableName]:
        """Return the caller's tables that have this schema id or had it."""
        if not schema_id:
            return ()
        found = self._described.get(schema_id)
        if found is None:
            with translated_errors(), self.table_cache.begin() as connection:
                named = names_with_schema_id(connection, schema_id)
                self.table_cache.note_described(schema_id, named)
                found = self._described[schema_id] = [name for name in named if self.principal.may_touch(name)]
                if len(found) == 1 and found[0].folded not in self._facts:
                    self._facts[found[0].folded] = source_facts(connection, found[0])
        return found

    def facts(self, name: TableName) -> SourceFacts | None:
        """Return what is stored of a table's source, with its current version only; one query per table."""
        if name.folded not in self._facts:
            self._facts[name.folded] = self.read_facts(name)
        return self._facts[name.folded]

    def read_facts(self, name: TableName, *, whole: bool = False) -> SourceFacts | None:
        """Query what is stored of a table's source now; `whole`: with all versions."""
        with translated_errors(), self.table_cache.begin() as connection:
            return source_facts(connection, name, whole=whole)

    def _check_source(self, entry: TableMetadata, requested: TableName) -> None:
        """Raise RejectedInput `table_mismatch` if `?table=` names a table that another source feeds."""
        history = history_of(self.read_facts(requested)) if self.principal.may_touch(requested) else None
        if history is not None and history.current.source not in {None, str(entry.source)}:
            detail = f"another source than {entry.source} feeds table {requested}; its option `sources` can name both"
            raise RejectedInput(Code.TABLE_MISMATCH, detail)


def history_of(facts: SourceFacts | None) -> SourceHistory | None:
    """Return the stored versions of a table's source."""
    return SourceHistory.from_json(facts.metadata) if facts is not None and facts.metadata else None
