"""Query parameters of the change endpoints, one module per format, and the headers that name a request (`identity`).

`common` has the parameters of every format, and caches what the query of a valid request means.
"""

from app.api.changes.parameters.common import (
    MAX_SEQUENCE,
    ChangeParameters,
    ChangeQuery,
    CsvDialectParameters,
    IdentityHeaders,
    OnReject,
    identity_headers,
    openapi_extra,
)
from app.api.changes.parameters.formats import (
    CsvParameters,
    DebeziumParameters,
    LoadParameters,
    OverrideParameters,
    ReplicateParameters,
    RowsParameters,
    StreamParameters,
    arcion_query,
    csv_query,
    debezium_query,
    load_query,
    replicate_avro_query,
    replicate_query,
    rows_csv_query,
    rows_query,
    rows_stream_query,
)

__all__ = [
    "MAX_SEQUENCE",
    "ChangeParameters",
    "ChangeQuery",
    "CsvDialectParameters",
    "CsvParameters",
    "DebeziumParameters",
    "IdentityHeaders",
    "LoadParameters",
    "OnReject",
    "OverrideParameters",
    "ReplicateParameters",
    "RowsParameters",
    "StreamParameters",
    "arcion_query",
    "csv_query",
    "debezium_query",
    "identity_headers",
    "load_query",
    "openapi_extra",
    "replicate_avro_query",
    "replicate_query",
    "rows_csv_query",
    "rows_query",
    "rows_stream_query",
]
