"""Gives each request its reservation in the memory budget, and its place among the large bodies."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.limits.body_semaphore import Turns, with_turn
from app.api.limits.memory_budget import RESERVATION, WINDOW, MemoryBudget, Reservation
from app.api.server.body_errors import RejectedReading
from app.api.server.request_facts import declared_length, facts_of
from app.errors import TemporarilyUnavailable

CHANGES: Final = "/v1/changes/"


class Admission:
    """Reserves memory for a body as it arrives, and rejects the rest of one that does not fit.

    The declared length alone reserves nothing but a small window: whoever declares much and sends little holds little.
    Status and health need no memory budget, so they are answered however full it is.
    """

    def __init__(self, app: ASGIApp, budget: MemoryBudget, turns: Turns) -> None:
        self._app = app
        self._budget = budget
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reservation = Reservation(self._budget, 1 if scope["path"].startswith(CHANGES) else 0)
        facts = facts_of(scope)
        declared: int | None = None

        async def receive_reserved() -> Message:
            nonlocal declared
            if declared is None:
                declared = declared_length(scope) or 0
            try:
                reservation.hold(min(declared, facts.received + WINDOW))
                message = await receive()
                size = len(message.get("body", b""))
                facts.received += size
                if facts.spend is not None:
                    facts.spend(size)
                reservation.hold(facts.received)
            except TemporarilyUnavailable as error:
                raise RejectedReading(error) from error
            return message

        scope[RESERVATION] = reservation
        turn = with_turn(scope, self._turns)
        try:
            await self._app(scope, receive_reserved, send)
        finally:
            reservation.leave()
            turn.end()
