"""The headers of a request that the gateway reads, taken from the head in one pass."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
IDENTITY_HEADERS: Final = (
    b"idempotency-key",
    b"mirrorgate-load",
    b"mirrorgate-producer",
    b"mirrorgate-producer-position",
    b"mirrorgate-producer-sequence",
)
"""Headers that name a request, so that it can be repeated, or the load session that it belongs to."""


class RequestHead(NamedTuple):
    """Values of headers as sent. Of a header that is sent twice, the first one counts."""

    authorization: bytes
    content_type: bytes | None
    content_encoding: bytes
    """All values, separated by commas."""
    content_length: int | None
    """None for a chunked body and for no body."""
    request_id: str | None
    """The first valid `X-Request-Id`."""
    signature: bytes
    """`X-Signature`, or GitHub's `X-Hub-Signature-256`."""
    key_id: bytes
    """`Mirrorgate-Key-Id`: the key that a signature is of."""
    has_identity: bool
    """True if one of IDENTITY_HEADERS is there."""


def read_head(headers: Sequence[tuple[bytes, bytes]]) -> RequestHead:
    """Read the headers of an ASGI scope, whose names are in lower case."""
    first = dict(reversed(headers))
    encoding, length, request_id = first.get(b"content-encoding"), first.get(b"content-length"), None
    if encoding is not None:
        encoding = b",".join(value for name, value in headers if name == b"content-encoding")
    if b"x-request-id" in first:
        named = (value for name, value in headers if name == b"x-request-id" and _REQUEST_ID.fullmatch(value))
        request_id = next((value.decode() for value in named), None)
    return RequestHead(
        first.get(b"authorization", b""),
        first.get(b"content-type"),
        encoding or b"",
        int(length) if length is not None and length.isdigit() else None,
        request_id,
        first.get(b"x-signature") or first.get(b"x-hub-signature-256", b""),
        first.get(b"mirrorgate-key-id", b""),
        not first.keys().isdisjoint(IDENTITY_HEADERS),
    )
