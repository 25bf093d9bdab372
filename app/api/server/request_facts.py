"""What is known of a request beside its answer: for its log line, the audit and the limits of its key."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

_FACTS: Final = "mirrorgate.facts"

BODY_IS_THERE: Final = "mirrorgate.body_is_there"
"""In the scope of a request once all of its body has come: nothing is waited for any more."""


@dataclass(slots=True)
class RequestFacts:
    """Facts of one request, filled in by whoever learns them. Never a secret and never a row value."""

    subject: str | None = None
    """The id of the key, or `oidc:<subject>`; of a rejected key only where there is such a key."""
    code: str | None = None
    """The error code of a rejection."""
    tables: tuple[str, ...] = ()
    """The tables that a rejection or an acceptance is about."""
    received: int = 0
    """Bytes of the body that were read, as sent."""
    changes: int = 0
    """Changes that the request made durable."""
    spend: Callable[[int], None] | None = None
    """Counts bytes of a body without a declared length towards the rate limit of the key."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers that the answer gets, whatever it is."""


def facts_of(scope: Scope) -> RequestFacts:
    """The facts of the request of this scope."""
    facts: RequestFacts | None = scope.get(_FACTS)
    if facts is None:
        facts = scope[_FACTS] = RequestFacts()
    return facts


def declared_length(scope: Scope) -> int | None:
    """The `Content-Length` of a request; None for a body without one, and for no body."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return None
