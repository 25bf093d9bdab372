"""Changes by source -> typed batches by table, under the tables as they are now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from app.domain.access import Principal
from app.domain.change import Change
from app.domain.landing_rows import landing_rows
from app.domain.names import TableName
from app.domain.schema_needs import needed_schema
from app.domain.source_order import in_source_order
from app.domain.table import Table, TableId
from app.domain.table_options import SourceName, SourceOrder
from app.errors import Code, Problem, RejectedInput
from app.ingest.directory import TableDirectory
from app.staging.database import translated_errors
from app.staging.source_positions import source_positions
from app.staging.table_registration import evolve_table
from app.staging.table_registry import pin_arcion_catalog
from app.staging.typed_batch import SourceAdvance, TypedBatch

log = structlog.get_logger()


@dataclass(slots=True)
class SourceChanges:
    """The changes of one source's table, in order, and the task that wrote them, where that is known."""

    source: SourceName
    changes: list[Change] = field(default_factory=list)
    task: str = ""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A request's changes by source, in order of first appearance, and the messages that were ignored."""

    sources: Sequence[SourceChanges]
    ignored: int = 0
    lines: Sequence[int] = ()
    """Where the messages begin in a body of lines, by their index."""
    requested: TableName | None = None
    """The table that every source must feed."""

    def refusal(self, problems: Sequence[Problem]) -> RejectedInput:
        """Problems found later than decoding, each with its line where there are lines."""
        ordered = sorted(problems, key=lambda problem: problem.index or 0)
        if self.lines:
            ordered = [replace(p, detail=f"line {self.lines[p.index or 0]}: {p.detail}") for p in ordered]
        return RejectedInput.of(tuple(ordered))


@dataclass(frozen=True, slots=True)
class TypedRequest:
    """The batches of a request in order, and how many changes were known before."""

    batches: list[TypedBatch]
    duplicates: int = 0


@dataclass(frozen=True, slots=True)
class _Feed:
    """All changes of a request for one table, in their order."""

    table: Table
    changes: Sequence[Change]
    task: str
    catalog: str | None
    positions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Routed:
    feeds: Sequence[_Feed]
    problems: Sequence[Problem]


@dataclass
class Typist:
    """Types requests of one caller."""

    directory: TableDirectory
    principal: Principal
    marker_first: bool = False

    def type_request(self, decoded: Decoded) -> TypedRequest:
        """Typed batches of every table. Raises RejectedInput with all problems of the whole request.

        A refusal counts only when the tables still are as they were last seen; otherwise the present ones decide.
        """
        routed = self._route(decoded)
        try:
            typed = _typed(decoded, routed)
        except RejectedInput:
            self.forget(decoded)
            present = self._route(decoded)
            if present == routed:
                raise
            typed = _typed(decoded, routed := present)
        if self._prepare(routed.feeds):
            self.forget(decoded)
            typed = _typed(decoded, self._route(decoded))
        return typed

    def forget(self, decoded: Decoded) -> None:
        """Look at the tables of this request again next time."""
        for entry in decoded.sources:
            self.directory.forget(entry.source)

    def _route(self, decoded: Decoded) -> _Routed:
        """The request by table; problems are `unknown_table` and `table_mismatch`."""
        feeds: dict[TableId, list[tuple[Table, SourceChanges]]] = {}
        problems: list[Problem] = []
        for entry in decoded.sources:
            table = self.directory.visible(entry.source, self.principal)
            name = entry.source.table if table is None else table.name
            if decoded.requested is not None and name.folded != decoded.requested.folded:
                detail = f"the message is addressed to {name}, the request to {decoded.requested}"
                problems.append(Problem(Code.TABLE_MISMATCH, detail, entry.changes[0].index, "/tableName"))
            elif table is None:
                detail = f"table {name} is not registered"
                problems.extend(Problem(Code.UNKNOWN_TABLE, detail, change.index) for change in entry.changes)
            else:
                feeds.setdefault(table.table_id, []).append((table, entry))
        for members in feeds.values():
            problems.extend(_catalog_problems(members))
        return _Routed([self._feed(members) for members in feeds.values()], problems)

    def _feed(self, members: Sequence[tuple[Table, SourceChanges]]) -> _Feed:
        table, first = members[0]
        changes: Sequence[Change] = first.changes
        if len(members) > 1:
            together = (change for _, entry in members for change in entry.changes)
            changes = sorted(together, key=lambda change: change.index)
        positions: Mapping[str, str] = {}
        if table.options.source_order is SourceOrder.ENFORCE:
            with translated_errors(), self.directory.begin() as connection:
                positions = source_positions(connection, table.table_id, table.generation)
        catalogs = (entry.source.catalog for _, entry in members if not _is_named(table, entry))
        return _Feed(table, changes, first.task, next(filter(None, catalogs), None), positions)

    def _prepare(self, feeds: Sequence[_Feed]) -> bool:
        """Give tables what typed changes need of them; whether that changed any."""
        changed = False
        for feed in feeds:
            schema = needed_schema(feed.changes, feed.table)
            if schema != feed.table.schema:
                with translated_errors(), self.directory.begin() as connection:
                    evolve_table(connection, feed.table, schema, marker_first=self.marker_first)
                log.info("table_evolved", table=str(feed.table.name), by="changes")
                changed = True
            if feed.catalog and feed.table.arcion_catalog is None:
                with translated_errors(), self.directory.begin() as connection:
                    pin_arcion_catalog(connection, feed.table.table_id, feed.catalog)
                changed = True
        return changed


def _typed(decoded: Decoded, routed: _Routed) -> TypedRequest:
    """Typed batches under these tables. Raises RejectedInput with every problem found."""
    batches: list[TypedBatch] = []
    problems = [*routed.problems]
    duplicates = 0
    for feed in routed.feeds:
        table = feed.table
        if not table.state.accepts_changes:
            raise RejectedInput(Code.TABLE_NOT_ACCEPTING, f"table {table.name} is {table.state}")
        try:
            changes, advance, known = _in_order(feed)
            duplicates += known
            if changes:
                rules = replace(table.row_rules, schema=needed_schema(changes, table))
                batches.append(TypedBatch(table, landing_rows(changes, rules), advance))
        except RejectedInput as error:
            problems.extend(error.problems or [Problem(error.code, error.detail)])
    if problems:
        raise decoded.refusal(problems)
    return TypedRequest(batches, duplicates)


def _in_order(feed: _Feed) -> tuple[Sequence[Change], SourceAdvance | None, int]:
    """The changes to land, how they move the source's position, and how many were known."""
    if feed.table.options.source_order is not SourceOrder.ENFORCE:
        return feed.changes, None, 0
    seen = feed.positions.get(feed.task)
    ordered = in_source_order(feed.changes, seen)
    moves = ordered.last is not None and ordered.last != seen
    advance = SourceAdvance(feed.task, seen, ordered.last) if moves and ordered.last else None
    return ordered.accepted, advance, ordered.duplicates


def _catalog_problems(members: Sequence[tuple[Table, SourceChanges]]) -> list[Problem]:
    """A table is fed by one catalog, besides those that its option `sources` names."""
    pinned = members[0][0].arcion_catalog
    problems = []
    for table, entry in members:
        catalog = entry.source.catalog
        if catalog is None or _is_named(table, entry):
            continue
        pinned = pinned or catalog
        if catalog != pinned:
            detail = f"another catalog than {pinned} feeds table {table.name}; its option `sources` can name both"
            problems += [Problem(Code.TABLE_MISMATCH, detail, change.index, "/tableName") for change in entry.changes]
    return problems


def _is_named(table: Table, entry: SourceChanges) -> bool:
    return any(SourceName.parse(name).folded == entry.source.folded for name in table.options.sources)
