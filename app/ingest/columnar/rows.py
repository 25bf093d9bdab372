"""Plain rows on the columnar path, and bare snapshot rows of Arcion."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from app.domain.access.rights import Principal
from app.domain.model.change import Operation
from app.domain.model.input_limits import InputLimits
from app.domain.model.source_name import SourceName
from app.domain.model.table import Table
from app.domain.rows.shaped_changes import ShapedChanges
from app.formats.csv.blanks import trimmed_columns
from app.formats.rows.columnar import NotPlain, RowReader, RowsBody
from app.formats.rows.csv import RowsLayout
from app.formats.rows.csv_columnar import CsvBody, CsvReader
from app.formats.rows.declaration import Declaration
from app.formats.rows.operations import OPERATIONS
from app.ingest.columnar.decline import Decline, Declined
from app.ingest.columnar.reading import Opened, OpenedBody, TablePart, eligible_table, opened_or_why
from app.ingest.table_cache import TableCache

_MAX_CACHED: Final = 1_024


@dataclass(frozen=True, slots=True)
class RowsRequest:
    """A body of plain rows, and the parameters of its request."""

    body: bytes
    requested: SourceName
    operation: Operation
    limits: InputLimits
    principal: Principal
    declared: Declaration | None = None
    is_plain: bool = True
    """False for the snapshot rows of a CDC tool, see `RowsBody`."""

    @staticmethod
    def open(requests: "Sequence[RowsRequest]", table_cache: TableCache) -> list[Opened]:
        """Find the tables of all bodies, which are decoded only then: their types depend on the tables."""
        return [opened_or_why(RowsRequest._opened, request, table_cache) for request in requests]

    def _opened(self, table_cache: TableCache) -> OpenedBody:
        table = _table_of(self, table_cache)
        content = RowsBody(self.body, self.operation, self.limits.messages, self.is_plain)
        return OpenedBody([TablePart(table, _reader_of(table.schema.names), content, self.body.count(b"{"))])


@dataclass(frozen=True, slots=True)
class RowsCsvRequest:
    """A body of plain rows in CSV, and the parameters of its request."""

    body: bytes
    requested: SourceName
    layout: RowsLayout
    limits: InputLimits
    principal: Principal
    declared: Declaration | None = None

    @staticmethod
    def open(requests: "Sequence[RowsCsvRequest]", table_cache: TableCache) -> list[Opened]:
        """Find the tables of all bodies, see `RowsRequest.open`."""
        return [opened_or_why(RowsCsvRequest._opened, request, table_cache) for request in requests]

    def _opened(self, table_cache: TableCache) -> OpenedBody:
        table = _table_of(self, table_cache)
        operation = OPERATIONS[self.layout.operation]
        content = CsvBody(self.body, self.layout.dialect, operation, self.limits.messages)
        reader = _csv_reader_of(table.schema.names, trimmed_columns(table.schema))
        return OpenedBody([TablePart(table, reader, content, self.body.count(b"\n"))])


def _table_of(request: RowsRequest | RowsCsvRequest, table_cache: TableCache) -> Table:
    """Return the table of a body. Raises Declined if a value can be too long, or if the table must change first."""
    if len(request.body) > request.limits.value_bytes:
        raise Declined(Decline.BODY)
    table = eligible_table(request.requested, None, table_cache, request.principal)
    if request.declared is not None and not request.declared.is_met_by(table.schema):
        raise Declined(Decline.TABLE)
    return table


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the rows for tables with the same columns."""

    reader: RowReader | CsvReader

    def read(self, parts: Sequence[Any]) -> list[ShapedChanges]:
        """Return the changes of each part. Raises Declined."""
        try:
            return self.reader.read(parts)
        except (NotPlain, ValueError, RecursionError):
            raise Declined(Decline.IMAGES) from None


@lru_cache(_MAX_CACHED)
def _csv_reader_of(columns: tuple[str, ...], without_blanks: frozenset[str]) -> _Reader:
    return _Reader(CsvReader(columns, without_blanks))


@lru_cache(_MAX_CACHED)
def _reader_of(columns: tuple[str, ...]) -> _Reader:
    """Return the reader of tables with these columns. Raises Declined for names that it cannot read."""
    try:
        return _Reader(RowReader(columns))
    except ValueError:
        raise Declined(Decline.TABLE) from None
