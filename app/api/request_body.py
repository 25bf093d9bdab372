"""Request bodies: bounded before and after decompression."""

import asyncio
import zlib
from collections.abc import Callable, Set
from typing import Final, Protocol

import zstandard
from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import Code, RejectedInput

_JSON_TYPES: Final = frozenset({"application/json", "application/x-ndjson", "application/ndjson", "application/jsonl"})
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
CHANGES: Final = "/v1/changes/"
MOST_ELSEWHERE: Final = 2**20
"""Bytes of a body that is not one of changes: a table of thousands of columns fits."""

_PIECE: Final = 2**10
"""Compressed bytes that are expanded at once: at most 44 MB with zstd, 1 MB with gzip."""


class _Decompressor(Protocol):
    """One gzip member or zstd frame on its way."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: memoryview, /) -> bytes: ...


_DECOMPRESSORS: Final[dict[str, Callable[[], _Decompressor]]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "zstd": lambda: zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj(),
}


class BodyLimit:
    """Stops reading a body that is too large, whatever route it is for and whoever sends it.

    The framework reads the bodies of its own routes before it asks for a key.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > (self._most if scope["path"].startswith(CHANGES) else MOST_ELSEWHERE):
                raise HTTPException(413)
            return message

        await self._app(scope, bounded if scope["type"] == "http" else receive, send)


def check_json_type(request: Request) -> None:
    """Raises RejectedInput `unsupported_media_type` unless the body is declared as some JSON (or not at all)."""
    if _media_type(request) not in _JSON_TYPES:
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "the content type is not JSON")


def check_parameters(request: Request, known: Set[str], *, only_csv: Set[str] = frozenset()) -> None:
    """Raises RejectedInput `bad_request` for a parameter that this body's format does not take.

    A misspelt `dry_run` must not stage what it was to try.
    """
    for name in request.query_params:
        if name in only_csv:
            raise RejectedInput(Code.BAD_REQUEST, f"the parameter {name} is for bodies of the type text/csv")
        if name not in known:
            detail = "there is no such query parameter here; there are " + ", ".join(sorted(known))
            raise RejectedInput(Code.BAD_REQUEST, detail)


def check_arrow_type(request: Request) -> None:
    """Raises RejectedInput `unsupported_media_type` unless the body is declared as an Arrow stream."""
    if _media_type(request) != ARROW_STREAM:
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, f"the content type is not {ARROW_STREAM}")


def is_csv(request: Request) -> bool:
    """Whether the body is declared as CSV."""
    return _media_type(request) == "text/csv"


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()


async def read_body(request: Request, most: int) -> bytes:
    """The decompressed body, `most` bytes at the most on either side of decompression."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity" and encoding not in _DECOMPRESSORS:
        raise RejectedInput(Code.UNSUPPORTED_ENCODING, "the content encoding is not gzip or zstd")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise _too_large(most)
    if encoding == "identity":
        return bytes(body)
    try:
        return await asyncio.to_thread(_decompress, bytes(body), _DECOMPRESSORS[encoding], most)
    except (zlib.error, zstandard.ZstdError, ValueError) as error:
        raise RejectedInput(Code.BAD_ENCODING, f"the body is not valid {encoding}") from error


def _decompress(body: bytes, start: Callable[[], _Decompressor], most: int) -> bytes:
    """One or more whole members or frames, nothing behind them. Raises ValueError for a truncated one.

    It reads small pieces, so that the size is checked long before a bomb fills the memory.
    """
    parts: list[bytes] = []
    size = position = 0
    view = memoryview(body)
    while position < len(view):
        decompressor = start()
        while not decompressor.eof:
            piece = view[position : position + _PIECE]
            if not piece:
                raise ValueError("truncated")
            part = decompressor.decompress(piece)
            position += len(piece)
            size += len(part)
            if size > most:
                raise _too_large(most)
            parts.append(part)
        position -= len(decompressor.unused_data)
    return b"".join(parts)


def _too_large(most: int) -> RejectedInput:
    return RejectedInput(Code.BODY_TOO_LARGE, f"the body is larger than {most} bytes")
