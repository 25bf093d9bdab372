"""What is known of a request besides its answer: for its log line, the audit and the limits of its key."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

_FACTS: Final = "mirrorgate.facts"

BODY_COMPLETE: Final = "mirrorgate.body_complete"
"""Key in the scope of a request whose body has arrived completely."""


@dataclass(slots=True)
class RequestFacts:
    """Facts of one request, set by the code that learns them. They contain no secrets and no row values."""

    subject: str | None = None
    """The id of the key, or `oidc:<subject>`. For a rejected key it is set only if the key exists."""
    code: str | None = None
    """The error code of a rejection."""
    tables: tuple[str, ...] = ()
    """The tables that a rejection or an acceptance concerns."""
    received: int = 0
    """Bytes of the body that were read, as sent."""
    changes: int = 0
    """Changes that the request made durable."""
    count_bytes: Callable[[int], None] | None = None
    """Counts bytes of a body without a declared length towards the rate limit of the key."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers that every answer of the request gets, also a rejection."""


def facts_of(scope: Scope) -> RequestFacts:
    """Return the facts of the request of this scope, and create them at the first call."""
    facts: RequestFacts | None = scope.get(_FACTS)
    if facts is None:
        facts = scope[_FACTS] = RequestFacts()
    return facts


def declared_length(scope: Scope) -> int | None:
    """Return the `Content-Length` of a request in bytes; None for a chunked body and for no body."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return None
