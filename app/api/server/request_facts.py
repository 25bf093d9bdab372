"""Facts about a request: the headers that the gateway reads, and what is learned of it besides its answer.

`RequestHead` has the headers, taken from the head in one pass by `read_head`. `RequestFacts` are for the request's log
line, the audit and the limits of its key.
"""

import re
from collections.abc import Callable, Sequence
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


BODY_COMPLETE: Final = "mirrorgate.body_complete"
"""Key in the scope of a request whose body has arrived completely."""

CONNECTION: Final = "mirrorgate.connection"
"""Key in the scope of a request for its connection, a `BoundedHttpProtocol`."""

CHANGES_PREFIX: Final = "/v1/changes/"
"""Start of the paths whose requests count as change requests."""


class RequestFacts:
    """Facts of one request, set by the code that learns them. They contain no secrets and no row values.

    The class holds the defaults, so that a new object costs nothing.
    """

    subject: str | None = None
    """The id of the key, or `oidc:<subject>`. For a rejected key it is set only if the key exists."""
    code: str | None = None
    """The error code of a rejection."""
    tables: tuple[str, ...] = ()
    """The tables that a rejection or an acceptance concerns."""
    max_bytes: int = 2**63
    """Bytes of the largest body that is read."""
    received: int = 0
    """Bytes of the body that were read, as sent."""
    changes: int = 0
    """Changes that the request made durable."""
    count_bytes: Callable[[int], None] | None = None
    """Counts bytes of a body without a declared length towards the rate limit of the key."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers that every answer of the request gets, also a rejection."""
