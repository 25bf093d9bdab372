"""Try messages as their change endpoint takes them, and stage nothing."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from app.api.changes.body import limits_of
from app.api.changes.parameters import (
    ChangeQuery,
    arcion_query,
    csv_query,
    debezium_query,
    replicate_query,
    rows_csv_query,
    rows_query,
)
from app.api.exchange import Exchange
from app.api.gateway import gateway_in
from app.domain.access.rights import Principal
from app.domain.model.dead_letter import LetterFormat
from app.ingest import perform_dry_run
from app.ingest.dry_run import DryRunResult
from mirrorgate.errors import RejectedInput

_QUERIES: Final[Mapping[LetterFormat, Callable[[bytes], ChangeQuery]]] = {
    LetterFormat.ROWS: rows_query,
    LetterFormat.ROWS_CSV: rows_csv_query,
    LetterFormat.ARCION: arcion_query,
    LetterFormat.ARCION_CSV: csv_query,
    LetterFormat.REPLICATE: replicate_query,
    LetterFormat.DEBEZIUM: debezium_query,
}
"""Readers of the query of each format."""


async def try_messages(
    exchange: Exchange, principal: Principal, source_format: LetterFormat, query: bytes, body: bytes
) -> DryRunResult:
    """Return the rows that would land. `query` has the parameters of the endpoint.

    Raises what rejects such a request: RejectedInput, TemporarilyUnavailable, and FastAPI's RequestValidationError.
    """
    gateway = gateway_in(exchange.scope)
    limits = limits_of(exchange, gateway.settings, gateway.input_limits, body)
    reader = _QUERIES[source_format](query).reader_of(body, limits=limits, keep_rejected=False)
    try:
        return await perform_dry_run(gateway.ingest, reader, principal)
    except RejectedInput as error:
        raise await asyncio.to_thread(reader.explained, error) from None
