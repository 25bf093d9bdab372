"""Debezium's events on the columnar path, for tables that are as the schemas of their events need them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from app.domain.access.rights import Principal
from app.domain.model.input_limits import InputLimits
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.model.table import Table
from app.domain.rows.row_rules import KeptByTable, RowRules
from app.domain.rows.shaped_changes import ShapedChanges
from app.errors import RejectedInput
from app.formats.debezium.columnar.events import EventBody, EventColumns, EventPart, decode_events
from app.formats.debezium.columnar.images import EventReader
from app.formats.debezium.columnar.schemas import NotPlain
from app.formats.debezium.reading import DebeziumReading, Tombstones
from app.formats.debezium.table_plan import check_keys, row_fields, wanted_schema
from app.ingest.columnar.decline import Decline, Declined
from app.ingest.columnar.reading import Opened, OpenedBody, TablePart, eligible_table, opened_or_why
from app.ingest.table_cache import NotCached, TableCache


@dataclass(frozen=True, slots=True)
class DebeziumRequest:
    """A body of Debezium's events, and the parameters of its request."""

    body: bytes
    requested: TableName | None
    reading: DebeziumReading
    limits: InputLimits
    principal: Principal
    unrouted: set[SourceName] = field(default_factory=set, compare=False)
    """Sources that fed no table when a query asked for this request, which therefore go where `?table=` says."""

    @staticmethod
    def open(requests: "Sequence[DebeziumRequest]", table_cache: TableCache) -> list[Opened]:
        """Decode the events of all bodies, and find their tables."""
        return [opened_or_why(DebeziumRequest._opened, request, table_cache) for request in requests]

    def _opened(self, table_cache: TableCache) -> OpenedBody:
        decoded = self._decoded()
        parts = []
        for part in decoded.parts:
            table = self._table(part.source, table_cache)
            parts.append(TablePart(table, self._reader(table, part), part.columns, len(part.columns.operations)))
        return OpenedBody(parts, ignored=decoded.ignored)

    def _table(self, source: SourceName | None, table_cache: TableCache) -> Table:
        """Return the table that a source feeds, or else that of `?table=`. Raises NotCached or Declined."""
        requested = SourceName.address(self.requested) if self.requested else None
        if source is None or source in self.unrouted:
            source = requested
        if source is None:
            raise Declined(Decline.TABLE)
        try:
            return eligible_table(source, requested, table_cache, self.principal)
        except NotCached:
            if requested is None or requested == source:
                raise
            raise NotCached(partial(self._look_up, source, requested, table_cache)) from None

    def _look_up(self, source: SourceName, requested: SourceName, table_cache: TableCache) -> Table | None:
        """Find the tables of a source and of `?table=`; None if only the exact path can tell where the events go."""
        if table_cache.route(source) is None:
            if table_cache.twin(source, self.principal) is not None:
                return None
            self.unrouted.add(source)
        return table_cache.route(requested)

    def _decoded(self) -> EventBody:
        if len(self.body) > self.limits.value_bytes:  # a value can be too long
            raise Declined(Decline.BODY)
        try:
            decoded = decode_events(self.body, self.reading.keyed)
        except (NotPlain, RecursionError):
            raise Declined(Decline.BODY) from None
        means_nothing = {Tombstones.IGNORE, None} if decoded.marks_deletes else {Tombstones.IGNORE}
        if decoded.messages > self.limits.messages or (
            decoded.ignored and self.reading.tombstones not in means_nothing
        ):
            raise Declined(Decline.BODY)
        return decoded

    def _reader(self, table: Table, part: EventPart) -> "_Reader":
        """Return the reader of a table's events with this schema and key. Raises Declined if the table must change."""
        keys = self.reading.key_columns or part.keys
        rules, key = RowRules.of(table), (part.row, part.added, keys, self.reading, table.left_columns)
        return _READERS.get(rules, key) or _READERS.keep(rules, key, _reader_of(table, part, keys, self.reading))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the events of one table."""

    reader: EventReader

    def read(self, parts: Sequence[EventColumns]) -> list[ShapedChanges]:
        """Return the changes of each part. Raises Declined."""
        try:
            return self.reader.read(parts)
        except (NotPlain, ValueError, RecursionError):
            raise Declined(Decline.IMAGES) from None


_READERS: Final = KeptByTable[_Reader]()


def _reader_of(table: Table, part: EventPart, keys: tuple[str, ...] | None, reading: DebeziumReading) -> _Reader:
    try:
        check_keys(keys, table)
        fields = [] if part.row is None else row_fields(part.row, table, is_flattened=part.added is not None)
        if part.row is not None and wanted_schema(fields, keys, table) is not None:
            raise Declined(Decline.TABLE)
        return _Reader(EventReader(table, part.row, reading, part.added))
    except (RejectedInput, ValueError):
        raise Declined(Decline.TABLE) from None
