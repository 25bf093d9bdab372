"""Groups the changes of a request by destination table, with what typing needs to know of each table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import RejectedMessage
from app.domain.model.source_name import SourceName
from app.domain.model.source_routing import case_detail, is_named
from app.domain.model.table import Table, TableId
from app.domain.model.table_options import SourceOrder
from app.errors import Code, Problem, RejectedInput
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.table_cache import TableCache
from app.staging.batches.source_positions import source_positions
from app.staging.connection.database import translated_errors


@dataclass(frozen=True, slots=True)
class TableChanges:
    """All changes of a request for one table, in the order of the request."""

    table: Table
    parts: Sequence[SourceChanges]
    new_catalog: str | None
    """The catalog that feeds the table from this request on, if it had none."""
    positions: Mapping[str, str]
    """By source task: the last accepted source position, for a table that enforces the source's order."""

    @property
    def rejected(self) -> list[RejectedMessage]:
        """The messages that are set aside, by index."""
        return sorted((entry for part in self.parts for entry in part.rejected), key=attrgetter("index"))


@dataclass(frozen=True, slots=True)
class RoutedRequest:
    """The changes of a request by table, and what is wrong with the addresses of its messages."""

    tables: Sequence[TableChanges]
    problems: Sequence[Problem]
    withheld: str | None = None
    """The folded name of the first table that the caller may not touch."""


@dataclass(frozen=True, slots=True)
class RequestRouter:
    """Finds the tables of one caller's requests."""

    table_cache: TableCache
    principal: Principal

    def route(self, parsed: ParsedRequest) -> RoutedRequest:
        """Group a request by table. Problems are `unknown_table`, `table_mismatch` and `source_case_mismatch`."""
        by_table: dict[TableId, list[tuple[Table, SourceChanges]]] = {}
        problems: list[Problem] = []
        withheld: str | None = None
        requested = parsed.requested and self._destination(parsed.requested)
        for entry in parsed.sources:
            table = self.table_cache.visible(entry.source, self.principal)
            if requested is not None and self._destination(entry.source) != requested:
                detail = f"the message is addressed to {entry.source.without_catalog}, the request to another table"
                problems.extend(Problem(Code.TABLE_MISMATCH, detail, index, "/tableName") for index in entry.indexes)
            elif table is None:
                problem = self._unrouted(entry.source)
                problems.extend(replace(problem, index=index) for index in entry.indexes)
                withheld = withheld or self.table_cache.withheld(entry.source, self.principal)
            else:
                by_table.setdefault(table.table_id, []).append((table, entry))
        for parts in by_table.values():
            problems.extend(_catalog_problems(parts))
        return RoutedRequest([self._table_changes(parts) for parts in by_table.values()], problems, withheld)

    def _destination(self, source: SourceName) -> str:
        """Return the folded name of the table that a source feeds, the source's own where the caller has none."""
        table = self.table_cache.visible(source, self.principal)
        return source.without_catalog.folded if table is None else table.name.folded

    def _unrouted(self, source: SourceName) -> Problem:
        """Return why a source feeds no table that the caller may touch."""
        twin = self.table_cache.twin(source, self.principal)
        if twin is not None:
            return Problem(Code.SOURCE_CASE_MISMATCH, case_detail(source, twin), pointer="/tableName")
        try:
            return Problem(Code.UNKNOWN_TABLE, f"table {source.table} is not registered")
        except RejectedInput as error:
            return Problem(error.code, error.detail, pointer="/tableName")

    def _table_changes(self, parts: Sequence[tuple[Table, SourceChanges]]) -> TableChanges:
        table = parts[0][0]
        positions: Mapping[str, str] = {}
        if table.options.source_order is SourceOrder.ENFORCE:
            with translated_errors(), self.table_cache.begin() as connection:
                positions = source_positions(
                    connection, table.table_id, table.generation, {part.task for _, part in parts}
                )
        catalogs = (entry.source.catalog for _, entry in parts if entry.changes and not is_named(table, entry.source))
        new_catalog = next(filter(None, catalogs), None) if table.arcion_catalog is None else None
        return TableChanges(table, [entry for _, entry in parts], new_catalog, positions)


def _catalog_problems(parts: Sequence[tuple[Table, SourceChanges]]) -> list[Problem]:
    """Return the messages of a second catalog: one catalog feeds a table, besides those of its option `sources`."""
    pinned = parts[0][0].arcion_catalog
    problems = []
    for table, entry in parts:
        catalog = entry.source.catalog
        if catalog is None or is_named(table, entry.source):
            continue
        pinned = pinned or catalog
        if catalog != pinned:
            detail = f"another catalog than {pinned} feeds table {table.name}; its option `sources` can name both"
            problems += [Problem(Code.TABLE_MISMATCH, detail, index, "/tableName") for index in entry.indexes]
    return problems
