"""The change endpoints: each takes a request from its head to its answer. The answer 202 is made after COMMIT.

The order of the checks is the same for all of them: key and right, headers and query, body, messages.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

import msgspec

from app.api.auth.dependencies import authorize_change
from app.api.changes.body import limits_of, read_body
from app.api.changes.parameters import (
    ChangeQuery,
    arcion_query,
    csv_query,
    debezium_query,
    identity_headers,
    load_query,
    replicate_avro_query,
    replicate_query,
    rows_csv_query,
    rows_query,
    rows_stream_query,
)
from app.api.exchange import Answer, Exchange
from app.api.gateway import gateway_in
from app.api.server.content_types import ARROW_STREAM, AVRO, CSV, check_arrow_type, check_json_type, media_type
from app.ingest import ArrowLoad, IngestResult, perform_dry_run
from app.observability.api_metrics import ACCEPTED_CHANGES, DEAD_LETTERS
from mirrorgate.errors import RejectedInput

PREFIX: Final = "/v1/changes"
_REPLAYED: Final = {"Idempotency-Replayed": "true"}
_ENCODER: Final = msgspec.json.Encoder()


class ChangeEndpoint:
    """Endpoint for change requests of one format, outside the framework and as the body of its route."""

    def __init__(
        self, source_format: str, accept: Callable[[Exchange], Coroutine[Any, Any, IngestResult | Answer]]
    ) -> None:
        """Prepare. `accept` returns what was accepted, or the whole answer of a dry run."""
        self.path: Final = f"{PREFIX}/{source_format}"
        self._accept = accept
        self._changes = ACCEPTED_CHANGES.labels(source_format)
        self._dead_letters = DEAD_LETTERS.labels(source_format)

    async def __call__(self, exchange: Exchange) -> Answer:
        """Return the answer of an accepted request. Raises what rejects one."""
        result = await self._accept(exchange)
        if isinstance(result, Answer):
            return result
        content = _ENCODER.encode(
            {
                "receipts": result.receipts,
                "ignored": result.ignored,
                "duplicates": result.duplicates,
                "dead_letters": result.dead_letters,
                "replayed": result.replayed,
                **({"registered": result.registered} if result.registered else {}),
            }
        )
        if result.replayed:
            return Answer(200, content, _REPLAYED)
        exchange.changes = made = sum([receipt.changes for receipt in result.receipts])
        self._changes.inc(made)
        if result.dead_letters:
            self._dead_letters.inc(result.dead_letters)
        return Answer(202, content)


async def _accept_messages(query_of: Callable[[Exchange], ChangeQuery], exchange: Exchange) -> IngestResult | Answer:
    """Stage the messages of a body, or answer a dry run."""
    principal = await authorize_change(exchange)
    named, query, gateway = identity_headers(exchange), query_of(exchange), gateway_in(exchange.scope)
    named.check_stages_all(dry_run=query.given.dry_run, keeps_rejected=query.given.keeps_rejected)
    body = await read_body(exchange, gateway.settings)
    identity = named.identity(exchange, body)
    limits = limits_of(exchange, gateway.settings, gateway.input_limits, body)
    reader = query.reader_of(body, limits=limits, keep_rejected=query.given.keeps_rejected)
    try:
        if query.given.dry_run:
            return Answer(200, msgspec.json.encode(await perform_dry_run(gateway.ingest, reader, principal)))
        return await gateway.ingest.accept(reader, principal, identity, named.load_id)
    except RejectedInput as error:
        raise await asyncio.to_thread(reader.explained, error) from None


async def _accept_rows(exchange: Exchange) -> IngestResult | Answer:
    """Stage plain rows, in JSON, CSV or an Arrow stream."""
    if media_type(exchange.head.content_type) != ARROW_STREAM:
        return await _accept_messages(_rows_query_of, exchange)
    principal = await authorize_change(exchange)
    named, gateway = identity_headers(exchange), gateway_in(exchange.scope)
    query = rows_stream_query(exchange.scope["query_string"])
    named.check_stages_all(dry_run=query.dry_run, keeps_rejected=False)
    body = await read_body(exchange, gateway.settings)
    identity = named.identity(exchange, body)
    limits = limits_of(exchange, gateway.settings, gateway.input_limits, body)
    load = ArrowLoad(query.table, body, limits, query.rows, named.load_id)
    try:
        if query.dry_run:
            return Answer(200, msgspec.json.encode(await perform_dry_run(gateway.ingest, load, principal)))
        return await load.accept(gateway.ingest, principal, identity)
    except RejectedInput as error:
        raise await asyncio.to_thread(load.explained, error) from None


async def _accept_stream(exchange: Exchange) -> IngestResult:
    """Stage the rows of an initial load."""
    principal = await authorize_change(exchange)
    named, gateway = identity_headers(exchange), gateway_in(exchange.scope)
    check_arrow_type(exchange.head.content_type)
    table = load_query(exchange.scope["query_string"])
    body = await read_body(exchange, gateway.settings)
    limits = limits_of(exchange, gateway.settings, gateway.input_limits, body)
    load = ArrowLoad(table, body, limits, load_id=named.load_id)
    try:
        return await load.accept(gateway.ingest, principal, named.identity(exchange, body))
    except RejectedInput as error:
        raise await asyncio.to_thread(load.explained, error) from None


def _arcion_query_of(exchange: Exchange) -> ChangeQuery:
    content_type, query = exchange.head.content_type, exchange.scope["query_string"]
    if media_type(content_type) == CSV:
        return csv_query(query)
    check_json_type(content_type)
    return arcion_query(query)


def _replicate_query_of(exchange: Exchange) -> ChangeQuery:
    content_type, query = exchange.head.content_type, exchange.scope["query_string"]
    if media_type(content_type) == AVRO:
        return replicate_avro_query(query)
    check_json_type(content_type)
    return replicate_query(query)


def _debezium_query_of(exchange: Exchange) -> ChangeQuery:
    check_json_type(exchange.head.content_type)
    return debezium_query(exchange.scope["query_string"])


def _rows_query_of(exchange: Exchange) -> ChangeQuery:
    content_type, query = exchange.head.content_type, exchange.scope["query_string"]
    if media_type(content_type) == CSV:
        return rows_csv_query(query)
    check_json_type(content_type)
    return rows_query(query)


ARCION: Final = ChangeEndpoint("arcion", partial(_accept_messages, _arcion_query_of))
REPLICATE: Final = ChangeEndpoint("replicate", partial(_accept_messages, _replicate_query_of))
DEBEZIUM: Final = ChangeEndpoint("debezium", partial(_accept_messages, _debezium_query_of))
ROWS: Final = ChangeEndpoint("rows", _accept_rows)
ARROW: Final = ChangeEndpoint("arrow", _accept_stream)

ENDPOINTS: Final = {endpoint.path: endpoint for endpoint in (ARCION, REPLICATE, DEBEZIUM, ROWS, ARROW)}
"""The endpoints by path."""
