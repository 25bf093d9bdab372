"""Lets no byte of a body be read before its caller has presented a valid key or token, whatever the route.

FastAPI reads the body of a route before it resolves the dependency that checks the caller's rights, and an
unauthenticated caller could fill the memory budget with bodies (decision 0022).
"""

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.auth.dependencies import authenticate, is_authenticated
from app.api.server.body_rejection import BodyRejected
from app.errors import MirrorgateError


class BodyAuthentication:
    """Authenticates the caller at the first read of a body. A rejected caller gets 401, and the connection closes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate before the application reads the first byte of a body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def receive_authenticated() -> Message:
            if not is_authenticated(scope):
                try:
                    await authenticate(Request(scope))
                except MirrorgateError as error:
                    raise BodyRejected(error) from error
            return await receive()

        await self._app(scope, receive_authenticated, send)
