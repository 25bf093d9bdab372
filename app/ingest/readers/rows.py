"""Plain rows, in JSON and in CSV, and the snapshot rows of a CDC tool."""

from collections.abc import Collection
from dataclasses import astuple, dataclass, field
from functools import lru_cache, partial
from typing import ClassVar, Final

from app.domain.access.rights import Principal
from app.domain.model.change import Operation
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Table
from app.formats.csv import trimmed_columns
from app.formats.rows.columnar import CsvBody, CsvReader, RowReader, RowsBody
from app.formats.rows.declaration import Declaration
from app.formats.rows.messages import OPERATIONS, RowsLayout, csv_row_records, decode_csv_rows, decode_rows
from app.ingest.changed_tables import register_declared
from app.ingest.columnar import Decline, Declined, OpenedBody, TablePart
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.readers.body_reader import BodyReader, present_table
from app.ingest.table_cache import TableCache
from mirrorgate.parameters import RowOperation

_MAX_CACHED: Final = 1_024


@dataclass(frozen=True, slots=True)
class RowsJson(BodyReader):
    """Plain rows of one table in JSON. Rows without an operation have the given one.

    With `declared`, the table is registered first, or gets the columns that it lacks.
    """

    source_format: ClassVar = LetterFormat.ROWS
    table: TableName
    operation: RowOperation
    declared: Declaration | None = field(default=None, kw_only=True)

    def exact(self, table_cache: TableCache, principal: Principal) -> ParsedRequest:
        """Decode row by row."""
        registered = register_declared(self.declared, self.table, table_cache, principal)
        columns = frozenset(present_table(self.table, table_cache, principal).schema.names)
        parsed = decode_rows(self.body, self.operation, columns, self.limits, keep_rejected=self.keep_rejected)
        return ParsedRequest(
            [SourceChanges(SourceName.address(self.table), parsed.changes, rejected=parsed.rejected)],
            written=partial(self.written_json, {"op": self.operation}) if self.keep_rejected else None,
            max_value_bytes=self.max_value_bytes,
            registered=registered,
        )

    def _opened(self, principal: Principal, table_cache: TableCache) -> OpenedBody:
        """Leave the rows for later: their types depend on the table."""
        table = self.table_without_change(self.table, principal, table_cache, self.declared)
        return open_rows(self, table, OPERATIONS[self.operation])


@dataclass(frozen=True, slots=True)
class RowsCsv(BodyReader):
    """Plain rows of one table in CSV, see `RowsJson`."""

    source_format: ClassVar = LetterFormat.ROWS_CSV
    table: TableName
    layout: RowsLayout
    declared: Declaration | None = field(default=None, kw_only=True)

    def exact(self, table_cache: TableCache, principal: Principal) -> ParsedRequest:
        """Decode row by row."""
        registered = register_declared(self.declared, self.table, table_cache, principal)
        schema = present_table(self.table, table_cache, principal).schema
        trimmed, known = trimmed_columns(schema), frozenset(schema.names)
        parsed = decode_csv_rows(
            self.body, self.layout, trimmed, self.limits, known=known, keep_rejected=self.keep_rejected
        )
        return ParsedRequest(
            [SourceChanges(SourceName.address(self.table), parsed.changes, rejected=parsed.rejected)],
            lines=parsed.lines,
            written=partial(self._written, parsed.columns) if self.keep_rejected else None,
            max_value_bytes=self.max_value_bytes,
            registered=registered,
        )

    def _opened(self, principal: Principal, table_cache: TableCache) -> OpenedBody:
        table = self.table_without_change(self.table, principal, table_cache, self.declared)
        content = CsvBody(self.body, self.layout.dialect, OPERATIONS[self.layout.operation], self.limits.messages)
        reader = _csv_reader_of(table.schema.names, trimmed_columns(table.schema))
        return OpenedBody([TablePart(table, reader, content, self.body.count(b"\n"))])

    def _written(self, columns: tuple[str, ...], indexes: Collection[int]) -> dict[int, WrittenMessage]:
        reading = {"op": self.layout.operation, "columns": columns, "signs": [*astuple(self.layout.dialect)]}
        records = csv_row_records(self.body, self.layout, indexes)
        return {index: WrittenMessage(LetterFormat.ROWS_CSV, record, reading) for index, record in records.items()}


def open_rows(body: BodyReader, table: Table, operation: Operation, *, is_plain: bool = True) -> OpenedBody:
    """Return the rows of a JSON body, with `is_plain` as `RowsBody` has it. Raises Declined."""
    content = RowsBody(body.body, operation, body.limits.messages, is_plain)
    return OpenedBody([TablePart(table, _reader_of(table.schema.names), content, body.body.count(b"{"))])


@lru_cache(_MAX_CACHED)
def _csv_reader_of(columns: tuple[str, ...], without_blanks: frozenset[str]) -> CsvReader:
    return CsvReader(columns, without_blanks)


@lru_cache(_MAX_CACHED)
def _reader_of(columns: tuple[str, ...]) -> RowReader:
    """Return the reader of tables with these columns. Raises Declined for names that it cannot read."""
    try:
        return RowReader(columns)
    except ValueError:
        raise Declined(Decline.TABLE) from None
