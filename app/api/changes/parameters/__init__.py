"""Query parameters of the change endpoints, one module per format, and the headers that name a request (`identity`).

`common` has the parameters of every format, and caches what the query of a valid request means.
"""

from app.api.changes.parameters.arcion import CsvParameters, OverrideParameters, arcion_query, csv_query
from app.api.changes.parameters.arrow import LoadParameters, load_query
from app.api.changes.parameters.common import ChangeParameters, ChangeQuery, CsvDialectParameters, OnReject
from app.api.changes.parameters.debezium import DebeziumParameters, debezium_query
from app.api.changes.parameters.identity import MAX_SEQUENCE, IdentityHeaders, identity_headers, openapi_extra
from app.api.changes.parameters.replicate import ReplicateParameters, replicate_query
from app.api.changes.parameters.rows import (
    RowsParameters,
    StreamParameters,
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
    "replicate_query",
    "rows_csv_query",
    "rows_query",
    "rows_stream_query",
]
