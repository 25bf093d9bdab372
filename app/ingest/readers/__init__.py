"""Body readers, one module per format: each function returns the `BodyReader` that `Ingest.accept` reads a body with.

`body_reader` has what formats share. `kept` reads a kept message again, in the format in which it arrived.
With `keep_rejected`, rejected messages are set aside; they become dead letters if their table accepts them.
"""

from app.ingest.readers.arcion import arcion_csv, arcion_json
from app.ingest.readers.body_reader import BodyReader, present_table
from app.ingest.readers.debezium import debezium_json
from app.ingest.readers.kept import kept_message
from app.ingest.readers.replicate import replicate_json
from app.ingest.readers.rows import rows_csv, rows_json

__all__ = [
    "BodyReader",
    "arcion_csv",
    "arcion_json",
    "debezium_json",
    "kept_message",
    "present_table",
    "replicate_json",
    "rows_csv",
    "rows_json",
]
