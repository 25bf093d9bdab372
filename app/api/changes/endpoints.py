"""The change endpoints: each takes a request from its head, through its body, to its answer.

`ChangeEndpoint` makes the checks in the same order for all formats: key and right, headers and query, body, messages.
The answer 202 is made after COMMIT.

`decompress` expands gzip and zstd bodies in small chunks, so that memory and work remain bounded for any input.
"""

import asyncio
import io
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

import msgspec
import zstandard
from fastapi import Request

from app.api.auth.dependencies import authorize_change
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
from app.api.exchange import Answer, Exchange, body_too_large, exchange_of
from app.api.gateway import gateway_in
from app.api.server.request_parameters import ARROW_STREAM, AVRO, CSV, check_arrow_type, check_json_type, media_type
from app.domain.model.change import InputLimits
from app.ingest import ArrowLoad, IngestResult, perform_dry_run
from app.observability.api_metrics import ACCEPTED_CHANGES, DEAD_LETTERS
from app.settings import Settings
from mirrorgate.errors import Code, RejectedInput

MAX_MEMBERS: Final = 10_000
"""gzip members or zstd frames of a body: an empty one costs work that the size of the result does not bound."""

_MAX_WINDOW_BYTES: Final = 2**27
_GZIP: Final = 31
"""zlib's `wbits` for a gzip member with the largest window."""

_CHUNK_BYTES: Final = 2**8
"""Compressed bytes that are expanded at a time: at most to 8 MiB with zstd, 256 KiB with gzip."""


class _Decompressor(Protocol):
    """The decompressor of one gzip member or zstd frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: memoryview, /) -> bytes: ...


def _gzip_decompressors() -> Callable[[], _Decompressor]:
    return lambda: zlib.decompressobj(wbits=_GZIP)


def _zstd_decompressors() -> Callable[[], _Decompressor]:
    """Return a factory that shares one context among all frames: a new context costs as much as 60 empty frames."""
    return zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj


_DECOMPRESSORS: Final[dict[str, Callable[[], Callable[[], _Decompressor]]]] = {
    "gzip": _gzip_decompressors,
    "zstd": _zstd_decompressors,
}
ENCODINGS: Final = frozenset(_DECOMPRESSORS)


def decompress(body: bytes, encoding: str, reserve: Callable[[int], None]) -> bytes:
    """Return the content of one or more complete gzip members or zstd frames, with nothing after them.

    `reserve` is called with the total size before each chunk is kept, long before a decompression bomb fills the
    memory. Raises RejectedInput `bad_encoding`, also for too many members or frames, and what `reserve` raises.
    """
    try:
        return _decompress(body, _DECOMPRESSORS[encoding](), reserve)
    except (zlib.error, zstandard.ZstdError, ValueError) as error:
        raise RejectedInput(Code.BAD_ENCODING, f"the body is not valid {encoding}") from error


def _decompress(body: bytes, new_decompressor: Callable[[], _Decompressor], reserve: Callable[[int], None]) -> bytes:
    """Raise ValueError if the last member or frame is truncated."""
    expanded = io.BytesIO()
    position = members = 0
    view = memoryview(body)
    while position < len(view):
        members += 1
        if members > MAX_MEMBERS:
            detail = f"the body has more than {MAX_MEMBERS} gzip members or zstd frames"
            raise RejectedInput(Code.BAD_ENCODING, detail)
        decompressor = new_decompressor()
        while not decompressor.eof:
            chunk = view[position : position + _CHUNK_BYTES]
            if not chunk:
                raise ValueError("truncated")
            part = decompressor.decompress(chunk)
            position += len(chunk)
            reserve(expanded.tell() + len(part))
            expanded.write(part)
        position -= len(decompressor.unused_data)
    return expanded.getvalue()


MIN_EXPANSION_BYTES: Final = 2**20
"""Bytes to which every body can expand, even if that exceeds the limit on the expansion factor."""

MIN_ROWS_BYTES: Final = 16 * 2**20
"""Bytes that the rows of every body can take beside it, even if that exceeds the limit on the expansion factor."""


async def read_body(exchange: Exchange, settings: Settings) -> bytes:
    """Return the decompressed body of a change request, of at most the bytes that the settings allow.

    Memory is reserved until the request ends, for the bytes that arrive and for those to which they expand.

    Raises RejectedInput if it is too large or not decompressible, and what `Exchange.read_body` raises.
    """
    limit = settings.max_body_bytes
    encoding = _encoding(exchange.head.content_encoding) if exchange.head.content_encoding else None
    body = await exchange.read_body(limit, is_compressed=encoding is not None)
    if encoding is not None:
        body = await _expanded(exchange, settings, body, encoding, limit)
    exchange.complete_body(len(body))
    return body


async def read_other_body(request: Request, settings: Settings, max_bytes: int) -> bytes:
    """Return the decompressed body of another request, which the framework may have read before.

    Raises what `read_body` raises.
    """
    exchange = exchange_of(request.scope)
    encoding = _encoding(exchange.head.content_encoding)
    if (exchange.head.content_length or 0) > max_bytes or len(body := await request.body()) > max_bytes:
        raise body_too_large(max_bytes)
    return body if encoding is None else await _expanded(exchange, settings, body, encoding, max_bytes)


def limits_of(exchange: Exchange, settings: Settings, limits: InputLimits, body: bytes) -> InputLimits:
    """Return the limits of one request, which reserve memory for the rows of its body until the request ends.

    A request holds the larger of its body and its rows. Rows can take as much as the largest body, and those of a small
    body at most `max_expansion` times its bytes, or MIN_ROWS_BYTES. Their `reserve` raises RejectedInput
    `body_too_large` beyond that, and TemporarilyUnavailable `overloaded`. Threads may call it.
    """
    held = len(body)
    most = min(settings.max_body_bytes, max(MIN_ROWS_BYTES, settings.max_expansion * held))

    def reserve(size: int) -> None:
        nonlocal held
        if size > most:
            detail = f"its rows take up to {size} bytes in the columns of their tables, more than {most}"
            raise RejectedInput(Code.BODY_TOO_LARGE, detail)
        held = max(held, size)
        exchange.reservation.reserve(held)

    def reserve_answer(size: int) -> None:
        exchange.reservation.reserve(held + size)

    return InputLimits(limits.messages, limits.value_bytes, reserve, reserve_answer)


async def _expanded(exchange: Exchange, settings: Settings, body: bytes, encoding: str, limit: int) -> bytes:
    def reserve(size: int) -> None:
        if size > limit:
            raise body_too_large(limit)
        if size > max(MIN_EXPANSION_BYTES, settings.max_expansion * len(body)):
            detail = f"the body expands to more than {settings.max_expansion} times its compressed size"
            raise RejectedInput(Code.BODY_EXPANDS_TOO_MUCH, detail)
        exchange.reservation.reserve(len(body) + size)

    return await asyncio.to_thread(decompress, body, encoding, reserve)


def _encoding(named: bytes) -> str | None:
    """Return the content encoding, None for identity. Raises RejectedInput `unsupported_encoding` for another."""
    names = (name.strip().lower() for name in named.decode("latin-1").split(","))
    encodings = [name for name in names if name not in ("", "identity")]
    if len(encodings) > 1:
        raise RejectedInput(Code.UNSUPPORTED_ENCODING, "the body has more than one content encoding")
    if encodings and encodings[0] not in ENCODINGS:
        raise RejectedInput(Code.UNSUPPORTED_ENCODING, "the content encoding is not gzip or zstd")
    return encodings[0] if encodings else None


PREFIX: Final = "/v1/changes"
_REPLAYED: Final = {"Idempotency-Replayed": "true"}
_ENCODER: Final = msgspec.json.Encoder()

_ReadQuery: TypeAlias = Callable[[bytes], ChangeQuery]


class ChangeEndpoint:
    """Endpoint for change requests of one format, outside the framework and as the body of its route."""

    def __init__(self, source_format: str, query_of: Callable[[Exchange], ChangeQuery]) -> None:
        """Prepare. `query_of` reads the query by the content type."""
        self.path: Final = f"{PREFIX}/{source_format}"
        self._query_of = query_of
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

    async def _accept(self, exchange: Exchange) -> IngestResult | Answer:
        """Stage what a body has, or answer a dry run."""
        principal = await authorize_change(exchange)
        named, query, gateway = identity_headers(exchange), self._query_of(exchange), gateway_in(exchange.scope)
        dry_run = query.given.dry_run
        named.check_stages_all(dry_run=dry_run, keeps_rejected=query.given.keeps_rejected)
        body = await read_body(exchange, gateway.settings)
        identity = named.identity(exchange, body)
        reader = query.reader(body, limits_of(exchange, gateway.settings, gateway.input_limits, body))
        try:
            if dry_run:
                return Answer(200, msgspec.json.encode(await perform_dry_run(gateway.ingest, reader, principal)))
            if isinstance(reader, ArrowLoad):
                return await reader.accept(gateway.ingest, principal, identity, named.load_id)
            return await gateway.ingest.accept(reader, principal, identity, named.load_id)
        except RejectedInput as error:
            raise await asyncio.to_thread(reader.explained, error) from None


def _query_of(
    read: _ReadQuery, others: Mapping[str, _ReadQuery] = MappingProxyType({})
) -> Callable[[Exchange], ChangeQuery]:
    """Return what reads the query of a JSON body, or of a body of one of the other content types."""

    def query_of(exchange: Exchange) -> ChangeQuery:
        content_type, query = exchange.head.content_type, exchange.scope["query_string"]
        if (other := others.get(media_type(content_type))) is not None:
            return other(query)
        check_json_type(content_type)
        return read(query)

    return query_of


def _load_query_of(exchange: Exchange) -> ChangeQuery:
    check_arrow_type(exchange.head.content_type)
    return load_query(exchange.scope["query_string"])


ARCION: Final = ChangeEndpoint("arcion", _query_of(arcion_query, {CSV: csv_query}))
REPLICATE: Final = ChangeEndpoint("replicate", _query_of(replicate_query, {AVRO: replicate_avro_query}))
DEBEZIUM: Final = ChangeEndpoint("debezium", _query_of(debezium_query))
ROWS: Final = ChangeEndpoint("rows", _query_of(rows_query, {CSV: rows_csv_query, ARROW_STREAM: rows_stream_query}))
ARROW: Final = ChangeEndpoint("arrow", _load_query_of)

ENDPOINTS: Final = {endpoint.path: endpoint for endpoint in (ARCION, REPLICATE, DEBEZIUM, ROWS, ARROW)}
"""The endpoints by path."""
