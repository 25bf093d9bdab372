"""Readers of Arcion bodies, in JSON and in CSV."""

from collections.abc import Collection
from functools import partial

from app.domain.access.rights import Principal
from app.domain.model.change import Operation
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.errors import Code, RejectedInput
from app.formats.arcion.bare_rows import OPERATION_KEY
from app.formats.arcion.csv import csv_records, decode_arcion_csv
from app.formats.arcion.csv_layout import CsvLayout
from app.formats.arcion.messages import decode_arcion
from app.formats.csv.blanks import trimmed_columns
from app.ingest.columnar.arcion import ArcionRequest
from app.ingest.columnar.rows import RowsRequest
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.readers.body_reader import BodyReader, Columnar, max_value_bytes, present_table, written_json
from app.ingest.table_cache import TableCache
from app.observability.api_metrics import HASH_MISMATCHES


def arcion_json(
    body: bytes,
    table: TableName | None = None,
    *,
    override: bool = False,
    snapshot_rows: bool = False,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Read an Arcion JSON body. The messages must feed `table`; with `override` they feed it whatever they name.

    With `snapshot_rows`, an object that is no message is a snapshot row of `table`, as in NATIVE.
    """
    requested = SourceName.address(table) if table else None
    reading = {"override": override, **({"snapshot_rows": True} if snapshot_rows else {})}

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        if override and table is None:
            raise RejectedInput(Code.BAD_REQUEST, "override=true needs `table`")
        rows_of = table if snapshot_rows else None
        target = table if override else None
        messages = decode_arcion(body, target, limits, keep_rejected=keep_rejected, rows_of=rows_of)
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
            written=partial(written_json, body, LetterFormat.ARCION, reading) if keep_rejected else None,
            max_value_bytes=max_value_bytes(body, limits),
        )

    if snapshot_rows and requested is not None and OPERATION_KEY not in body:
        columnar: Columnar = partial(RowsRequest, body, requested, Operation.SNAPSHOT, limits, is_plain=False)
    else:
        columnar = partial(ArcionRequest, body, requested, override, limits)
    return BodyReader(decode, LetterFormat.ARCION, columnar, limits)


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
        found = present_table(table, table_cache, principal)
        parsed = decode_arcion_csv(body, layout, trimmed_columns(found.schema), limits, keep_rejected=keep_rejected)
        written = partial(_written_csv, body, layout, parsed.columns) if keep_rejected else None
        changes = SourceChanges(SourceName.address(table), parsed.changes, rejected=parsed.rejected)
        limit = max_value_bytes(body, limits)
        return ParsedRequest([changes], lines=parsed.lines, written=written, max_value_bytes=limit)

    return BodyReader(decode, LetterFormat.ARCION_CSV, limits=limits)


def _written_csv(
    body: bytes, layout: CsvLayout, columns: tuple[str, ...], indexes: Collection[int]
) -> dict[int, WrittenMessage]:
    signs = [layout.delimiter, layout.quote, layout.escape, layout.null]
    reading = {"mode": layout.mode, "columns": columns, "signs": signs}
    records = csv_records(body, layout, indexes)
    return {index: WrittenMessage(LetterFormat.ARCION_CSV, record, reading) for index, record in records.items()}
