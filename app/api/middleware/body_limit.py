"""Request bodies: bounded before and after decompression."""

import asyncio
import io
import re
from collections.abc import Set
from typing import Final

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.limits.body_semaphore import LARGE_BODY, UNKNOWN_LENGTH, expected_size, turn_of
from app.api.limits.memory_budget import reservation_of
from app.api.middleware.admission import CHANGES
from app.api.middleware.decompression import ENCODINGS, decompress
from app.api.server.body_errors import RejectedReading
from app.api.server.query_parameters import query_of
from app.api.server.request_facts import declared_length, facts_of
from app.api.server.validation_messages import shown
from app.errors import Code, RejectedInput
from app.settings import Settings

_JSON_TYPES: Final = frozenset({"application/json", "application/x-ndjson", "application/ndjson", "application/jsonl"})
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
_CHARSET: Final = re.compile(r"(?:^|;)\s*charset\s*=\s*\"?([^\";\s]*)", re.IGNORECASE)
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii", ""})
MOST_ELSEWHERE: Final = 2**20
"""Bytes of a body that is not one of changes: a table of thousands of columns fits."""

_HARMLESS: Final = 2**20
"""Bytes that a body may expand to however little was sent."""


class BodyLimit:
    """Stops reading a body that is too large, whatever route it is for."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            most = self._most if scope["path"].startswith(CHANGES) else MOST_ELSEWHERE
            if received > most:
                raise RejectedReading(_too_large(most))
            return message

        await self._app(scope, bounded if scope["type"] == "http" else receive, send)


def check_json_type(request: Request) -> None:
    """Raises RejectedInput `unsupported_media_type` unless the body is declared as some JSON (or not at all)."""
    if _media_type(request) not in _JSON_TYPES:
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "the content type is not JSON")


async def require_json_body(request: Request) -> None:
    """A dependency of the framework's routes: their bodies are JSON.

    Raises RejectedInput `unsupported_media_type` for a body that is declared as something else.
    """
    if _media_type(request) != "application/json" and await request.body():
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "the content type is not JSON")


def check_parameters(request: Request, known: Set[str], *, only_csv: Set[str] = frozenset()) -> None:
    """Raises RejectedInput `bad_request` for a parameter that this body's format does not take.

    A misspelt `dry_run` must not stage what it was to try.
    """
    for name in query_of(request):
        if name in only_csv:
            raise RejectedInput(Code.BAD_REQUEST, f"the parameter {name} is for bodies of the type text/csv")
        if name not in known:
            detail = f"there is no query parameter `{shown(name)}` here; there are " + ", ".join(sorted(known))
            raise RejectedInput(Code.BAD_REQUEST, detail)


def check_arrow_type(request: Request) -> None:
    """Raises RejectedInput `unsupported_media_type` unless the body is declared as an Arrow stream."""
    if _media_type(request) != ARROW_STREAM:
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, f"the content type is not {ARROW_STREAM}")


def is_csv(request: Request) -> bool:
    """Whether the body is declared as CSV."""
    return _media_type(request) == "text/csv"


def _media_type(request: Request) -> str:
    """Raises RejectedInput `unsupported_media_type` for another charset than UTF-8."""
    media_type, _, parameters = request.headers.get("content-type", "application/json").partition(";")
    if parameters:
        charset = _CHARSET.search(parameters)
        if charset is not None and charset[1].lower() not in _UTF8:
            raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "bodies are UTF-8, in no other charset")
    return media_type.strip().lower()


async def read_body(request: Request, settings: Settings, *, most: int | None = None) -> bytes:
    """The decompressed body, of `most` bytes at the most.

    Memory is reserved for what arrives and for what it expands to, until the request ends; a body that would not fit
    now is rejected before it is read. A large one waits for its turn.

    Raises RejectedInput where it is too large, or TemporarilyUnavailable `overloaded`.
    """
    encoding = _encoding(request)
    most, reservation, turn = most or settings.max_body_bytes, reservation_of(request), turn_of(request)
    key = facts_of(request.scope).subject or ""
    if (declared := declared_length(request.scope)) is not None:
        if declared > most:
            raise _too_large(most)
        reservation.check(declared)
        await turn.begin(expected_size(declared, compressed=encoding != "identity"), key)
    sent = io.BytesIO()
    async for chunk in request.stream():
        if sent.tell() + len(chunk) > most:
            raise _too_large(most)
        sent.write(chunk)
        if sent.tell() > LARGE_BODY:  # it did not say so
            await turn.begin(UNKNOWN_LENGTH, key)
    body = sent.getvalue()
    if encoding == "identity":
        turn.has_come(len(body))
        return body

    def hold(size: int) -> None:
        if size > most:
            raise _too_large(most)
        if size > max(_HARMLESS, settings.max_expansion * len(body)):
            detail = f"the body expands to more than {settings.max_expansion} times what was sent"
            raise RejectedInput(Code.BODY_EXPANDS_TOO_MUCH, detail)
        reservation.hold(len(body) + size)

    expanded = await asyncio.to_thread(decompress, body, encoding, hold)
    turn.has_come(len(expanded))
    return expanded


def _encoding(request: Request) -> str:
    """Raises RejectedInput `unsupported_encoding` for another one than gzip and zstd, or more than one."""
    named = ",".join(request.headers.getlist("content-encoding")).split(",")
    encodings = [name for name in (name.strip().lower() for name in named) if name not in ("", "identity")]
    if len(encodings) > 1:
        raise RejectedInput(Code.UNSUPPORTED_ENCODING, "the body has more than one content encoding")
    if encodings and encodings[0] not in ENCODINGS:
        raise RejectedInput(Code.UNSUPPORTED_ENCODING, "the content encoding is not gzip or zstd")
    return encodings[0] if encodings else "identity"


def hold_rows(request: Request, settings: Settings, size: int) -> None:
    """Have room for the rows that a body becomes, where that is more than the body itself.

    Raises RejectedInput `body_too_large`, or TemporarilyUnavailable `overloaded`.
    """
    if size > settings.max_body_bytes:
        detail = f"the rows take {size} bytes with the table's types, more than {settings.max_body_bytes}"
        raise RejectedInput(Code.BODY_TOO_LARGE, detail)
    reservation_of(request).hold(size)


def _too_large(most: int) -> RejectedInput:
    return RejectedInput(Code.BODY_TOO_LARGE, f"the body is larger than {most} bytes")
