"""The write use case: the bytes of a request -> durable change batches -> receipts.

`accept` takes a request through decoding, routing, typing and staging; `source_bodies` decodes, into `decoded`;
`directory` knows the tables as last seen; `replicate_tables` does what metadata messages say; `typed_request` makes
typed batches; `rehearsal` does all that and takes it back; `replay` sends kept messages the same way again.
"""

from app.formats.csv_layout import CsvLayout, CsvMode
from app.ingest.accept import Accepted, Ingest
from app.ingest.rehearsal import rehearse
from app.ingest.replay import Replays
from app.ingest.source_bodies import Decode, arcion_csv, arcion_json, replicate_json

__all__ = [
    "Accepted",
    "CsvLayout",
    "CsvMode",
    "Decode",
    "Ingest",
    "Replays",
    "arcion_csv",
    "arcion_json",
    "rehearse",
    "replicate_json",
]
