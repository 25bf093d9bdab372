"""Types the changes of a request: by source -> typed batches by table, under the tables as they are now.

Invariant: a table changes only for a request that typing and the size checks accept. What changes need of a table (new
columns, a row marker, a catalog) is committed before the request is staged, and stays if the request then fails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import TypeAlias

import structlog

from app.domain.access.rights import Principal
from app.domain.model.change import Change
from app.domain.model.dead_letter import RejectedMessage
from app.domain.model.input_limits import UNLIMITED, long_values
from app.domain.model.table import Table
from app.domain.model.table_options import DeadLetters, SourceOrder
from app.domain.model.table_schema import TableSchema
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.projection.landed_bytes import row_bytes
from app.domain.rows.schema_needs import needed_schema
from app.domain.rows.source_order import in_source_order
from app.errors import Code, Problem, RejectedInput
from app.ingest.moved_tables import give_marker
from app.ingest.parsed_request import ParsedRequest
from app.ingest.request_routing import RequestRouter, RoutedRequest, TableChanges
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import Batch, SourceAdvance, TableMoved
from app.staging.batches.stage_transaction import check_gaps
from app.staging.connection.database import translated_errors
from app.staging.tables.registration import RegistrationOutcome, evolve_table
from app.staging.tables.registration_events import record_registration
from app.staging.tables.registry import pin_arcion_catalog

log = structlog.get_logger()

CheckBacklog: TypeAlias = Callable[[Table], None]
"""Raises TemporarilyUnavailable if a table can take no more changes now."""


@dataclass(frozen=True, slots=True)
class TypedRequest:
    """The batches of a request in order, and how many of its changes were accepted before."""

    batches: list[Batch]
    duplicates: int = 0
    needs: Sequence[tuple[Table, TableSchema]] = ()
    """The schemas that tables must have before the batches can be staged."""
    rejected: Sequence[tuple[Table, Sequence[RejectedMessage]]] = ()
    """The messages to keep as dead letters, by table."""


@dataclass
class RequestTyper:
    """Types requests of one caller."""

    table_cache: TableCache
    principal: Principal
    check_backlog: CheckBacklog = lambda _: None
    in_load: bool = False
    """True for the rows of a load session, which no source orders."""
    reserve: Callable[[int], None] = UNLIMITED.reserve
    """Reserves memory for the rows, see `InputLimits`."""
    _router: RequestRouter = field(init=False)

    def __post_init__(self) -> None:
        self._router = RequestRouter(self.table_cache, self.principal)

    def type_request(self, parsed: ParsedRequest) -> TypedRequest:
        """Return typed batches for all tables. Raises RejectedInput with all problems of the whole request.

        A rejection counts only if the tables have not changed since they were cached; otherwise the request is typed
        again with the present ones. Raises TableMoved if a table lacks what this request had just given it.
        """
        routed = self._router.route(parsed)
        try:
            typed = self._typed(parsed, routed)
        except RejectedInput:
            self.forget(parsed)
            present = self._router.route(parsed)
            if present == routed:
                raise
            typed = self._typed(parsed, routed := present)
        try:
            is_changed = self._change_tables(parsed, typed, routed)
        except TableMoved:
            self.forget(parsed)
            raise
        if is_changed:
            self.forget(parsed)
            typed = self._typed(parsed, self._router.route(parsed))
            if typed.needs:
                raise TableMoved
        return typed

    def forget(self, parsed: ParsedRequest) -> None:
        """Query the tables of this request the next time."""
        for entry in parsed.sources:
            self.table_cache.forget(entry.source)
        if parsed.requested is not None:
            self.table_cache.forget(parsed.requested)

    def give_marker(self, table: Table) -> None:
        """Give a table whose files have no row marker one. Raises TableMoved."""
        give_marker(table, self.table_cache, self.principal)

    def _typed(self, parsed: ParsedRequest, routed: RoutedRequest) -> TypedRequest:
        """Return typed batches under these tables. Raises RejectedInput with every problem found."""
        batches: list[Batch] = []
        needs: list[tuple[Table, TableSchema]] = []
        problems = [*routed.problems]
        rejected: list[tuple[Table, Sequence[RejectedMessage]]] = []
        not_kept: list[RejectedMessage] = []
        keeping_none: list[str] = []
        duplicates = row_memory = 0
        for part in routed.tables:
            table = part.table
            if not table.state.accepts_changes:
                raise RejectedInput(Code.TABLE_NOT_ACCEPTING, f"table {table.name} is {table.state}")
            if part.rejected and table.options.dead_letters is DeadLetters.ACCEPT:
                rejected.append((table, part.rejected))
            elif part.rejected:
                not_kept += part.rejected
                keeping_none.append(str(table.name))
            try:
                changes, advances, known = _in_order(part, in_load=self.in_load)
                duplicates += known
                if parsed.max_value_bytes is not None:
                    problems.extend(long_values(changes, table.options.exclude, parsed.max_value_bytes))
                if changes:
                    self.check_backlog(table)
                    schema = needed_schema(changes, table)
                    if schema != table.schema:
                        needs.append((table, schema))
                    rules = replace(self.table_cache.rules(table, in_load=self.in_load), schema=schema)
                    self.reserve(row_memory + len(changes) * row_bytes(rules))
                    rows = landing_rows(changes, rules)
                    row_memory += rows.rows * row_bytes(rules)
                    self.reserve(row_memory)
                    batches.append(Batch(replace(table, schema=schema), rows, advances))
            except RejectedInput as error:
                found = error.problems or [Problem(error.code, error.detail)]
                problems.extend(replace(problem, table=str(table.name)) for problem in found)
        if problems or not_kept:
            rejection = parsed.rejection(problems, not_kept, withheld=routed.withheld)
            raise _without_dead_letters(rejection, keeping_none) if not_kept else rejection
        return TypedRequest(batches, duplicates, needs, rejected)

    def _change_tables(self, parsed: ParsedRequest, typed: TypedRequest, routed: RoutedRequest) -> bool:
        """Give tables what the typed changes need of them; return whether there was anything to give.

        No table changes for a request that staging would reject. Raises TableMoved if a table is not as it was cached.
        """
        pins = [(part.table, part.new_catalog) for part in routed.tables if part.new_catalog is not None]
        if not typed.needs and not pins:
            return False
        try:
            with translated_errors(), self.table_cache.begin() as connection:
                check_gaps(connection, typed.batches)
        except RejectedInput as error:
            raise parsed.rejection(error.problems) from error
        for table, schema in typed.needs:
            with translated_errors(), self.table_cache.begin() as connection:
                registration = evolve_table(connection, table, schema, marker_first=self.table_cache.marker_first)
                record_registration(connection, registration, self.principal.key_id, "changes")
            if registration.outcome is RegistrationOutcome.EVOLVED:
                log.info("table_evolved", table=str(table.name), by="changes")
        for table, catalog in pins:
            with translated_errors(), self.table_cache.begin() as connection:
                pin_arcion_catalog(connection, table.table_id, catalog)
        return True


def _without_dead_letters(error: RejectedInput, tables: Sequence[str]) -> RejectedInput:
    """Return the rejection of messages that a request wanted to set aside, for tables that keep none."""
    detail = f"{error.detail}; table {tables[0]} keeps no dead letters: its option dead_letters is reject"
    return RejectedInput(error.code, detail, problems=error.problems, withheld=error.withheld)


def _in_order(part: TableChanges, *, in_load: bool) -> tuple[Sequence[Change], Sequence[SourceAdvance], int]:
    """Return the changes to land, the new positions of their tasks, and how many changes were accepted before."""
    if in_load or part.table.options.source_order is not SourceOrder.ENFORCE:
        return _merged([entry.changes for entry in part.parts]), (), 0
    by_task: dict[str, list[Sequence[Change]]] = {}
    for entry in part.parts:
        by_task.setdefault(entry.task, []).append(entry.changes)
    accepted: list[Sequence[Change]] = []
    advances: list[SourceAdvance] = []
    problems: list[Problem] = []
    duplicates = 0
    for task, parts in by_task.items():
        seen = part.positions.get(task)
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
    """Return the changes of several parts in the order of the request."""
    return parts[0] if len(parts) == 1 else sorted(chain.from_iterable(parts), key=attrgetter("index"))
