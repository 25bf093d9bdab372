"""Attaches a memory reservation and a body permit to each request, and reserves memory as its body arrives."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.limits.body_semaphore import BodySemaphore, attach_permit
from app.api.limits.memory_budget import READ_AHEAD_BYTES, RESERVATION, MemoryBudget, Reservation
from app.api.server.body_rejection import BodyRejected
from app.api.server.request_facts import declared_length, facts_of
from app.errors import TemporarilyUnavailable

CHANGES_PREFIX: Final = "/v1/changes/"


class Admission:
    """Reserves memory for a body as it arrives, and rejects the rest of one that does not fit.

    A declared length alone reserves only a small read-ahead, so a caller that declares much and sends little holds
    little (decision 0022). Status and health routes read no body and are always answered.
    """

    def __init__(self, app: ASGIApp, budget: MemoryBudget, semaphore: BodySemaphore) -> None:
        self._app = app
        self._budget = budget
        self._semaphore = semaphore

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reserve memory while the application reads the body; release it at the end of the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reservation = Reservation(self._budget, 1 if scope["path"].startswith(CHANGES_PREFIX) else 0)
        facts = facts_of(scope)
        declared: int | None = None

        async def receive_reserved() -> Message:
            nonlocal declared
            if declared is None:
                declared = declared_length(scope) or 0
            try:
                reservation.reserve(min(declared, facts.received + READ_AHEAD_BYTES))
                message = await receive()
                size = len(message.get("body", b""))
                facts.received += size
                if facts.count_bytes is not None:
                    facts.count_bytes(size)
                reservation.reserve(facts.received)
            except TemporarilyUnavailable as error:
                raise BodyRejected(error) from error
            return message

        scope[RESERVATION] = reservation
        permit = attach_permit(scope, self._semaphore)
        try:
            await self._app(scope, receive_reserved, send)
        finally:
            reservation.release()
            permit.release()
