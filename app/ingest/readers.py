"""Body readers, one function per format: each returns the `BodyReader` that `Ingest.accept` reads a body with.

With `keep_rejected`, rejected messages are set aside; they become dead letters if their table accepts them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.model.table import Table
from app.domain.model.table_schema import TypeName
from app.domain.rows.source_order import order_key
from app.errors import Code, RejectedInput
from app.formats.arcion.csv import csv_records, decode_arcion_csv
from app.formats.arcion.csv_layout import CsvLayout, CsvMode
from app.formats.arcion.messages import decode_arcion
from app.formats.csv.records import CsvSigns
from app.formats.json.decoder import raw_messages
from app.formats.replicate.messages import ReplicateRequest, decode_replicate
from app.formats.rows.csv import RowsLayout, csv_row_records, decode_csv_rows
from app.formats.rows.messages import decode_rows
from app.formats.rows.operations import RowOperation
from app.ingest.columnar.arcion import ArcionRequest
from app.ingest.columnar.reading import ColumnarRequest
from app.ingest.columnar.replicate import ReplicateBody
from app.ingest.columnar.rows import RowsRequest
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.replicate.tables import EarlierReading, ReplicateTables
from app.ingest.table_cache import TableCache
from app.observability.telemetry import HASH_MISMATCHES

_TEXT: Final = frozenset({TypeName.STRING, TypeName.JSON})
"""Types whose values can begin or end with blanks."""


@dataclass(frozen=True, slots=True)
class BodyReader:
    """Reads one body into a ParsedRequest.

    CSV needs the columns of its table; metadata messages of Replicate register and change tables.
    """

    read: Callable[[TableCache, Principal, bool], ParsedRequest]
    source_format: str
    """The format's name in metrics: one of LetterFormat."""
    columnar: Callable[[Principal], ColumnarRequest] | None = None
    """Returns the request for the reader thread, if the format has a columnar decoder."""


def arcion_json(
    body: bytes,
    table: TableName | None = None,
    *,
    override: bool = False,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Read an Arcion JSON body. The messages must feed `table`; with `override` they feed it whatever they name."""
    requested = SourceName.address(table) if table else None

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        if override and table is None:
            raise RejectedInput(Code.BAD_REQUEST, "override=true needs `table`")
        messages = decode_arcion(body, table if override else None, limits, keep_rejected=keep_rejected)
        HASH_MISMATCHES.inc(messages.wrong_hashes)
        sources: dict[int, SourceChanges] = {}
        for entry in messages:  # one object per address: its name is not folded for each message
            found = sources.get(id(entry.source))
            if found is None:
                found = sources[id(entry.source)] = SourceChanges(entry.source)
            found.changes.append(entry.change)
        for source, rejected in messages.rejected:
            sources.setdefault(id(source), SourceChanges(source)).rejected.append(rejected)
        return ParsedRequest(
            list(sources.values()),
            requested=requested,
            written=partial(_written_json, body, LetterFormat.ARCION, {"override": override})
            if keep_rejected
            else None,
            max_value_bytes=_max_value_bytes(body, limits),
        )

    return BodyReader(decode, LetterFormat.ARCION, partial(ArcionRequest, body, requested, override, limits))


def arcion_csv(
    body: bytes,
    table: TableName,
    layout: CsvLayout,
    *,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Read an Arcion CSV body for one table."""

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        found = _present_table(table, table_cache, principal)
        parsed = decode_arcion_csv(body, layout, _trimmed(found), limits, keep_rejected=keep_rejected)
        written = partial(_written_csv, body, layout, parsed.columns) if keep_rejected else None
        changes = SourceChanges(SourceName.address(table), parsed.changes, rejected=parsed.rejected)
        limit = _max_value_bytes(body, limits)
        return ParsedRequest([changes], lines=parsed.lines, written=written, max_value_bytes=limit)

    return BodyReader(decode, LetterFormat.ARCION_CSV)


def rows_json(
    body: bytes,
    table: TableName,
    operation: RowOperation,
    *,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Read a body of plain rows for one table. Rows without an operation have the given one."""
    source = SourceName.address(table)

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        found = _present_table(table, table_cache, principal)
        columns = frozenset(found.schema.names)
        parsed = decode_rows(body, operation, columns, limits, keep_rejected=keep_rejected)
        written = partial(_written_json, body, LetterFormat.ROWS, {"op": operation}) if keep_rejected else None
        changes = SourceChanges(source, parsed.changes, rejected=parsed.rejected)
        return ParsedRequest([changes], written=written, max_value_bytes=_max_value_bytes(body, limits))

    return BodyReader(decode, LetterFormat.ROWS, partial(RowsRequest, body, source, operation, limits))


def rows_csv(
    body: bytes,
    table: TableName,
    layout: RowsLayout,
    *,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Read a CSV body of plain rows for one table."""

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        found = _present_table(table, table_cache, principal)
        parsed = decode_csv_rows(body, layout, _trimmed(found), limits, keep_rejected=keep_rejected)
        written = partial(_written_csv_rows, body, layout, parsed.columns) if keep_rejected else None
        changes = SourceChanges(SourceName.address(table), parsed.changes, rejected=parsed.rejected)
        limit = _max_value_bytes(body, limits)
        return ParsedRequest([changes], lines=parsed.lines, written=written, max_value_bytes=limit)

    return BodyReader(decode, LetterFormat.ROWS_CSV)


def replicate_json(
    body: bytes,
    table: TableName | None = None,
    *,
    partition: str | None = None,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Read a Replicate body, and register the tables that its metadata messages declare.

    A given `partition` is that of the task's topic which all messages of the body come from.
    """

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        request = decode_replicate(body, limits, keep_rejected=keep_rejected)
        tables = ReplicateTables(table_cache, principal, marker_first, keep_rejected=keep_rejected)
        written = partial(_written_replicate, body, tables, request, table) if keep_rejected else None
        limit = _max_value_bytes(body, limits)
        sources = _settled(tables, request, table, partition)
        ignored = request.ignored + tables.repeated
        return ParsedRequest(sources, ignored, written=written, max_value_bytes=limit)

    return BodyReader(decode, LetterFormat.REPLICATE, partial(ReplicateBody, body, table, limits))


def kept_message(written: WrittenMessage, content: bytes, table: TableName) -> BodyReader:
    """Read a kept message as it was read in its request; `content` is that message or a corrected one."""
    reading = written.reading

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        match written.format:
            case LetterFormat.ARCION:
                read = arcion_json(content, table, override=reading["override"]).read
            case LetterFormat.ARCION_CSV:
                layout = CsvLayout(CsvMode(reading["mode"]), tuple(reading["columns"]), False, *reading["signs"])
                read = arcion_csv(content, table, layout).read
            case LetterFormat.ROWS:
                read = rows_json(content, table, RowOperation(reading["op"])).read
            case LetterFormat.ROWS_CSV:
                signs, columns = CsvSigns(*reading["signs"]), tuple(reading["columns"])
                read = rows_csv(content, table, RowsLayout(RowOperation(reading["op"]), signs, columns)).read
            case LetterFormat.REPLICATE:
                read = partial(_read_again, content, table, reading["version"])
        parsed = read(table_cache, principal, marker_first)
        if sum(len(entry.changes) for entry in parsed.sources) != 1:
            raise RejectedInput(Code.BAD_REQUEST, "a replay must be one change, in the format of the kept message")
        return parsed

    return BodyReader(decode, written.format)


def _read_again(
    content: bytes,
    table: TableName,
    version: list[Any] | None,
    table_cache: TableCache,
    principal: Principal,
    marker_first: bool,
) -> ParsedRequest:
    request = decode_replicate(content)
    if request.metadata:
        raise RejectedInput(Code.BAD_REQUEST, "a replay must be a data message; send metadata messages as changes")
    earlier = EarlierReading(version)
    return ParsedRequest(
        _settled(ReplicateTables(table_cache, principal, marker_first, earlier=earlier), request, table)
    )


def _settled(
    tables: ReplicateTables, request: ReplicateRequest, table: TableName | None, partition: str | None = None
) -> list[SourceChanges]:
    sources = [
        SourceChanges(SourceName.address(name), changes, order_key(task, partition))
        for name, task, changes in tables.route(request, table)
    ]
    return sources + [
        SourceChanges(SourceName.address(name), rejected=[rejected]) for name, rejected in tables.rejected
    ]


def _present_table(table: TableName, table_cache: TableCache, principal: Principal) -> Table:
    """Return the table of a request. Raises RejectedInput `unknown_table`."""
    source = SourceName.address(table)
    found = table_cache.refresh(source)
    if found is None or not principal.may_touch(found.name):
        withheld = table_cache.withheld(source, principal)
        raise RejectedInput(Code.UNKNOWN_TABLE, f"table {table} is not registered", withheld=withheld)
    return found


def _trimmed(table: Table) -> frozenset[str]:
    """Return the columns in which blanks around a CSV value do not count."""
    return frozenset(column.name for column in table.schema.columns if column.type.name not in _TEXT)


def _written_json(
    body: bytes, letter_format: LetterFormat, reading: dict[str, Any], indexes: Collection[int]
) -> dict[int, WrittenMessage]:
    messages = raw_messages(body)
    return {index: WrittenMessage(letter_format, messages[index], reading) for index in indexes}


def _written_csv(
    body: bytes, layout: CsvLayout, columns: tuple[str, ...], indexes: Collection[int]
) -> dict[int, WrittenMessage]:
    signs = [layout.delimiter, layout.quote, layout.escape]
    reading = {"mode": layout.mode, "columns": columns, "signs": signs}
    records = csv_records(body, layout, indexes)
    return {index: WrittenMessage(LetterFormat.ARCION_CSV, record, reading) for index, record in records.items()}


def _written_csv_rows(
    body: bytes, layout: RowsLayout, columns: tuple[str, ...], indexes: Collection[int]
) -> dict[int, WrittenMessage]:
    signs = [layout.signs.delimiter, layout.signs.quote, layout.signs.escape]
    reading = {"op": layout.operation, "columns": columns, "signs": signs}
    records = csv_row_records(body, layout, indexes)
    return {index: WrittenMessage(LetterFormat.ROWS_CSV, record, reading) for index, record in records.items()}


def _written_replicate(
    body: bytes,
    tables: ReplicateTables,
    request: ReplicateRequest,
    table: TableName | None,
    indexes: Collection[int],
) -> dict[int, WrittenMessage]:
    messages = raw_messages(body)
    return {
        index: WrittenMessage(LetterFormat.REPLICATE, messages[index], {"version": version})
        for index, version in tables.written_under(request, table, indexes).items()
    }


def _max_value_bytes(body: bytes, limits: InputLimits) -> int | None:
    return limits.value_bytes if len(body) > limits.value_bytes else None
