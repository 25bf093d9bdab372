"""Reads and decompresses the body of a change request, within its limits of bytes and memory."""

import asyncio
import io
from typing import Final

from fastapi import Request

from app.api.limits.body_semaphore import ASSUMED_BODY_BYTES, LARGE_BODY_BYTES, expected_size, permit_of
from app.api.limits.memory_budget import reservation_of
from app.api.middleware.body_limit import body_too_large
from app.api.middleware.decompression import ENCODINGS, decompress
from app.api.server.request_facts import declared_length, facts_of
from app.errors import Code, RejectedInput
from app.settings import Settings

MIN_EXPANSION_BYTES: Final = 2**20
"""Bytes to which every body can expand, even if that exceeds the limit on the expansion factor."""


async def read_body(request: Request, settings: Settings, *, max_bytes: int | None = None) -> bytes:
    """Return the decompressed body, of at most `max_bytes` bytes (default: the limit of the settings).

    Memory is reserved until the request ends, for the bytes that arrive and for those to which they expand. A body
    that does not fit now is rejected before it is read; a large one waits for its permit.

    Raises RejectedInput if it is too large or not decompressible, and TemporarilyUnavailable `overloaded`.
    """
    encoding = _encoding(request)
    limit, reservation, permit = max_bytes or settings.max_body_bytes, reservation_of(request), permit_of(request)
    key = facts_of(request.scope).subject or ""
    if (declared := declared_length(request.scope)) is not None:
        if declared > limit:
            raise body_too_large(limit)
        reservation.check(declared)
        await permit.acquire(expected_size(declared, compressed=encoding != "identity"), key)
    sent = io.BytesIO()
    async for chunk in request.stream():
        if sent.tell() + len(chunk) > limit:
            raise body_too_large(limit)
        sent.write(chunk)
        if sent.tell() > LARGE_BODY_BYTES:  # a large body without a declared length
            await permit.acquire(ASSUMED_BODY_BYTES, key)
    body = sent.getvalue()
    if encoding == "identity":
        permit.complete(len(body))
        return body

    def reserve(size: int) -> None:
        if size > limit:
            raise body_too_large(limit)
        if size > max(MIN_EXPANSION_BYTES, settings.max_expansion * len(body)):
            detail = f"the body expands to more than {settings.max_expansion} times its compressed size"
            raise RejectedInput(Code.BODY_EXPANDS_TOO_MUCH, detail)
        reservation.reserve(len(body) + size)

    expanded = await asyncio.to_thread(decompress, body, encoding, reserve)
    permit.complete(len(expanded))
    return expanded


def reserve_rows(request: Request, settings: Settings, size: int) -> None:
    """Reserve memory for the rows that a body becomes, if they take more than the body itself.

    Raises RejectedInput `body_too_large`, or TemporarilyUnavailable `overloaded`.
    """
    if size > settings.max_body_bytes:
        detail = f"the rows take {size} bytes in the table's types, more than {settings.max_body_bytes}"
        raise RejectedInput(Code.BODY_TOO_LARGE, detail)
    reservation_of(request).reserve(size)


def _encoding(request: Request) -> str:
    """Return the content encoding. Raises RejectedInput `unsupported_encoding` unless it is one of ours."""
    named = ",".join(request.headers.getlist("content-encoding")).split(",")
    encodings = [name for name in (name.strip().lower() for name in named) if name not in ("", "identity")]
    if len(encodings) > 1:
        raise RejectedInput(Code.UNSUPPORTED_ENCODING, "the body has more than one content encoding")
    if encodings and encodings[0] not in ENCODINGS:
        raise RejectedInput(Code.UNSUPPORTED_ENCODING, "the content encoding is not gzip or zstd")
    return encodings[0] if encodings else "identity"
