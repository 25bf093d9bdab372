"""Readers of plain rows, in JSON and in CSV."""

from collections.abc import Collection
from dataclasses import astuple
from functools import partial

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.formats.csv.blanks import trimmed_columns
from app.formats.rows.csv import RowsLayout, csv_row_records, decode_csv_rows
from app.formats.rows.declaration import Declaration
from app.formats.rows.messages import decode_rows
from app.formats.rows.operations import OPERATIONS, RowOperation
from app.ingest.columnar.rows import RowsCsvRequest, RowsRequest
from app.ingest.declared_tables import register_declared
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.readers.body_reader import BodyReader, max_value_bytes, present_table, written_json
from app.ingest.table_cache import TableCache


def rows_json(
    body: bytes,
    table: TableName,
    operation: RowOperation,
    *,
    declared: Declaration | None = None,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Read a body of plain rows for one table. Rows without an operation have the given one.

    With `declared`, the table is registered first, or gets the columns that it lacks.
    """
    source = SourceName.address(table)

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        registered = register_declared(declared, table, table_cache, principal, marker_first=marker_first)
        found = present_table(table, table_cache, principal)
        columns = frozenset(found.schema.names)
        parsed = decode_rows(body, operation, columns, limits, keep_rejected=keep_rejected)
        written = partial(written_json, body, LetterFormat.ROWS, {"op": operation}) if keep_rejected else None
        changes = SourceChanges(source, parsed.changes, rejected=parsed.rejected)
        limit = max_value_bytes(body, limits)
        return ParsedRequest([changes], written=written, max_value_bytes=limit, registered=registered)

    return BodyReader(
        decode,
        LetterFormat.ROWS,
        partial(RowsRequest, body, source, OPERATIONS[operation], limits, declared=declared),
        limits,
    )


def rows_csv(
    body: bytes,
    table: TableName,
    layout: RowsLayout,
    *,
    declared: Declaration | None = None,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Read a CSV body of plain rows for one table, see `rows_json`."""

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        registered = register_declared(declared, table, table_cache, principal, marker_first=marker_first)
        found = present_table(table, table_cache, principal)
        trimmed, known = trimmed_columns(found.schema), frozenset(found.schema.names)
        parsed = decode_csv_rows(body, layout, trimmed, limits, known=known, keep_rejected=keep_rejected)
        written = partial(_written_csv_rows, body, layout, parsed.columns) if keep_rejected else None
        changes = SourceChanges(SourceName.address(table), parsed.changes, rejected=parsed.rejected)
        limit = max_value_bytes(body, limits)
        return ParsedRequest(
            [changes], lines=parsed.lines, written=written, max_value_bytes=limit, registered=registered
        )

    source = SourceName.address(table)
    return BodyReader(
        decode, LetterFormat.ROWS_CSV, partial(RowsCsvRequest, body, source, layout, limits, declared=declared), limits
    )


def _written_csv_rows(
    body: bytes, layout: RowsLayout, columns: tuple[str, ...], indexes: Collection[int]
) -> dict[int, WrittenMessage]:
    reading = {"op": layout.operation, "columns": columns, "signs": [*astuple(layout.dialect)]}
    records = csv_row_records(body, layout, indexes)
    return {index: WrittenMessage(LetterFormat.ROWS_CSV, record, reading) for index, record in records.items()}
