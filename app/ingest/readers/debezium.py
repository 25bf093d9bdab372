"""The reader of Debezium bodies."""

from functools import partial

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import LetterFormat
from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.domain.model.names import TableName
from app.formats.debezium.reading import PLAIN_READING, DebeziumReading
from app.formats.debezium.records import decode_debezium
from app.ingest.columnar.debezium import DebeziumRequest
from app.ingest.debezium.tables import DebeziumTables
from app.ingest.parsed_request import ParsedRequest
from app.ingest.readers.body_reader import BodyReader, max_value_bytes, written_json
from app.ingest.table_cache import TableCache


def debezium_json(
    body: bytes,
    table: TableName | None = None,
    reading: DebeziumReading = PLAIN_READING,
    *,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Read a Debezium body, and register the tables that its Connect schemas declare."""

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        decoded = decode_debezium(body, reading, limits, keep_rejected=keep_rejected, names_table=table is not None)
        tables = DebeziumTables(table_cache, principal, marker_first, reading, keep_rejected)
        sources = tables.route(decoded, table)
        written = partial(written_json, body, LetterFormat.DEBEZIUM, reading.to_json()) if keep_rejected else None
        limit = max_value_bytes(body, limits)
        return ParsedRequest(sources, decoded.ignored, written=written, max_value_bytes=limit)

    return BodyReader(decode, LetterFormat.DEBEZIUM, partial(DebeziumRequest, body, table, reading, limits), limits)
