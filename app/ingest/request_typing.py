"""Changes by source -> typed batches by table, under the tables as they are now."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import TypeAlias

import structlog

from app.domain.access.rights import Principal
from app.domain.model.change import Change
from app.domain.model.dead_letter import RejectedMessage
from app.domain.model.input_limits import long_values
from app.domain.model.source_name import SourceName
from app.domain.model.source_routing import case_detail, is_named
from app.domain.model.table import Table, TableId
from app.domain.model.table_options import DeadLetters, SourceOrder
from app.domain.model.table_schema import TableSchema
from app.domain.rows.landing_rows import RowRules, landing_rows
from app.domain.rows.schema_needs import needed_schema
from app.domain.rows.source_order import in_source_order
from app.errors import Code, Problem, RejectedInput
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import Batch, SourceAdvance, TableMoved
from app.staging.batches.source_positions import source_positions
from app.staging.batches.stage_transaction import check_gaps
from app.staging.connection.database import translated_errors
from app.staging.tables.registration import RegistrationOutcome, evolve_table
from app.staging.tables.registration_events import record_registration
from app.staging.tables.registry import pin_arcion_catalog

log = structlog.get_logger()

CheckBacklog: TypeAlias = Callable[[Table], None]
"""Raises TemporarilyUnavailable where a table may take no more changes now."""


@dataclass(frozen=True, slots=True)
class TypedRequest:
    """The batches of a request in order, and how many changes were known before."""

    batches: list[Batch]
    duplicates: int = 0
    needs: Sequence[tuple[Table, TableSchema]] = ()
    """The schemas that tables must have first."""
    rejected: Sequence[tuple[Table, Sequence[RejectedMessage]]] = ()
    """The messages to keep as dead letters, by table."""


@dataclass(frozen=True, slots=True)
class _Feed:
    """All changes of a request for one table, in their order."""

    table: Table
    parts: Sequence[SourceChanges]
    new_catalog: str | None
    """The catalog that the table is to be fed by from now on."""
    positions: Mapping[str, str]

    @property
    def rejected(self) -> list[RejectedMessage]:
        return sorted((entry for part in self.parts for entry in part.rejected), key=attrgetter("index"))


@dataclass(frozen=True, slots=True)
class _Routed:
    feeds: Sequence[_Feed]
    problems: Sequence[Problem]
    withheld: str | None = None
    """The first table that the caller may not touch."""


@dataclass
class RequestTyper:
    """Types requests of one caller."""

    table_cache: TableCache
    principal: Principal
    marker_first: bool = False
    check_backlog: CheckBacklog = lambda _: None

    def type_request(self, parsed: ParsedRequest) -> TypedRequest:
        """Typed batches of every table. Raises RejectedInput with all problems of the whole request.

        A rejection counts only when the tables still are as they were last seen; otherwise the present ones decide.
        Raises TableMoved when a table was given what the changes need and then lacks it again.
        """
        routed = self._route(parsed)
        try:
            typed = _typed(parsed, routed, self.check_backlog)
        except RejectedInput:
            self.forget(parsed)
            present = self._route(parsed)
            if present == routed:
                raise
            typed = _typed(parsed, routed := present, self.check_backlog)
        if self._prepare(parsed, typed, routed):
            self.forget(parsed)
            typed = _typed(parsed, self._route(parsed), self.check_backlog)
            if typed.needs:
                raise TableMoved
        return typed

    def forget(self, parsed: ParsedRequest) -> None:
        """Look at the tables of this request again next time."""
        for entry in parsed.sources:
            self.table_cache.forget(entry.source)
        if parsed.requested is not None:
            self.table_cache.forget(parsed.requested)

    def _route(self, parsed: ParsedRequest) -> _Routed:
        """The request by table; problems are `unknown_table` and `table_mismatch`."""
        feeds: dict[TableId, list[tuple[Table, SourceChanges]]] = {}
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
                feeds.setdefault(table.table_id, []).append((table, entry))
        for members in feeds.values():
            problems.extend(_catalog_problems(members))
        return _Routed([self._feed(members) for members in feeds.values()], problems, withheld)

    def _destination(self, source: SourceName) -> str:
        """The folded name of the table that a source feeds, its own where the caller sees none."""
        table = self.table_cache.visible(source, self.principal)
        return source.without_catalog.folded if table is None else table.name.folded

    def _unrouted(self, source: SourceName) -> Problem:
        """Say why a source feeds no table that the caller may touch."""
        twin = self.table_cache.twin(source, self.principal)
        if twin is not None:
            return Problem(Code.SOURCE_CASE_MISMATCH, case_detail(source, twin), pointer="/tableName")
        try:
            return Problem(Code.UNKNOWN_TABLE, f"table {source.table} is not registered")
        except RejectedInput as error:
            return Problem(error.code, error.detail, pointer="/tableName")

    def _feed(self, members: Sequence[tuple[Table, SourceChanges]]) -> _Feed:
        table = members[0][0]
        positions: Mapping[str, str] = {}
        if table.options.source_order is SourceOrder.ENFORCE:
            with translated_errors(), self.table_cache.begin() as connection:
                positions = source_positions(
                    connection, table.table_id, table.generation, {part.task for _, part in members}
                )
        catalogs = (entry.source.catalog for _, entry in members if entry.changes and not is_named(table, entry.source))
        new_catalog = next(filter(None, catalogs), None) if table.arcion_catalog is None else None
        return _Feed(table, [entry for _, entry in members], new_catalog, positions)

    def _prepare(self, parsed: ParsedRequest, typed: TypedRequest, routed: _Routed) -> bool:
        """Give tables what typed changes need of them; whether there was anything to give.

        No table changes for a request that staging would reject.
        """
        pins = [(feed.table, feed.new_catalog) for feed in routed.feeds if feed.new_catalog is not None]
        if not typed.needs and not pins:
            return False
        try:
            with translated_errors(), self.table_cache.begin() as connection:
                check_gaps(connection, typed.batches)
        except RejectedInput as error:
            raise parsed.rejection(error.problems) from error
        for table, schema in typed.needs:
            with translated_errors(), self.table_cache.begin() as connection:
                registration = evolve_table(connection, table, schema, marker_first=self.marker_first)
                record_registration(connection, registration, self.principal.key_id, "changes")
            if registration.outcome is RegistrationOutcome.EVOLVED:
                log.info("table_evolved", table=str(table.name), by="changes")
        for table, catalog in pins:
            with translated_errors(), self.table_cache.begin() as connection:
                pin_arcion_catalog(connection, table.table_id, catalog)
        return True


def _typed(parsed: ParsedRequest, routed: _Routed, check_backlog: CheckBacklog) -> TypedRequest:
    """Typed batches under these tables. Raises RejectedInput with every problem found."""
    batches: list[Batch] = []
    needs: list[tuple[Table, TableSchema]] = []
    problems = [*routed.problems]
    rejected: list[tuple[Table, Sequence[RejectedMessage]]] = []
    not_kept: list[RejectedMessage] = []
    duplicates = 0
    for feed in routed.feeds:
        table = feed.table
        if not table.state.accepts_changes:
            raise RejectedInput(Code.TABLE_NOT_ACCEPTING, f"table {table.name} is {table.state}")
        if table.options.dead_letters is not DeadLetters.ACCEPT:
            not_kept += feed.rejected
        elif feed.rejected:
            rejected.append((table, feed.rejected))
        try:
            changes, advances, known = _in_order(feed)
            duplicates += known
            if parsed.max_value_bytes is not None:
                problems.extend(long_values(changes, table.options.exclude, parsed.max_value_bytes))
            if changes:
                check_backlog(table)
                schema = needed_schema(changes, table)
                if schema != table.schema:
                    needs.append((table, schema))
                rows = landing_rows(changes, replace(RowRules.of(table), schema=schema))
                batches.append(Batch(replace(table, schema=schema), rows, advances))
        except RejectedInput as error:
            found = error.problems or [Problem(error.code, error.detail)]
            problems.extend(replace(problem, table=str(table.name)) for problem in found)
    if problems or not_kept:
        raise parsed.rejection(problems, not_kept, withheld=routed.withheld)
    return TypedRequest(batches, duplicates, needs, rejected)


def _in_order(feed: _Feed) -> tuple[Sequence[Change], Sequence[SourceAdvance], int]:
    """The changes to land, how they move the positions of their tasks, and how many were known."""
    if feed.table.options.source_order is not SourceOrder.ENFORCE:
        return _merged([part.changes for part in feed.parts]), (), 0
    by_task: dict[str, list[Sequence[Change]]] = {}
    for part in feed.parts:
        by_task.setdefault(part.task, []).append(part.changes)
    accepted: list[Sequence[Change]] = []
    advances: list[SourceAdvance] = []
    problems: list[Problem] = []
    duplicates = 0
    for task, parts in by_task.items():
        seen = feed.positions.get(task)
        try:
            ordered = in_source_order(_merged(parts), seen)
        except RejectedInput as error:
            problems.extend(error.problems)
            continue
        accepted.append(ordered.accepted)
        duplicates += ordered.duplicates
        if ordered.last is not None and ordered.last != seen:
            advances.append(SourceAdvance(task, seen, ordered.last))
    if problems:
        raise RejectedInput.of(tuple(problems))
    return _merged(accepted), advances, duplicates


def _merged(parts: Sequence[Sequence[Change]]) -> Sequence[Change]:
    """The changes of several parts in the order of the request."""
    return parts[0] if len(parts) == 1 else sorted(chain.from_iterable(parts), key=attrgetter("index"))


def _catalog_problems(members: Sequence[tuple[Table, SourceChanges]]) -> list[Problem]:
    """A table is fed by one catalog, besides those that its option `sources` names."""
    pinned = members[0][0].arcion_catalog
    problems = []
    for table, entry in members:
        catalog = entry.source.catalog
        if catalog is None or is_named(table, entry.source):
            continue
        pinned = pinned or catalog
        if catalog != pinned:
            detail = f"another catalog than {pinned} feeds table {table.name}; its option `sources` can name both"
            problems += [Problem(Code.TABLE_MISMATCH, detail, index, "/tableName") for index in entry.indexes]
    return problems
