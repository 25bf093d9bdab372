"""What is known of a request besides its answer: for its log line, the audit and the limits of its key."""

from collections.abc import Callable
from typing import Final

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
    received: int = 0
    """Bytes of the body that were read, as sent."""
    changes: int = 0
    """Changes that the request made durable."""
    count_bytes: Callable[[int], None] | None = None
    """Counts bytes of a body without a declared length towards the rate limit of the key."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers that every answer of the request gets, also a rejection."""
