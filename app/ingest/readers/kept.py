"""The reader of a kept message: a dead letter is read again as its request was."""

from functools import partial

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.names import TableName
from app.errors import Code, RejectedInput
from app.formats.arcion.csv_layout import CsvLayout, CsvMode
from app.formats.csv.records import CsvDialect
from app.formats.debezium.reading import DebeziumReading
from app.formats.rows.csv import RowsLayout
from app.formats.rows.operations import RowOperation
from app.ingest.parsed_request import ParsedRequest
from app.ingest.readers.arcion import arcion_csv, arcion_json
from app.ingest.readers.body_reader import BodyReader
from app.ingest.readers.debezium import debezium_json
from app.ingest.readers.replicate import read_again
from app.ingest.readers.rows import rows_csv, rows_json
from app.ingest.table_cache import TableCache


def kept_message(written: WrittenMessage, content: bytes, table: TableName) -> BodyReader:
    """Read a kept message as it was read in its request; `content` is that message or a corrected one."""
    reading = written.reading

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        match written.format:
            case LetterFormat.ARCION:
                read = arcion_json(
                    content, table, override=reading["override"], snapshot_rows=reading.get("snapshot_rows", False)
                ).read
            case LetterFormat.ARCION_CSV:
                layout = CsvLayout(CsvMode(reading["mode"]), tuple(reading["columns"]), False, *reading["signs"])
                read = arcion_csv(content, table, layout).read
            case LetterFormat.ROWS:
                read = rows_json(content, table, RowOperation(reading["op"])).read
            case LetterFormat.ROWS_CSV:
                dialect, columns = CsvDialect(*reading["signs"]), tuple(reading["columns"])
                read = rows_csv(content, table, RowsLayout(RowOperation(reading["op"]), dialect, columns)).read
            case LetterFormat.DEBEZIUM:
                read = debezium_json(content, table, DebeziumReading.from_json(reading)).read
            case LetterFormat.REPLICATE:
                read = partial(read_again, content, table, reading)
        parsed = read(table_cache, principal, marker_first)
        if sum(len(entry.changes) for entry in parsed.sources) != 1:
            raise RejectedInput(Code.BAD_REQUEST, "a replay must be one change, in the format of the kept message")
        return parsed

    return BodyReader(decode, written.format)
