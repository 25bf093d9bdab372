"""The write use case: from the bytes of a request to durable batches and their receipts.

A class of `readers` reads the bodies of one format; for Replicate, `replicate_tables` applies metadata messages.
`pipeline` is the path of a request on one page: `columnar` with `reader_thread` for what is usual, `request_typing` of
a `parsed_request` for everything else. `table_cache` finds tables, `backlog` applies back-pressure, `changed_tables`
registers what requests declare, and repeats what a changed table undid. `loads` takes Arrow streams, `dry_run` rolls
back, `replay` sends dead letters again.
"""

from app.formats.debezium.values import DebeziumReading, DecimalForm, Nanoseconds, Tombstones, parse_units
from app.formats.replicate.layouts import (
    MAX_OPERATION_CHARACTERS,
    MAX_OPERATIONS,
    MessageForm,
    TableFrom,
    WrongLayout,
    read_layout,
)
from app.formats.rows.declaration import Declaration, parse_declaration, parse_names
from app.formats.rows.messages import RowsLayout
from app.ingest.backlog import BacklogWatch
from app.ingest.changed_tables import give_marker
from app.ingest.dry_run import perform_dry_run
from app.ingest.loads import ArrowLoad, RowsOfStream
from app.ingest.pipeline import Ingest, IngestResult
from app.ingest.readers import (
    ArcionCsv,
    ArcionJson,
    BodyReader,
    DebeziumJson,
    ReplicateAvro,
    ReplicateJson,
    RowsCsv,
    RowsJson,
)
from app.ingest.replay import Replays
from mirrorgate.parameters import CsvDialect, CsvLayout, CsvMode, RowOperation

__all__ = [
    "MAX_OPERATIONS",
    "MAX_OPERATION_CHARACTERS",
    "ArcionCsv",
    "ArcionJson",
    "ArrowLoad",
    "BacklogWatch",
    "BodyReader",
    "CsvDialect",
    "CsvLayout",
    "CsvMode",
    "DebeziumJson",
    "DebeziumReading",
    "DecimalForm",
    "Declaration",
    "Ingest",
    "IngestResult",
    "MessageForm",
    "Nanoseconds",
    "Replays",
    "ReplicateAvro",
    "ReplicateJson",
    "RowOperation",
    "RowsCsv",
    "RowsJson",
    "RowsLayout",
    "RowsOfStream",
    "TableFrom",
    "Tombstones",
    "WrongLayout",
    "give_marker",
    "parse_declaration",
    "parse_names",
    "parse_units",
    "perform_dry_run",
    "read_layout",
]
