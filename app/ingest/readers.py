"""The bodies of requests, by format: each function makes what `Ingest.accept` calls to read one body.

With `keep_rejected`, messages that are rejected become dead letters where their table accepts that.
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
from app.domain.model.table_schema import TypeName
from app.domain.rows.source_order import order_key
from app.errors import Code, RejectedInput
from app.formats.arcion.csv import csv_records, decode_arcion_csv
from app.formats.arcion.csv_layout import CsvLayout, CsvMode
from app.formats.arcion.messages import decode_arcion
from app.formats.json.decoder import raw_messages
from app.formats.replicate.messages import ReplicateRequest, decode_replicate
from app.ingest.columnar_requests import ColumnarRequest
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.replicate.tables import EarlierReading, ReplicateTables
from app.ingest.table_cache import TableCache
from app.observability.telemetry import HASH_MISMATCHES

SMALL_BODY: Final = 2**14
"""Bytes of a body that is parsed where it arrives, and typed together with others."""

_TEXT: Final = frozenset({TypeName.STRING, TypeName.JSON})
"""Types whose values may begin or end with blanks."""


@dataclass(frozen=True, slots=True)
class BodyReader:
    """Reads a body; for CSV and Replicate the tables count, and metadata messages change them."""

    read: Callable[[TableCache, Principal, bool], ParsedRequest]
    is_small: bool = False
    """Whether reading is so short, and asks no database, that a thread of its own would cost more."""
    columnar: Callable[[Principal], ColumnarRequest] | None = None
    """The request for those who read a plain body in much less time."""


def arcion_json(
    body: bytes,
    table: TableName | None = None,
    *,
    override: bool = False,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Reads an Arcion JSON body. `table` must be the one that the messages feed, unless it is to `override` what
    they say."""
    requested = SourceName.address(table) if table else None

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        if override and table is None:
            raise RejectedInput(Code.BAD_REQUEST, "override=true needs `table`")
        messages = decode_arcion(body, table if override else None, limits, keep_rejected=keep_rejected)
        HASH_MISMATCHES.inc(messages.wrong_hashes)
        sources: dict[int, SourceChanges] = {}
        for entry in messages:  # an address is one object, so that its name need not be folded for each message
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

    columnar = partial(ColumnarRequest, body, requested, override, limits)
    return BodyReader(decode, is_small=len(body) <= min(SMALL_BODY, limits.value_bytes), columnar=columnar)


def arcion_csv(
    body: bytes,
    table: TableName,
    layout: CsvLayout,
    *,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Reads an Arcion CSV body for one table."""

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        source = SourceName.address(table)
        found = table_cache.refresh(source)
        if found is None or not principal.may_touch(found.name):
            withheld = table_cache.withheld(source, principal)
            raise RejectedInput(Code.UNKNOWN_TABLE, f"table {table} is not registered", withheld=withheld)
        trimmed = frozenset(column.name for column in found.schema.columns if column.type.name not in _TEXT)
        parsed = decode_arcion_csv(body, layout, trimmed, limits, keep_rejected=keep_rejected)
        written = partial(_written_csv, body, layout, parsed.columns) if keep_rejected else None
        changes = SourceChanges(source, parsed.changes, rejected=parsed.rejected)
        most = _max_value_bytes(body, limits)
        return ParsedRequest([changes], lines=parsed.lines, written=written, max_value_bytes=most)

    return BodyReader(decode)


def replicate_json(
    body: bytes,
    table: TableName | None = None,
    *,
    partition: str | None = None,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Reads a Replicate body, and registers what its metadata messages declare.

    All of its messages come from this `partition` of their task's topic, where one is given.
    """

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        request = decode_replicate(body, limits, keep_rejected=keep_rejected)
        tables = ReplicateTables(table_cache, principal, marker_first, keep_rejected=keep_rejected)
        written = partial(_written_replicate, body, tables, request, table) if keep_rejected else None
        most = _max_value_bytes(body, limits)
        sources = _settled(tables, request, table, partition)
        ignored = request.ignored + tables.repeated
        return ParsedRequest(sources, ignored, written=written, max_value_bytes=most)

    return BodyReader(decode)


def kept_message(written: WrittenMessage, content: bytes, table: TableName) -> BodyReader:
    """Reads one message of a table as it was read in its request; `content` is the message, or a corrected one."""
    reading = written.reading

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        match written.format:
            case LetterFormat.ARCION:
                read = arcion_json(content, table, override=reading["override"]).read
            case LetterFormat.ARCION_CSV:
                layout = CsvLayout(CsvMode(reading["mode"]), tuple(reading["columns"]), False, *reading["signs"])
                read = arcion_csv(content, table, layout).read
            case LetterFormat.REPLICATE:
                read = partial(_read_again, content, table, reading["version"])
        parsed = read(table_cache, principal, marker_first)
        if sum(len(entry.changes) for entry in parsed.sources) != 1:
            raise RejectedInput(Code.BAD_REQUEST, "a replay is one change, written as the message was")
        return parsed

    return BodyReader(decode)


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
        raise RejectedInput(Code.BAD_REQUEST, "a replay is a data message; post metadata as changes")
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
