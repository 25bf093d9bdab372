"""Request bodies: bounded before and after decompression."""

import zlib
from typing import Final

import zstandard
from fastapi import Request

from app.errors import Code, RejectedInput

_JSON_TYPES: Final = frozenset({"application/json", "application/x-ndjson", "application/ndjson", "application/jsonl"})
_CHUNK: Final = 2**20


def check_json_type(request: Request) -> None:
    """Raises RejectedInput `unsupported_media_type` unless the body is declared as some JSON (or not at all)."""
    given = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if given not in _JSON_TYPES:
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "the content type is not JSON")


async def read_body(request: Request, most: int) -> bytes:
    """The decompressed body, `most` bytes at the most on either side of decompression."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip", "zstd"}:
        raise RejectedInput(Code.UNSUPPORTED_ENCODING, "the content encoding is not gzip or zstd")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise _too_large(most)
    if encoding == "identity":
        return bytes(body)
    try:
        return _gunzip(bytes(body), most) if encoding == "gzip" else _unzstd(bytes(body), most)
    except (zlib.error, zstandard.ZstdError) as error:
        raise RejectedInput(Code.BAD_ENCODING, f"the body is not valid {encoding}") from error


def _gunzip(body: bytes, most: int) -> bytes:
    """One or more gzip members, nothing behind them."""
    parts: list[bytes] = []
    size = 0
    while body:
        decompressor = zlib.decompressobj(wbits=31)
        part = decompressor.decompress(body, most - size + 1)
        size += len(part)
        if size > most:
            raise _too_large(most)
        if not decompressor.eof:
            raise zlib.error("truncated")
        parts.append(part)
        body = decompressor.unused_data
    return b"".join(parts)


def _unzstd(body: bytes, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    with zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(body, read_across_frames=True) as reader:
        while part := reader.read(_CHUNK):
            size += len(part)
            if size > most:
                raise _too_large(most)
            parts.append(part)
    return b"".join(parts)


def _too_large(most: int) -> RejectedInput:
    return RejectedInput(Code.BODY_TOO_LARGE, f"the body is larger than {most} bytes")
