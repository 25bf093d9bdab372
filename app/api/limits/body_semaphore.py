"""Weighted semaphore for large request bodies. Waiting requests remain unread on the socket; none is rejected.

A request keeps its permit until it is answered, because its body is in memory until then. A body that does not arrive
within a second stops counting until it is complete, so that a slow caller does not block the others.
Invariant: the admitted bodies fill at most `max_bytes`, or there is only one of them.

Limits how many requests at a time do work that takes long and holds a database connection.

The others wait without a thread or a connection, so every other route still has both.

The time that a body can take to arrive, or an answer to be read, so that a slow caller holds little for long.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from app.observability.api_metrics import ADMITTED_BODIES, ADMITTED_BODIES_LIMIT, WAITING_BODIES
from mirrorgate.errors import Code, TemporarilyUnavailable


class ConcurrencyLimit:
    """A number of slots for one kind of work; a request that finds none waits at most `seconds`."""

    def __init__(self, work: str, slots: int, seconds: float) -> None:
        """Create the limit. `work` names the work in the error of a request that gets no slot."""
        self._work = work
        self._free = asyncio.Semaphore(slots)
        self._seconds = seconds

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot for the block. Raises TemporarilyUnavailable `overloaded`."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._free.acquire()
        except TimeoutError:
            detail = f"no slot for {self._work} became free within {self._seconds:.0f} s"
            raise TemporarilyUnavailable(Code.OVERLOADED, detail, retry_after=10) from None
        try:
            yield
        finally:
            self._free.release()


MAX_UNVERIFIED_SECONDS: Final = 15.0
"""Seconds for which another check waits."""

MAX_UNVERIFIED_GRACE_SECONDS: Final = 3.0
"""The grace period of such a body."""


@dataclass(frozen=True, slots=True)
class TransferDeadline:
    """Limit on the time of a transfer: a grace period, and then the time of its bytes at a minimum rate.

    The rate is `min_rate` bytes per second, or more for a large transfer: the rate that moves all of its bytes in
    `max_seconds`. A caller that declares much and sends little is rejected soon after the grace period.
    """

    max_seconds: float
    grace_seconds: float
    min_rate: int

    def seconds(self, moved: int, total: int) -> float:
        """Return how long to wait for the next bytes, counted from the start, after `moved` of `total` bytes."""
        rate = max(self.min_rate, total / self.max_seconds)
        return min(self.max_seconds, self.grace_seconds + moved / rate)

    @property
    def of_unverified(self) -> "TransferDeadline":
        """Return the deadline for bodies of callers that have not shown a valid key."""
        return replace(
            self,
            max_seconds=min(self.max_seconds, MAX_UNVERIFIED_SECONDS),
            grace_seconds=min(self.grace_seconds, MAX_UNVERIFIED_GRACE_SECONDS),
        )


LARGE_BODY_BYTES: Final = 2**20
"""Bytes above which a body needs a permit."""

ASSUMED_BODY_BYTES: Final = 16 * 2**20
"""Bytes that a large body without a declared length counts for until its length is known."""

_ASSUMED_EXPANSION: Final = 16
"""Factor by which a compressed body is assumed to expand, until it is decompressed."""


class BodySemaphore:
    """Weighted semaphore for large bodies of one API process. All calls are made on one event loop.

    A permit stops counting if its body is not complete `grace_seconds` after it was acquired.
    """

    def __init__(self, max_bytes: int, grace_seconds: float = 1.0) -> None:
        self.grace_seconds = grace_seconds
        self._max_bytes = max_bytes
        ADMITTED_BODIES_LIMIT.set(max_bytes)
        self._taken = 0
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        """Waiting bodies by key, each queue in order of arrival. The first key is served next."""

    async def acquire(self, size: int, key: str = "") -> None:
        """Wait until `size` bytes fit. Waiting bodies of one key are served in order, keys in round-robin."""
        admitted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append((size, admitted))
        self._admit_waiting()
        WAITING_BODIES.inc()
        try:
            await admitted
        except asyncio.CancelledError:
            self.adjust(0 if admitted.cancelled() else -size)
            raise
        finally:
            WAITING_BODIES.dec()

    def adjust(self, delta: int) -> None:
        """Count `delta` bytes more (or fewer) at once, and admit waiting bodies that now fit."""
        self._take(delta)
        self._admit_waiting()

    def _take(self, delta: int) -> None:
        self._taken += delta
        ADMITTED_BODIES.inc(delta)

    def _admit_waiting(self) -> None:
        while self._waiting:
            key, queue = next(iter(self._waiting.items()))
            size, admitted = queue[0]
            if not admitted.done():
                if self._taken and self._taken + size > self._max_bytes:
                    return
                self._take(size)
                admitted.set_result(None)
            queue.popleft()
            del self._waiting[key]
            if queue:  # re-insert behind the other keys
                self._waiting[key] = queue


class BodyPermit:
    """The permit of one request. Call `release` once at the end of the request, for every outcome."""

    __slots__ = ("_grace_timer", "_semaphore", "_size")

    def __init__(self, semaphore: BodySemaphore) -> None:
        self._semaphore = semaphore
        self._size = 0
        self._grace_timer: asyncio.TimerHandle | None = None

    async def acquire(self, size: int, key: str = "") -> None:
        """Wait for the semaphore, unless the body is small or the permit was acquired before."""
        if self._grace_timer is None and size > LARGE_BODY_BYTES:
            await self._semaphore.acquire(size, key)
            self._size = size
            self._grace_timer = asyncio.get_running_loop().call_later(self._semaphore.grace_seconds, self._count, 0)

    def complete(self, size: int) -> None:
        """Count the real size of a body that has arrived completely."""
        if self._grace_timer is not None:
            self._grace_timer.cancel()
        self._count(size if size > LARGE_BODY_BYTES else 0)

    def release(self) -> None:
        """Stop counting the body, and admit the ones that wait."""
        self.complete(0)

    def _count(self, size: int) -> None:
        if size != self._size:
            self._semaphore.adjust(size - self._size)
            self._size = size


def expected_size(declared: int, *, compressed: bool) -> int:
    """Estimate the size in memory of a body with this declared length, in bytes."""
    return declared * _ASSUMED_EXPANSION if compressed else declared
