"""Bodies that come too slowly are refused, so that nobody holds room for long by sending half a body."""

import asyncio
from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_IS_THERE: Final = "mirrorgate.body_is_there"
"""In the scope of a request once all of its body has come: nothing is waited for any more."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a body may take: `grace` seconds and what its bytes take at `rate` a second, `longest` at the most."""

    longest: float
    grace: float
    rate: int

    def seconds(self, received: int) -> float:
        """How long may be waited for the next piece of a body of which so many bytes have come, from its start."""
        return min(self.longest, self.grace + received / self.rate)


class SlowBodies:
    """Refuses with 408, and closes the connection, when the rest of a body does not come in time.

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
        clock = asyncio.get_running_loop().time

        async def receive_in_time() -> Message:
            nonlocal received, waited, whole
            if whole or BODY_IS_THERE in scope:  # a timer costs more than to hand over what is there
                return await receive()
            started = clock()
            try:
                async with asyncio.timeout(self._pace.seconds(received) - waited):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, headers={"Connection": "close"}) from None
            waited += clock() - started
            received += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            return message

        await self._app(scope, receive_in_time, send)
