"""Bodies of Debezium's events: Connect schemas register and evolve tables, then records are routed to them and read.

`app.formats.debezium` reads the events and says what a schema needs; this module asks the database.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Final

import structlog

from app.domain.access.rights import Principal, Right
from app.domain.model.dead_letter import LetterFormat, RejectedMessage, is_kept
from app.domain.model.names import SourceName, TableName, unknown_table
from app.domain.model.table import Table, case_detail
from app.domain.rows.row_rules import KeptByTable, RowRules
from app.domain.rows.source_order import order_key
from app.formats.columnar import NotColumnar
from app.formats.debezium.columnar_events import EventBody, EventPart, decode_events
from app.formats.debezium.columnar_images import EventReader
from app.formats.debezium.connect_schema import (
    ConnectField,
    check_keys,
    filled_columns,
    renamed_columns,
    row_fields,
    wanted_schema,
)
from app.formats.debezium.messages import RecordReader, unread_change
from app.formats.debezium.records import ChangeRecord, DebeziumRecords, decode_debezium
from app.formats.debezium.values import PLAIN_READING, DebeziumReading, Tombstones
from app.ingest.changed_tables import log_registration, register
from app.ingest.columnar import Decline, Declined, OpenedBody, TablePart, eligible_table
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.readers.body_reader import BodyReader
from app.ingest.table_cache import NotCached, TableCache
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.database import Connection, translated_errors
from app.staging.tables.registration import find_locked_table
from mirrorgate.errors import Code, Problem, RejectedInput

log = structlog.get_logger()


_BY: Final = "Connect schema"


def register_schema(
    table_cache: TableCache,
    principal: Principal,
    name: TableName,
    fields: Sequence[ConnectField],
    keys: Sequence[str] | None,
    *,
    after_rows: bool = False,
) -> None:
    """Bring a table to what rows of these fields need. Repeating it changes nothing.

    `after_rows` says that the request has rows of an older schema, which lack new columns as stored rows do.

    A crash before COMMIT leaves the table as it was. Raises RejectedInput.
    """
    with translated_errors(), table_cache.begin() as connection:
        present = find_locked_table(connection, name)
        wanted = wanted_schema(fields, keys, present)
        if wanted is None:
            return
        if present is not None:
            _check_renames(connection, fields, present)
        filled = frozenset() if present is None else filled_columns(fields, present)
        source, rows = SourceName.address(name), {"filled": filled, "after_rows": after_rows}
        registration = register(connection, table_cache, principal, source, wanted, _BY, **rows)
    log_registration(registration, _BY)
    lacking = sorted(filled.intersection(registration.table.late_columns))
    if lacking:
        log.warning("rows_lack_columns", table=str(name), columns=lacking, remedy="Load the table again.")


def _check_renames(connection: Connection, fields: Sequence[ConnectField], present: Table) -> None:
    """Raise RejectedInput `column_renamed`, unless the table has accepted no row yet and so has nothing to lose."""
    for old, new in renamed_columns(fields, present):
        if lock_counters(connection, [present.table_id])[present.table_id].last_sequence:
            raise RejectedInput(Code.COLUMN_RENAMED, f"column {old!r} seems to have been renamed to {new!r}")


@dataclass(slots=True)
class _Feed:
    """The records that go to one table, and the name under which the request finds it."""

    source: SourceName
    table: Table | None
    records: list[ChangeRecord] = field(default_factory=list)
    rejected: list[RejectedMessage] = field(default_factory=list)


@dataclass
class DebeziumTables:
    """The tables of one Debezium request."""

    table_cache: TableCache
    principal: Principal
    reading: DebeziumReading
    keep_rejected: bool = False
    """Set wrong messages aside instead of rejecting the request."""
    _feeds: dict[SourceName, _Feed] = field(default_factory=dict)
    _destinations: dict[SourceName | None, SourceName] = field(default_factory=dict)

    def route(self, decoded: DebeziumRecords, requested: TableName | None) -> list[SourceChanges]:
        """Return the changes by table; `requested` is `?table=`.

        A message feeds the table of the source that it names; where that feeds none, `?table=` decides. Raises
        RejectedInput naming every message whose table, schema or values do not fit.
        """
        problems: list[Problem] = []
        for record in decoded.records:
            feed = self._feed(record.source, requested, record.index, problems)
            if feed is not None:
                feed.records.append(record)
        for entry in decoded.rejected:
            feed = self._feed(entry.source, requested, entry.index, problems)
            if feed is not None:
                feed.rejected.append(RejectedMessage(entry.index, entry.problems))
        if problems:
            raise RejectedInput.of(tuple(problems))
        for feed in self._feeds.values():
            self._register_all(feed)
        changes = [self._changes(feed, problems) for feed in self._feeds.values()]
        if problems:
            raise RejectedInput.of(tuple(sorted(problems, key=lambda problem: problem.index or 0)))
        return changes

    def _feed(
        self, source: SourceName | None, requested: TableName | None, index: int, problems: list[Problem]
    ) -> _Feed | None:
        try:
            if source not in self._destinations:
                self._destinations[source] = self._destination(source, requested)
        except RejectedInput as error:
            problems.append(Problem(error.code, error.detail, index, ""))
            return None
        return self._feeds[self._destinations[source]]

    def _destination(self, source: SourceName | None, requested: TableName | None) -> SourceName:
        """Return the name under which a source's table is found, and remember its feed."""
        asked = SourceName.address(requested) if requested is not None else None
        own = None if source is None else self._visible(source, requested)
        named = None if asked is None else self._visible(asked, None)
        if own is not None and asked is not None and (named is None or named.table_id != own.table_id):
            detail = f"the message is of {source}, which feeds table {own.name}, but `table` names another table"
            raise RejectedInput(Code.TABLE_MISMATCH, detail)
        found, name = (own, source) if own is not None or asked is None else (named, asked)
        if name is None:
            raise RejectedInput(Code.UNKNOWN_TABLE, "the message names no table; give the parameter `table`")
        if found is not None:
            name = SourceName.address(found.name)
        else:
            _ = name.table  # raises `bad_name` for a name that no table can have
        self._feeds.setdefault(name, _Feed(name, found))
        return name

    def _visible(self, source: SourceName, requested: TableName | None) -> Table | None:
        """Return the table that a source feeds now. Raises RejectedInput `source_case_mismatch`."""
        table = self.table_cache.refresh(source)
        if table is not None:
            return table if self.principal.may_touch(table.name) else None
        twin = self.table_cache.twin(source, self.principal)
        if twin is not None and (requested is None or requested.folded == twin.name.folded):
            raise RejectedInput(Code.SOURCE_CASE_MISMATCH, case_detail(source, twin))
        return None

    def _register_all(self, feed: _Feed) -> None:
        """Register what the schemas of a feed's records declare, each once, in the order of the request."""
        seen: set[tuple[int, bool, tuple[str, ...] | None]] = set()
        has_rows = False
        for record in feed.records:
            after_rows, has_rows = has_rows, has_rows or record.after is not None
            if record.row is None:
                continue
            keys = self._keys(record)
            told = (id(record.row), record.is_flattened, keys)
            if told not in seen:
                seen.add(told)
                try:
                    self._register(feed, record, keys, after_rows=after_rows)
                except RejectedInput as error:
                    if error.code is Code.FORBIDDEN:
                        raise
                    problem = Problem(error.code, error.detail, record.index, record.after_at)
                    raise RejectedInput.of((problem,), withheld=error.withheld) from None

    def _register(self, feed: _Feed, record: ChangeRecord, keys: Sequence[str] | None, *, after_rows: bool) -> None:
        """Register what a record needs; `after_rows` if the request has rows of an older schema before it."""
        assert record.row is not None
        if feed.table is not None:
            check_keys(keys, feed.table)
        fields = row_fields(record.row, feed.table, is_flattened=record.is_flattened)
        if wanted_schema(fields, keys, feed.table) is None:
            return
        name = feed.source.table if feed.table is None else feed.table.name
        if not self.principal.may_touch(name):
            raise unknown_table(name, withheld=name.folded)
        if not self.principal.may(Right.REGISTER, name):
            detail = "the schema of the messages changes a table, which needs a key with the right `register`"
            raise RejectedInput(Code.FORBIDDEN, detail)
        register_schema(
            self.table_cache,
            self.principal,
            name,
            fields,
            keys,
            after_rows=after_rows,
        )
        self.table_cache.forget_table(name)
        feed.source = SourceName.address(name)
        feed.table = self.table_cache.refresh(feed.source)

    def _keys(self, record: ChangeRecord) -> tuple[str, ...] | None:
        """Return the key columns that the request or the record names."""
        return self.reading.key_columns or (None if record.key is None else record.key.names)

    def _changes(self, feed: _Feed, problems: list[Problem]) -> SourceChanges:
        """Return the changes of a feed; a table that does not exist is a problem of the routing that follows."""
        if feed.table is None:
            return SourceChanges(feed.source, [unread_change(record) for record in feed.records], "", feed.rejected)
        reader = RecordReader(feed.table, self.reading)
        changes = SourceChanges(feed.source, [], "", feed.rejected, (feed.table.generation, feed.table.revision))
        for record in feed.records:
            try:
                self._check_keys(record, feed.table)
                changes.changes.append(reader.change(record))
            except RejectedInput as error:
                found = tuple(replace(problem, table=str(feed.table.name)) for problem in error.problems)
                if self.keep_rejected and is_kept(found):
                    changes.rejected.append(RejectedMessage(record.index, found))
                else:
                    problems.extend(found)
        return changes

    def _check_keys(self, record: ChangeRecord, table: Table) -> None:
        try:
            check_keys(self._keys(record), table)
        except RejectedInput as error:
            raise RejectedInput.at(error.code, error.detail, record.index, "") from None


@dataclass(frozen=True, slots=True)
class DebeziumJson(BodyReader):
    """A Debezium body. Its Connect schemas register tables; the columnar path needs tables that are as they declare."""

    source_format: ClassVar = LetterFormat.DEBEZIUM
    table: TableName | None = None
    reading: DebeziumReading = PLAIN_READING
    unrouted: set[SourceName] = field(default_factory=set, init=False, compare=False)
    """Sources that fed no table when a query asked for this request, which therefore go where `?table=` says."""

    @property
    def reads_rows(self) -> bool:
        """True if the request names the table: a row is then a flattened event."""
        return self.table is not None

    def exact(self, table_cache: TableCache, principal: Principal) -> ParsedRequest:
        """Decode event by event."""
        keep = self.keep_rejected
        names_table = self.table is not None
        decoded = decode_debezium(self.body, self.reading, self.limits, keep_rejected=keep, names_table=names_table)
        sources = DebeziumTables(table_cache, principal, self.reading, keep).route(decoded, self.table)
        for source in sources:
            source.task = order_key("", self.partition)
        written = partial(self.written_json, self.reading.to_json()) if keep else None
        return ParsedRequest(sources, decoded.ignored, written=written, max_value_bytes=self.max_value_bytes)

    def _opened(self, principal: Principal, table_cache: TableCache) -> OpenedBody:
        decoded = self._decoded()
        parts = []
        for part in decoded.parts:
            table = self._table(part.source, principal, table_cache)
            reader, task = self._reader(table, part), order_key("", self.partition)
            parts.append(TablePart(table, reader, part.columns, len(part.columns.operations), task=task))
        return OpenedBody(parts, ignored=decoded.ignored)

    def _table(self, source: SourceName | None, principal: Principal, table_cache: TableCache) -> Table:
        """Return the table that a source feeds, or else that of `?table=`. Raises NotCached or Declined."""
        requested = SourceName.address(self.table) if self.table else None
        if source is None or source in self.unrouted:
            source = requested
        if source is None:
            raise Declined(Decline.TABLE)
        try:
            return eligible_table(source, requested, table_cache, principal)
        except NotCached:
            if requested is None or requested == source:
                raise
            raise NotCached(partial(self._look_up, source, requested, principal, table_cache)) from None

    def _look_up(
        self, source: SourceName, requested: SourceName, principal: Principal, table_cache: TableCache
    ) -> Table | None:
        """Find the tables of a source and of `?table=`; None if only the exact path can tell where the events go."""
        if table_cache.route(source) is None:
            if table_cache.twin(source, principal) is not None:
                return None
            self.unrouted.add(source)
        return table_cache.route(requested)

    def _decoded(self) -> EventBody:
        if self.max_value_bytes is not None:
            raise Declined(Decline.BODY)
        try:
            decoded = decode_events(self.body, self.reading.keyed)
        except (NotColumnar, RecursionError):
            raise Declined(Decline.BODY) from None
        means_nothing = {Tombstones.IGNORE, None} if decoded.marks_deletes else {Tombstones.IGNORE}
        if decoded.messages > self.limits.messages or (
            decoded.ignored and self.reading.tombstones not in means_nothing
        ):
            raise Declined(Decline.BODY)
        return decoded

    def _reader(self, table: Table, part: EventPart) -> EventReader:
        """Return the reader of a table's events with this schema and key. Raises Declined if the table must change."""
        keys = self.reading.key_columns or part.keys
        rules, key = RowRules.of(table), (part.row, part.added, keys, self.reading, table.left_columns)
        return _READERS.get(rules, key) or _READERS.keep(rules, key, _reader_of(table, part, keys, self.reading))


_READERS: Final = KeptByTable[EventReader]()


def _reader_of(table: Table, part: EventPart, keys: tuple[str, ...] | None, reading: DebeziumReading) -> EventReader:
    try:
        check_keys(keys, table)
        fields = [] if part.row is None else row_fields(part.row, table, is_flattened=part.added is not None)
        if part.row is not None and wanted_schema(fields, keys, table) is not None:
            raise Declined(Decline.TABLE)
        return EventReader(table, part.row, reading, part.added)
    except (RejectedInput, ValueError):
        raise Declined(Decline.TABLE) from None
