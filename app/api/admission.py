"""How much one API process takes on at a time: room is reserved before memory grows, or the request is refused."""

from threading import Lock
from typing import Final

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problem_responses import problem_response
from app.api.turns import Turns, with_turn
from app.errors import Code, TemporarilyUnavailable

CHANGES: Final = "/v1/changes/"
_RESERVATION: Final = "mirrorgate.reservation"
_RETRY_AFTER: Final = 1


class Room:
    """What one API process may hold at a time: change requests, and bytes of the bodies of all requests."""

    def __init__(self, most_requests: int, most_bytes: int) -> None:
        self._most_requests = most_requests
        self._most_bytes = most_bytes
        self._requests = self._bytes = 0
        self._lock = Lock()

    def enter(self, requests: int = 1) -> "Reservation":
        """Room for a request; `requests` is 0 where it is not counted. Raises TemporarilyUnavailable `overloaded`."""
        self._take(requests, 0)
        return Reservation(self, requests)

    def _take(self, requests: int, size: int) -> None:
        with self._lock:
            if requests and self._requests + requests > self._most_requests:
                raise _overloaded(f"this API process works on {self._most_requests} requests already")
            if size and self._bytes + size > self._most_bytes:
                raise _overloaded(f"the bodies of the requests under way fill {self._most_bytes} bytes")
            self._requests += requests
            self._bytes += size

    def _give_back(self, requests: int, size: int) -> None:
        with self._lock:
            self._requests -= requests
            self._bytes -= size


class Reservation:
    """The room of one request; `leave` gives it back."""

    __slots__ = ("_held", "_requests", "_room")

    def __init__(self, room: Room, requests: int) -> None:
        self._room = room
        self._requests = requests
        self._held = 0

    def hold(self, size: int) -> None:
        """Have room for `size` bytes in all. Raises TemporarilyUnavailable `overloaded`; what was held stays."""
        if size > self._held:
            self._room._take(0, size - self._held)
            self._held = size

    def leave(self) -> None:
        """Give all of it back, once."""
        self._room._give_back(self._requests, self._held)
        self._requests = self._held = 0


class Admission:
    """Refuses change requests when there is no room for another, and whatever body there is no room for.

    Status and health need no room, so they are answered all the same.
    """

    def __init__(self, app: ASGIApp, room: Room, turns: Turns) -> None:
        self._app = app
        self._room = room
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            reservation = self._room.enter(1 if scope["path"].startswith(CHANGES) else 0)
        except TemporarilyUnavailable as error:
            await problem_response(error)(scope, receive, send)
            return
        received = 0

        async def receive_into_room() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            try:
                reservation.hold(received)
            except TemporarilyUnavailable as error:  # the framework, where it reads, lets no other error through
                raise HTTPException(503, headers={"Retry-After": str(error.retry_after)}) from error
            return message

        scope[_RESERVATION] = reservation
        turn = with_turn(scope, self._turns)
        try:
            await self._app(scope, receive_into_room, send)
        finally:
            reservation.leave()
            turn.end()


def reservation_of(request: Request) -> Reservation:
    """The room of this request."""
    reservation: Reservation = request.scope[_RESERVATION]
    return reservation


def _overloaded(detail: str) -> TemporarilyUnavailable:
    return TemporarilyUnavailable(Code.OVERLOADED, detail, retry_after=_RETRY_AFTER)
