"""Arcion bodies, in JSON and in CSV."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import ClassVar, Final

from app.domain.access.rights import Principal
from app.domain.model.change import Operation
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.names import SourceName, TableName
from app.domain.rows.source_order import order_key
from app.formats.arcion.columnar import ArcionBody, ArcionTableReader, decode_columnar
from app.formats.arcion.csv import csv_records, decode_arcion_csv
from app.formats.arcion.messages import OPERATION_KEY, decode_arcion
from app.formats.csv import trimmed_columns
from app.ingest.columnar import Asked, Decline, Declined, Opened, OpenedBody, TablePart, eligible_table, opened_or_why
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.readers.body_reader import BodyReader, present_table
from app.ingest.readers.rows import open_rows
from app.ingest.table_cache import TableCache
from app.observability.api_metrics import HASH_MISMATCHES
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvLayout

_MAX_CACHED: Final = 1_024


@dataclass(frozen=True, slots=True)
class ArcionJson(BodyReader):
    """An Arcion JSON body. The messages must feed `table`; with `override` they feed it whatever they name.

    With `snapshot_rows`, the body is of a snapshot: an insert with `exists` is a snapshot row, and an object that is no
    message is one of `table`, as in NATIVE.
    """

    source_format: ClassVar = LetterFormat.ARCION
    table: TableName | None = None
    override: bool = field(default=False, kw_only=True)
    snapshot_rows: bool = field(default=False, kw_only=True)

    @property
    def requested(self) -> SourceName | None:
        """The name in `?table=`."""
        return SourceName.address(self.table) if self.table else None

    @property
    def reads_rows(self) -> bool:
        """True for a snapshot of a named table: NATIVE writes bare rows."""
        return self.snapshot_rows and self.table is not None

    @classmethod
    def columnar(cls, asked: "Sequence[Asked[ArcionJson]]", table_cache: TableCache, /) -> list[Opened]:
        """Decode the messages of all bodies together, and find their tables."""
        decoded = iter(decode_columnar([body.body for body, _ in asked if not body._is_of_rows()]))
        return [
            opened_or_why(body._rows, principal, table_cache)
            if body._is_of_rows()
            else opened_or_why(body._by_table, principal, next(decoded), table_cache)
            for body, principal in asked
        ]

    def exact(self, table_cache: TableCache, principal: Principal) -> ParsedRequest:
        """Decode message by message."""
        if self.override and self.table is None:
            raise RejectedInput(Code.BAD_REQUEST, "override=true needs `table`")
        rows_of = self.table if self.snapshot_rows else None
        target = self.table if self.override else None
        messages = decode_arcion(
            self.body,
            target,
            self.limits,
            keep_rejected=self.keep_rejected,
            rows_of=rows_of,
            is_snapshot=self.snapshot_rows,
        )
        HASH_MISMATCHES.inc(messages.wrong_hashes)
        sources: dict[int, SourceChanges] = {}
        task = order_key("", self.partition)
        for entry in messages:  # one object per address: its name is not folded for each message
            found = sources.get(id(entry.source))
            if found is None:
                found = sources[id(entry.source)] = SourceChanges(entry.source, task=task)
            found.changes.append(entry.change)
        for source, rejected in messages.rejected:
            sources.setdefault(id(source), SourceChanges(source)).rejected.append(rejected)
        reading = {"override": self.override, **({"snapshot_rows": True} if self.snapshot_rows else {})}
        return ParsedRequest(
            list(sources.values()),
            requested=self.requested,
            written=partial(self.written_json, reading) if self.keep_rejected else None,
            max_value_bytes=self.max_value_bytes,
        )

    def _is_of_rows(self) -> bool:
        """Return True if the body has snapshot rows and no message."""
        return self.reads_rows and OPERATION_KEY not in self.body

    def _rows(self, principal: Principal, table_cache: TableCache) -> OpenedBody:
        if self.table is None:
            raise Declined(Decline.BODY)
        table = self.table_without_change(self.table, principal, table_cache)
        return open_rows(self, table, Operation.SNAPSHOT, is_plain=False)

    def _by_table(self, principal: Principal, decoded: ArcionBody | None, table_cache: TableCache) -> OpenedBody:
        if decoded is None or self.max_value_bytes is not None or decoded.messages > self.limits.messages:
            raise Declined(Decline.BODY)
        requested = self.requested
        if self.override and requested is None:
            raise Declined(Decline.BODY)
        parts = []
        for source, content in decoded.parts:
            target = requested if self.override and requested else source
            table = eligible_table(target, requested, table_cache, principal)
            if target.catalog not in {None, table.arcion_catalog}:
                raise Declined(Decline.TABLE)
            reader = _reader_of(table.schema.names, is_snapshot=self.snapshot_rows)
            task = order_key("", self.partition)
            parts.append(TablePart(table, reader, content, len(content.operations), task=task))
        return OpenedBody(parts, decoded.wrong_hashes)


@lru_cache(_MAX_CACHED)
def _reader_of(columns: tuple[str, ...], *, is_snapshot: bool) -> ArcionTableReader:
    """Return the reader of tables with these columns. Raises Declined for names that it cannot read."""
    try:
        return ArcionTableReader.of(columns, is_snapshot=is_snapshot)
    except ValueError:
        raise Declined(Decline.TABLE) from None


@dataclass(frozen=True, slots=True)
class ArcionCsv(BodyReader):
    """An Arcion CSV body for one table. It has no columnar decoder."""

    source_format: ClassVar = LetterFormat.ARCION_CSV
    table: TableName
    layout: CsvLayout

    @property
    def is_columnar(self) -> bool:
        """False."""
        return False

    def exact(self, table_cache: TableCache, principal: Principal) -> ParsedRequest:
        """Decode record by record; the columns of the table say how."""
        found = present_table(self.table, table_cache, principal)
        trimmed = trimmed_columns(found.schema)
        task = order_key("", self.partition)
        parsed = decode_arcion_csv(self.body, self.layout, trimmed, self.limits, keep_rejected=self.keep_rejected)
        return ParsedRequest(
            [SourceChanges(SourceName.address(self.table), parsed.changes, task, parsed.rejected)],
            lines=parsed.lines,
            written=partial(self._written, parsed.columns) if self.keep_rejected else None,
            max_value_bytes=self.max_value_bytes,
        )

    def _written(self, columns: tuple[str, ...], indexes: Collection[int]) -> dict[int, WrittenMessage]:
        layout = self.layout
        signs = [layout.delimiter, layout.quote, layout.escape, layout.null]
        reading = {"mode": layout.mode, "columns": columns, "signs": signs}
        records = csv_records(self.body, layout, indexes)
        return {index: WrittenMessage(LetterFormat.ARCION_CSV, record, reading) for index, record in records.items()}
