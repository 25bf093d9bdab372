"""Timeout for bodies that arrive too slowly, so that half a body holds resources only for a short time."""

import asyncio
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.server.body_rejection import BodyRejected
from app.api.server.request_facts import BODY_COMPLETE, declared_length
from app.errors import Code, RejectedInput


@dataclass(frozen=True, slots=True)
class UploadDeadline:
    """Computes the time that a body can take: a grace period, and then the time of its bytes at a minimum rate.

    The rate is `min_rate` bytes per second, or more for a large body: the rate that brings its declared length in
    `max_seconds`. A caller that declares much and sends little is rejected soon after the grace period.
    """

    max_seconds: float
    grace_seconds: float
    min_rate: int

    def seconds(self, received: int, declared: int) -> float:
        """Return how long to wait for the next piece, counted from the start of the body, after `received` bytes."""
        rate = max(self.min_rate, declared / self.max_seconds)
        return min(self.max_seconds, self.grace_seconds + received / rate)


class UploadTimeout:
    """Rejects with 408, and closes the connection, if the rest of a body does not arrive in time.

    Only the time spent waiting for the caller counts, not the time that the gateway takes.
    """

    def __init__(self, app: ASGIApp, deadline: UploadDeadline) -> None:
        self._app = app
        self._deadline = deadline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Measure the time that the application waits for the body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received, waited, complete = 0, 0.0, False
        declared: int | None = None
        clock = asyncio.get_running_loop().time

        async def receive_in_time() -> Message:
            nonlocal received, waited, complete, declared
            if complete or BODY_COMPLETE in scope:  # setting a timer costs more than returning what is buffered
                return await receive()
            if declared is None:
                declared = declared_length(scope) or 0
            started = clock()
            try:
                async with asyncio.timeout(self._deadline.seconds(received, declared) - waited):
                    message = await receive()
            except TimeoutError:
                seconds = waited + clock() - started
                detail = f"{received} bytes of the body arrived in {seconds:.0f} s, which is too slow"
                raise BodyRejected(RejectedInput(Code.REQUEST_TIMEOUT, detail)) from None
            waited += clock() - started
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            return message

        await self._app(scope, receive_in_time, send)
