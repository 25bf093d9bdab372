"""Body readers, one module per format: each has a class of `BodyReader`, whose object is one body with its query.

`body_reader` has what formats share.
"""

from app.ingest.readers.arcion import ArcionCsv, ArcionJson
from app.ingest.readers.body_reader import BodyReader, present_table
from app.ingest.readers.debezium import DebeziumJson
from app.ingest.readers.replicate import ReplicateAvro, ReplicateJson
from app.ingest.readers.rows import RowsCsv, RowsJson

__all__ = [
    "ArcionCsv",
    "ArcionJson",
    "BodyReader",
    "DebeziumJson",
    "ReplicateAvro",
    "ReplicateJson",
    "RowsCsv",
    "RowsJson",
    "present_table",
]
