"""Weighted semaphore for large request bodies. Waiting requests stay unread on the socket; none is rejected.

A body keeps its turn until its request is answered. One that does not come at once lets others in meanwhile, so that
nobody waits for long behind a slow caller.
"""

import asyncio
from collections import deque
from typing import Final

from fastapi import Request
from starlette.types import Scope

from app.observability.telemetry import WAITING_BODIES

LARGE_BODY: Final = 2**20
"""Bytes beyond which a body takes a turn."""

UNKNOWN_LENGTH: Final = 16 * 2**20
"""Bytes that a large body counts for until it is known how long it is."""

_COMPRESSED: Final = 16
"""What a compressed body is taken to expand to, as a multiple, until it has."""

_TURN: Final = "mirrorgate.turn"


class Turns:
    """The large bodies of one API process, all in one event loop: they fill `most_bytes` at the most, or there is one.

    A body lets others in when it has not come `seconds` after its turn began.
    """

    def __init__(self, most_bytes: int, seconds: float = 1.0) -> None:
        self.seconds = seconds
        self._most_bytes = most_bytes
        self._taken = 0
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        """The bodies of each key in their order, and the key first whose turn is next."""

    async def take(self, size: int, key: str = "") -> None:
        """Wait for room, behind those of the same key that wait already. Keys take turns with each other."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append((size, turn))
        self._let_in()
        WAITING_BODIES.inc()
        try:
            await turn
        except asyncio.CancelledError:
            self.change(0 if turn.cancelled() else -size)
            raise
        finally:
            WAITING_BODIES.dec()

    def change(self, size: int) -> None:
        """Have so many bytes more taken, or fewer, at once."""
        self._taken += size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            key, waiting = next(iter(self._waiting.items()))
            size, turn = waiting[0]
            if not turn.done():
                if self._taken and self._taken + size > self._most_bytes:
                    return
                self._taken += size
                turn.set_result(None)
            waiting.popleft()
            del self._waiting[key]
            if waiting:  # behind the other keys
                self._waiting[key] = waiting


class Turn:
    """That of one request. `end` it once, whatever became of it."""

    __slots__ = ("_late", "_size", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._size = 0
        self._late: asyncio.TimerHandle | None = None

    async def begin(self, size: int, key: str = "") -> None:
        """Wait for the turn of a body of about so many bytes, unless it is small or has begun."""
        if self._late is None and size > LARGE_BODY:
            await self._turns.take(size, key)
            self._size = size
            self._late = asyncio.get_running_loop().call_later(self._turns.seconds, self._count, 0)

    def has_come(self, size: int) -> None:
        """The body is there, and has so many bytes."""
        if self._late is not None:
            self._late.cancel()
        self._count(size if size > LARGE_BODY else 0)

    def end(self) -> None:
        """Let others in."""
        self.has_come(0)

    def _count(self, size: int) -> None:
        if size != self._size:
            self._turns.change(size - self._size)
            self._size = size


def with_turn(scope: Scope, turns: Turns) -> Turn:
    """A turn for the request of this scope."""
    turn = scope[_TURN] = Turn(turns)
    return turn


def turn_of(request: Request) -> Turn:
    """The turn of this request."""
    turn: Turn = request.scope[_TURN]
    return turn


def expected_size(declared: int, *, compressed: bool) -> int:
    """About how many bytes a body will have that declares so many."""
    return declared * _COMPRESSED if compressed else declared
