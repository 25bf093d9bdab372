"""Types the changes of a request: by source -> typed batches by table, under the tables as they are now.

`RequestRouter` groups the changes of a request by destination table, with what typing needs to know of each table.
`RequestTyper` types them. Invariant: a table changes only for a request that typing and the size checks accept. Changes
that a table needs (new columns, a row marker, a catalog) are committed before the request is staged, and remain if the
request then fails.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TypeAlias

import structlog

from app.domain.access.rights import Principal
from app.domain.model.change import UNLIMITED, Change, Operation, counts_of, long_values
from app.domain.model.dead_letter import RejectedMessage
from app.domain.model.names import SourceName, check_new_column_name
from app.domain.model.table import Table, TableId, case_detail, is_named
from app.domain.model.table_options import DeadLetters, NewColumns, SourceOrder, TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema, TypeName
from app.domain.rows.landing_projection import row_bytes
from app.domain.rows.landing_rows import LandingRows, landing_rows
from app.domain.rows.row_rules import RowRules
from app.domain.rows.source_order import OrderedChanges, Reached, in_source_order, position_key, row_identities
from app.ingest.changed_tables import give_marker
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import Batch, TableMoved
from app.staging.batches.sequence_lock import source_positions
from app.staging.batches.stage_transaction import check_gaps
from app.staging.connection.database import translated_errors
from app.staging.tables.registration import RegistrationOutcome, evolve_table, record_registration
from app.staging.tables.registry import pin_arcion_catalog
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

log = structlog.get_logger()


_TEXT = ColumnType(TypeName.STRING)


def needed_schema(changes: Sequence[Change], table: Table) -> TableSchema:
    """Return the table's schema, or the one that these changes need and its options allow.

    Raises RejectedInput `bad_name`, `reserved_name` or `bad_schema` for each new column that no file can have.
    """
    schema = table.schema
    if table.options.new_columns is NewColumns.ADD_AS_STRING:
        schema = _with_new_columns(changes, schema, table.options)
    if schema.can_need_marker and not _all_inserts(changes, cdc_started=table.cdc_started):
        schema = replace(schema, bare=False)
    return schema


def _with_new_columns(changes: Sequence[Change], schema: TableSchema, options: TableOptions) -> TableSchema:
    """Return the schema with a nullable column for each unknown name of a new image, in order of appearance.

    It is a string column unless the options override its type.
    """
    known = {*schema.names, *options.exclude}
    new: dict[str, Change] = {}
    for change in changes:
        if change.operation is not Operation.DELETE and change.after and not known.issuperset(change.after):
            for name in change.after:
                if name not in known:
                    new.setdefault(name, change)
    if not new:
        return schema
    problems = [*_wrong_names(new, schema)]
    if problems:
        raise RejectedInput.of(tuple(problems))
    declared = options.declared(TableSchema(tuple(Column(name, _TEXT) for name in new)))
    added = tuple(replace(column, nullable=True) for column in declared.columns)
    return replace(schema, columns=schema.columns + added)


def _wrong_names(new: dict[str, Change], schema: TableSchema) -> Iterable[Problem]:
    """Yield the problems of new columns whose names are not allowed or already taken."""
    taken = {name.casefold() for name in (*schema.names, *schema.landing.names)}
    for name, change in new.items():
        try:
            check_new_column_name(name)
            if name.casefold() in taken:
                detail = "another column has the same name (letter case does not count)"
                raise RejectedInput(Code.BAD_SCHEMA, detail)
        except RejectedInput as error:
            yield Problem(error.code, error.detail, change.index, pointer_to(change.after_at, name), name)
        taken.add(name.casefold())


def _all_inserts(changes: Sequence[Change], *, cdc_started: bool) -> bool:
    """Return True if all rows land as inserts; a snapshot row after other changes lands as an upsert."""
    for change in changes:
        if change.operation is Operation.INSERT:
            cdc_started = True
        elif cdc_started or change.operation is not Operation.SNAPSHOT:
            return False
    return True


@dataclass(frozen=True, slots=True)
class TableChanges:
    """All changes of a request for one table, in the order of the request."""

    table: Table
    parts: Sequence[SourceChanges]
    new_catalog: str | None
    """The catalog that feeds the table from this request on, if it had none."""
    positions: Mapping[str, Reached]
    """Positions up to which each log of the source is accepted, for a table that enforces the source's order."""

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
    """Router of one caller's requests to tables."""

    table_cache: TableCache
    principal: Principal

    def route(self, parsed: ParsedRequest) -> RoutedRequest:
        """Group a request by table, with `unknown_table` and other problems of its addresses. Raises TableMoved."""
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
            elif entry.read_under not in {None, (table.generation, table.revision)}:
                raise TableMoved
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
        positions: Mapping[str, Reached] = {}
        if table.options.source_order is SourceOrder.ENFORCE:
            of_changes = (position_key(change, part.task) for _, part in parts for change in part.changes)
            keys = {key for key in of_changes if key is not None}
            with translated_errors(), self.table_cache.begin() as connection:
                wanted = {(table.table_id, table.generation, key) for key in keys}
                reached = source_positions(connection, wanted)
            positions = {key: position for (_, _, key), position in reached.items()}
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
    """Typing of one caller's requests."""

    table_cache: TableCache
    principal: Principal
    check_backlog: CheckBacklog = lambda _: None
    in_load: bool = False
    """True for the rows of a load session, which no source orders."""
    replays: bool = False
    """True for the message of a dead letter."""
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
                ordered = self._in_order(part)
                changes = ordered.accepted
                duplicates += ordered.duplicates
                if parsed.max_value_bytes is not None:
                    problems.extend(long_values(changes, table.options.exclude, parsed.max_value_bytes))
                if changes:
                    self.check_backlog(table)
                    schema = needed_schema(changes, table)
                    if schema != table.schema:
                        needs.append((table, schema))
                    rules = replace(self.table_cache.rules(table, in_load=self.in_load), schema=schema)
                    self.reserve(row_memory + len(changes) * row_bytes(rules))
                    rows = self._with_counts(part, landing_rows(changes, rules))
                    row_memory += rows.rows * row_bytes(rules)
                    self.reserve(row_memory)
                    advances = ordered.advances(part.positions, partial(_identities, rules))
                    batches.append(Batch(replace(table, schema=schema), rows, advances))
            except RejectedInput as error:
                found = error.problems or [Problem(error.code, error.detail)]
                problems.extend(replace(problem, table=str(table.name)) for problem in found)
        if problems or not_kept:
            rejection = parsed.rejection(problems, not_kept, withheld=routed.withheld)
            raise _without_dead_letters(rejection, keeping_none) if not_kept else rejection
        return TypedRequest(batches, duplicates, needs, rejected)

    def _with_counts(self, part: TableChanges, rows: LandingRows) -> LandingRows:
        """Return the rows with the counts of operations of all messages for the table, also of those that do not land.

        The message of a dead letter was counted when it arrived.
        """
        told = _merged([entry.changes for entry in part.parts])
        counts = None if self.replays else counts_of(told, len(part.rejected))
        return rows if counts is None else replace(rows, progress=rows.progress._replace(counts=counts))

    def _in_order(self, part: TableChanges) -> OrderedChanges:
        """Return the changes to land, without those that were accepted before."""
        table = part.table
        if self.in_load or table.options.source_order is not SourceOrder.ENFORCE:
            return OrderedChanges(_merged([entry.changes for entry in part.parts]), 0, {})
        told = [(entry.task, change) for entry in part.parts for change in entry.changes]
        rules = self.table_cache.rules(table)

        def identify(changes: Sequence[Change]) -> Sequence[str]:
            return _identities(replace(rules, schema=needed_schema(changes, table)), changes)

        return in_source_order(sorted(told, key=lambda one: one[1].index), part.positions, identify)

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


def _identities(rules: RowRules, changes: Sequence[Change]) -> Sequence[str]:
    """Return what tells the landing rows of changes apart: of two rows of a change, the last one counts."""
    rows = landing_rows(changes, rules)
    if rows.rows == len(changes):
        return row_identities(rows.batch, range(rows.rows))
    alone = [landing_rows([change], rules) for change in changes]
    return [row_identities(one.batch, [one.rows - 1])[0] for one in alone]


def _merged(parts: Sequence[Sequence[Change]]) -> Sequence[Change]:
    """Return the changes of several parts in the order of the request."""
    return parts[0] if len(parts) == 1 else sorted(chain.from_iterable(parts), key=attrgetter("index"))
