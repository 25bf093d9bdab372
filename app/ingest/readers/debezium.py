"""Bodies of Debezium's events."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import LetterFormat
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Table
from app.domain.rows.row_rules import KeptByTable, RowRules
from app.domain.rows.source_order import order_key
from app.formats.columnar import NotColumnar
from app.formats.debezium.columnar_events import EventBody, EventPart, decode_events
from app.formats.debezium.columnar_images import EventReader
from app.formats.debezium.connect_schema import check_keys, row_fields, wanted_schema
from app.formats.debezium.records import decode_debezium
from app.formats.debezium.values import PLAIN_READING, DebeziumReading, Tombstones
from app.ingest.columnar import Asked, Decline, Declined, Opened, OpenedBody, TablePart, eligible_table, opened_or_why
from app.ingest.debezium import DebeziumTables
from app.ingest.parsed_request import ParsedRequest
from app.ingest.readers.body_reader import BodyReader
from app.ingest.table_cache import NotCached, TableCache
from mirrorgate.errors import RejectedInput


@dataclass(frozen=True, slots=True)
class DebeziumJson(BodyReader):
    """A Debezium body. Its Connect schemas register tables; the columnar path needs tables that are as they declare."""

    source_format: ClassVar = LetterFormat.DEBEZIUM
    table: TableName | None = None
    reading: DebeziumReading = PLAIN_READING
    unrouted: set[SourceName] = field(default_factory=set, init=False, compare=False)
    """Sources that fed no table when a query asked for this request, which therefore go where `?table=` says."""

    @classmethod
    def columnar(cls, asked: "Sequence[Asked[DebeziumJson]]", table_cache: TableCache, /) -> list[Opened]:
        """Decode the events of all bodies, and find their tables."""
        return [opened_or_why(body._opened, principal, table_cache) for body, principal in asked]

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
