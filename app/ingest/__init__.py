"""The write use case: the bytes of a request -> durable change batches -> receipts.

`accept` takes a request through decoding, routing, typing and staging; `source_bodies` decodes, into `parsed`;
`table_cache` knows the tables as last seen; `replicate_tables` does what metadata messages say; `typed_request` makes
typed batches, `plain_requests` faster for those that ask nothing of their table, which `plain_reader` reads together
where many wait; `backlog` rejects what a table, or the gateway, may not take for now; `rehearsal` does all that and
takes it back; `replay` sends kept messages the same way again. `load` takes Arrow streams.
"""

from app.formats.arcion.csv_layout import CsvLayout, CsvMode
from app.ingest.backlog import BacklogWatch
from app.ingest.dry_run import perform_dry_run
from app.ingest.loads import ArrowLoad
from app.ingest.pipeline import Ingest, IngestResult
from app.ingest.readers import BodyReader, arcion_csv, arcion_json, replicate_json
from app.ingest.replay import Replays

__all__ = [
    "ArrowLoad",
    "BacklogWatch",
    "BodyReader",
    "CsvLayout",
    "CsvMode",
    "Ingest",
    "IngestResult",
    "Replays",
    "arcion_csv",
    "arcion_json",
    "perform_dry_run",
    "replicate_json",
]
