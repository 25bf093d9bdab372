"""A kept message: a dead letter is read again as its request was."""

from dataclasses import dataclass

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.names import TableName
from app.formats.debezium.values import DebeziumReading
from app.formats.rows.messages import RowsLayout
from app.ingest.parsed_request import ParsedRequest
from app.ingest.readers.arcion import ArcionCsv, ArcionJson
from app.ingest.readers.body_reader import BodyReader
from app.ingest.readers.debezium import DebeziumJson
from app.ingest.readers.replicate import read_again
from app.ingest.readers.rows import RowsCsv, RowsJson
from app.ingest.table_cache import TableCache
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvDialect, CsvLayout, CsvMode, RowOperation


@dataclass(frozen=True, slots=True)
class KeptMessage(BodyReader):
    """A kept message of a table, as it was read in its request; the body is that message or a corrected one."""

    written: WrittenMessage
    table: TableName

    def exact(self, table_cache: TableCache, principal: Principal) -> ParsedRequest:
        """Read the message. Raises RejectedInput also if it is not one change."""
        if self.written.format is LetterFormat.REPLICATE:
            parsed = read_again(self.body, self.table, self.written.reading, table_cache, principal)
        else:
            parsed = self._reader().exact(table_cache, principal)
        if sum(len(entry.changes) for entry in parsed.sources) != 1:
            raise RejectedInput(Code.BAD_REQUEST, "a replay must be one change, in the format of the kept message")
        return parsed

    def _reader(self) -> BodyReader:
        body, table, reading = self.body, self.table, self.written.reading
        match self.written.format:
            case LetterFormat.ARCION_CSV:
                layout = CsvLayout(CsvMode(reading["mode"]), tuple(reading["columns"]), False, *reading["signs"])
                return ArcionCsv(body, table, layout)
            case LetterFormat.ROWS:
                return RowsJson(body, table, RowOperation(reading["op"]))
            case LetterFormat.ROWS_CSV:
                dialect, columns = CsvDialect(*reading["signs"]), tuple(reading["columns"])
                return RowsCsv(body, table, RowsLayout(RowOperation(reading["op"]), dialect, columns))
            case LetterFormat.DEBEZIUM:
                return DebeziumJson(body, table, DebeziumReading.from_json(reading))
        snapshot_rows = reading.get("snapshot_rows", False)
        return ArcionJson(body, table, override=reading["override"], snapshot_rows=snapshot_rows)
