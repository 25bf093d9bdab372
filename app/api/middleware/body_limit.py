"""Limits the bytes of a request body as sent, whatever route the request is for."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.middleware.admission import CHANGES_PREFIX
from app.api.server.body_rejection import BodyRejected
from app.errors import Code, RejectedInput

MAX_OTHER_BODY_BYTES: Final = 2**20
"""Bytes of a body that is not one of changes: enough to declare a table of thousands of columns."""


class BodyLimit:
    """Stops reading a body that is too large."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the bytes that the application reads."""
        received = 0

        async def receive_bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            limit = self._max_bytes if scope["path"].startswith(CHANGES_PREFIX) else MAX_OTHER_BODY_BYTES
            if received > limit:
                raise BodyRejected(body_too_large(limit))
            return message

        await self._app(scope, receive_bounded if scope["type"] == "http" else receive, send)


def body_too_large(limit: int) -> RejectedInput:
    """Return the error for a body of more than `limit` bytes."""
    return RejectedInput(Code.BODY_TOO_LARGE, f"the body is larger than {limit} bytes")
