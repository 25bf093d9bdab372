"""Timeout for bodies that arrive too slowly, so that nobody holds resources for long by sending half a body."""

import asyncio
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.server.body_errors import RejectedReading
from app.api.server.request_facts import BODY_IS_THERE, declared_length
from app.errors import Code, RejectedInput


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a body may take: `grace` seconds and what its bytes take at its rate, `longest` at the most.

    The rate is `rate` bytes a second, or more for a large body: the one that would bring all of the declared length
    in `longest` seconds. A caller that declares much and sends little is rejected soon after the grace.
    """

    longest: float
    grace: float
    rate: int

    def seconds(self, received: int, declared: int) -> float:
        """How long to wait for the next piece of a body, from its start, when `received` bytes have arrived."""
        return min(self.longest, self.grace + received / max(self.rate, declared / self.longest))


class SlowBodies:
    """Rejects with 408, and closes the connection, when the rest of a body does not come in time.

    Only waiting counts: what the gateway itself takes is not the caller's fault.
    """

    def __init__(self, app: ASGIApp, pace: Pace) -> None:
        self._app = app
        self._pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received, waited, whole = 0, 0.0, False
        declared: int | None = None
        clock = asyncio.get_running_loop().time

        async def receive_in_time() -> Message:
            nonlocal received, waited, whole, declared
            if whole or BODY_IS_THERE in scope:  # a timer costs more than to hand over what is there
                return await receive()
            if declared is None:
                declared = declared_length(scope) or 0
            started = clock()
            try:
                async with asyncio.timeout(self._pace.seconds(received, declared) - waited):
                    message = await receive()
            except TimeoutError:
                detail = (
                    f"{received} bytes of the body arrived in {waited + clock() - started:.0f} s, which is too slow"
                )
                raise RejectedReading(RejectedInput(Code.REQUEST_TIMEOUT, detail)) from None
            waited += clock() - started
            received += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            return message

        await self._app(scope, receive_in_time, send)
