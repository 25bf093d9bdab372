"""Limits of one API process: memory, large bodies, slow work, slow transfers, and the rate of each key.

`MemoryBudget` holds the reservations of requests, and `UnverifiedRoom` the bodies of callers without a valid key.

`BodySemaphore` is a weighted semaphore for large request bodies.

`ConcurrencyLimit` limits how many requests at a time do work that takes long and holds a database connection.

`TransferDeadline` limits the time that a body can take to arrive, or an answer to be read, so that a slow caller holds
little for long.

`RateLimiter` limits requests per second, and body bytes per second, of each key.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from math import ceil
from threading import Lock
from typing import Final

from app.api.server.request_facts import RequestFacts
from app.domain.access.rights import NO_LIMITS, Credential, RateLimits, TokenBucket
from app.observability.api_metrics import (
    ADMITTED_BODIES,
    ADMITTED_BODIES_LIMIT,
    ANSWER_BYTES,
    BODY_BYTES,
    BODY_BYTES_LIMIT,
    CHANGE_REQUESTS,
    CHANGE_REQUESTS_LIMIT,
    UNFINISHED_BODIES,
    WAITING_BODIES,
)
from mirrorgate.errors import Code, TemporarilyUnavailable

READ_AHEAD_BYTES: Final = 256 * 2**10
"""Bytes reserved beyond what has arrived of a body with a declared length: what the connection buffers unread."""

MIN_KEY_BYTES: Final = 64 * 2**10
"""Bytes that a key gets even if the others use all of the budget."""

MAX_UNVERIFIED_BODIES: Final = 256
"""Unfinished bodies of all callers together that have not shown a valid key."""

MAX_UNVERIFIED_BYTES: Final = 4 * 2**20
"""Bytes of these bodies."""

_UNVERIFIED_READ_AHEAD_BYTES: Final = 16 * 2**10
_RETRY_AFTER_SECONDS: Final = 1


@dataclass(slots=True)
class Allowance:
    """Amounts in use, or a limit: that of requests is also that of unfinished bodies."""

    requests: int = 0
    size: int = 0
    """Bytes of bodies."""
    bodies: int = 0
    answers: int = 0
    """Bytes of answers; all together get a quarter of what bodies get."""


_UNUSED: Final = Allowance()


class MemoryBudget:
    """Reservations counted against a limit of the process and a share of each key. Thread-safe, but for the room.

    No request waits for the budget. What does not fit is rejected at once with 503 `overloaded`, and its reservation is
    released; so half-uploaded bodies cannot block each other (decision 0022).

    - A key can hold only so much that a share of what is left remains free for the others: with the share 0.5 at most
      as much as remains free. One busy key gets a half, two get a third each, and a further key always finds room.
    - Bodies that have not arrived are counted apart from requests in progress: slow uploads take no place of working
      ones.
    - Answers that their callers have not read are counted apart from bodies, so status calls work while the budget is
      full.
    - Bodies of callers that have not shown a valid key share one small room, which takes nothing from the budget.

    Invariant: the first body, the first request, the first MIN_KEY_BYTES and the first answer of a key are never
    rejected.
    """

    def __init__(self, total: Allowance, share: float, request_bytes: int) -> None:
        """Prepare. `share` is what one key can hold of the total, above 0 and at most 1.

        `request_bytes` are those of the largest request, which a key can hold beyond its share while an eighth of the
        bytes remains free, or while no other key holds any.
        """
        self.unverified = UnverifiedRoom()
        self._total = total
        self._share = share
        self._request_bytes = request_bytes
        self._used = Allowance()
        self._used_by_key: dict[str, Allowance] = {}
        self._lock = Lock()
        CHANGE_REQUESTS_LIMIT.set(total.requests)
        BODY_BYTES_LIMIT.set(total.size)

    def check(self, subject: str, size: int) -> None:
        """Raise TemporarilyUnavailable `overloaded` if `size` more bytes do not fit now; reserve nothing."""
        with self._lock:
            self._check(self._used_by_key.get(subject, _UNUSED), 0, 0, size, 0)

    def change(
        self, subject: str, requests: int, bodies: int, size: int, answers: int, *, is_certain: bool = False
    ) -> None:
        """Add to what a key holds, or take from it. With `is_certain` it is counted even if it does not fit.

        Raises TemporarilyUnavailable `overloaded`, and then changes nothing.
        """
        with self._lock:
            own, used = self._used_by_key.get(subject), self._used
            if not is_certain:
                self._check(own or _UNUSED, requests, bodies, size, answers)
            if own is None:
                own = self._used_by_key[subject] = Allowance()
            used.requests += requests
            used.bodies += bodies
            used.size += size
            used.answers += answers
            own.requests += requests
            own.bodies += bodies
            own.size += size
            own.answers += answers
            if not (own.requests or own.bodies or own.size or own.answers):
                del self._used_by_key[subject]
        if requests:
            CHANGE_REQUESTS.inc(requests)
        if bodies:
            UNFINISHED_BODIES.inc(bodies)
        if size:
            BODY_BYTES.inc(size)
        if answers:
            ANSWER_BYTES.inc(answers)

    def _check(self, own: Allowance, requests: int, bodies: int, size: int, answers: int) -> None:
        used, total = self._used, self._total
        if requests > 0 and not self._has_place(own.requests, used.requests):
            raise _overloaded("requests in progress", own.requests, used.requests, total.requests)
        if bodies > 0 and not self._has_place(own.bodies, used.bodies):
            raise _overloaded("bodies that have not arrived", own.bodies, used.bodies, total.requests)
        if size > 0 and not self._has_bytes(own.size, used.size, size):
            raise _overloaded("bytes of bodies", own.size, used.size, total.size)
        if answers > 0 and own.answers:
            limit = total.size // 4
            free = limit - used.answers - answers
            if free < 0 or not self._is_fair(own.answers + answers, free):
                raise _overloaded("bytes of answers that were not read", own.answers, used.answers, limit)

    def _has_place(self, own: int, used: int) -> bool:
        return not own or (used < self._total.requests and self._is_fair(own + 1, self._total.requests - used - 1))

    def _has_bytes(self, own: int, used: int, more: int) -> bool:
        free, others = self._total.size - used - more, used - own
        if own + more <= MIN_KEY_BYTES:
            return True
        if free < 0:
            return False
        is_one_request = own + more <= self._request_bytes and (not others or free >= self._total.size // 8)
        return is_one_request or self._is_fair(own + more, free)

    def _is_fair(self, own: int, free: int) -> bool:
        return (1 - self._share) * own <= self._share * free


class Reservation:
    """The share of the budget that one request holds; `release` gives it back.

    Until `assign_to` names its key, it holds only an unfinished body, in the room of callers without one.
    """

    __slots__ = ("_budget", "_held", "_is_change", "_is_released", "_lock", "_subject", "give_way", "has_given_way")

    def __init__(self, budget: MemoryBudget, *, is_change: bool = True) -> None:
        """Prepare. Of change requests, also those in progress are counted."""
        self._budget = budget
        self._is_change = is_change
        self._held = Allowance()
        self._subject: str | None = None
        self._lock = Lock()
        self._is_released = False
        self.has_given_way = False
        """True if the body of a caller without a valid key made room for a newer one."""
        self.give_way: Callable[[], None] | None = None
        """Called when that happens."""

    @property
    def is_verified(self) -> bool:
        """True once the caller is known."""
        return self._subject is not None

    def assign_to(self, subject: str) -> None:
        """Count the request towards this key from now on."""
        self._budget.unverified.leave(self)
        self._subject = subject

    def hold_body(self, received: int, declared: int, *, is_complete: bool) -> None:
        """Hold what a body needs of which `received` bytes are here. Its connection buffers a declared one ahead.

        A complete body of a change request makes it one in progress. Call it again as the body arrives.

        Raises TemporarilyUnavailable `overloaded`; the reservation then remains as it was.
        """
        if self._subject is None:
            room = self._budget.unverified
            if is_complete:
                room.leave(self)
            else:
                room.hold(self, max(received, min(declared, received + _UNVERIFIED_READ_AHEAD_BYTES)))
            return
        size = max(received, min(declared, received + READ_AHEAD_BYTES))
        requests, bodies = (int(self._is_change), 0) if is_complete else (0, 1)
        held = self._held
        if requests != held.requests or bodies != held.bodies or size > held.size:
            with self._lock:
                self._take(requests - held.requests, bodies - held.bodies, max(0, size - held.size), 0)

    def check(self, size: int) -> None:
        """Raise TemporarilyUnavailable `overloaded` if a body of `size` bytes does not fit now; reserve nothing."""
        if self._subject is not None and size > self._held.size:
            self._budget.check(self._subject, size - self._held.size)

    def reserve(self, size: int) -> None:
        """Increase the reservation of a verified caller to `size` bytes in total.

        A thread may call it while the request ends; the reservation then remains released.

        Raises TemporarilyUnavailable `overloaded`; the reservation then remains as it was.
        """
        with self._lock:
            if size > self._held.size:
                self._take(0, 0, size - self._held.size, 0)

    def hold_answer(self, size: int, *, is_certain: bool) -> None:
        """Hold an answer of `size` bytes. Raises TemporarilyUnavailable `overloaded`, unless it is certain."""
        with self._lock:
            self._take(0, 0, 0, size, is_certain=is_certain)

    def release(self) -> None:
        """Release all of it. A second call does nothing."""
        if self._subject is None:
            self._budget.unverified.leave(self)
            self.give_way = None
            return
        with self._lock:
            held = self._held
            if held.requests or held.bodies or held.size or held.answers:
                self._take(-held.requests, -held.bodies, -held.size, -held.answers, is_certain=True)
            self._is_released = True

    def _take(self, requests: int, bodies: int, size: int, answers: int, *, is_certain: bool = False) -> None:
        assert self._subject is not None
        if not self._is_released:
            self._budget.change(self._subject, requests, bodies, size, answers, is_certain=is_certain)
            held = self._held
            held.requests += requests
            held.bodies += bodies
            held.size += size
            held.answers += answers


class UnverifiedRoom:
    """Unfinished bodies of callers that have not shown a valid key. One event loop uses it.

    A new body always finds a place, because the oldest one gives way: a flood of bodies that never arrive does not stop
    a sender whose body arrives at once.
    """

    def __init__(self) -> None:
        self._held: dict[Reservation, int] = {}
        """Bytes by reservation, the oldest one first."""
        self._size = 0

    def hold(self, reservation: Reservation, size: int) -> None:
        """Hold a body of `size` bytes. Raises TemporarilyUnavailable `overloaded` if it has given way to newer ones."""
        if reservation.has_given_way:
            raise TemporarilyUnavailable(
                Code.OVERLOADED,
                "too many bodies of callers without a verified key arrive at the same time",
                retry_after=_RETRY_AFTER_SECONDS,
            )
        self._size += size - self._held.get(reservation, 0)
        self._held[reservation] = size
        while len(self._held) > MAX_UNVERIFIED_BODIES or self._size > MAX_UNVERIFIED_BYTES:
            oldest = next(other for other in self._held if other is not reservation)
            self.leave(oldest)
            oldest.has_given_way = True
            if oldest.give_way is not None:
                oldest.give_way()

    def leave(self, reservation: Reservation) -> None:
        """Forget a body that has arrived or was rejected; do nothing for another one."""
        self._size -= self._held.pop(reservation, 0)


def _overloaded(what: str, own: int, used: int, limit: int) -> TemporarilyUnavailable:
    whose = f"this API process has {used}" if used >= limit else f"this key has {own}"
    rest = "which is all that there is room for" if used >= limit else "and its share has no room for more"
    return TemporarilyUnavailable(Code.OVERLOADED, f"{whose} {what}, {rest}", retry_after=_RETRY_AFTER_SECONDS)


class ConcurrencyLimit:
    """A number of slots for one kind of work; a request that finds none waits at most `seconds`.

    Waiting requests hold no thread and no connection, so every other route still has both.
    """

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

    Waiting requests remain unread on the socket; none is rejected. A request keeps its permit until it is answered,
    because its body is in memory until then. A permit whose body is not complete `grace_seconds` after it was acquired
    stops counting until the body is complete, so that a slow caller does not block the others. Invariant: the admitted
    bodies fill at most `max_bytes`, or there is only one of them.
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


MAX_METERS: Final = 10_000
"""Keys that are counted at a time. Beyond it all meters are dropped, and every key starts with a full quota."""


class KeyMeter:
    """Token buckets for the requests and the bytes of one key. Not thread-safe: one event loop uses it."""

    def __init__(self, limits: RateLimits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self._clock = clock
        requests, size = limits.requests_per_second, limits.bytes_per_second
        self._requests = None if requests is None else TokenBucket(requests, clock())
        self._bytes = None if size is None else TokenBucket(size, clock())
        self._buckets = [("requests", "request", self._requests), ("bytes", "content-bytes", self._bytes)]
        self._policy = ", ".join(
            f'"{name}";q={bucket.quota};qu="{unit}";w={bucket.window}' for name, unit, bucket in self._buckets if bucket
        ).encode()

    def admit(self, size: int) -> None:
        """Count a request with a body of `size` bytes. Raises TemporarilyUnavailable `rate_limited`."""
        now = self._clock()
        for name, _, bucket in self._buckets:
            if bucket is not None and (wait := bucket.seconds_to_wait(now)) > 0:
                detail = f"the key is limited to {bucket.rate:g} {name} per second"
                raise TemporarilyUnavailable(Code.RATE_LIMITED, detail, retry_after=max(1, ceil(wait)))
        if self._requests is not None:
            self._requests.spend(1)
        self.count_bytes(size)

    def count_bytes(self, size: int) -> None:
        """Count bytes of a body as they arrive, for a request without a declared length."""
        if self._bytes is not None and size:
            self._bytes.spend(size)

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return the header fields with the policies and with what is left of each quota."""
        left = ", ".join(
            f'"{name}";r={bucket.left};t={bucket.seconds_to_full}' for name, _, bucket in self._buckets if bucket
        )
        return ((b"ratelimit-policy", self._policy), (b"ratelimit", left.encode()))


class RateLimiter:
    """Meters of the keys that have a limit, one for each key.

    Each API process counts for itself (decision 0022). Answers to a limited key carry the fields `RateLimit-Policy` and
    `RateLimit` of draft-ietf-httpapi-ratelimit-headers.
    """

    def __init__(self, defaults: RateLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._defaults = defaults
        self._clock = clock
        self._meters: dict[str, KeyMeter] = {}

    def admit(self, credential: Credential, declared: int | None, facts: RequestFacts) -> None:
        """Count a request of this caller and set the headers of its answer. Raises what `KeyMeter.admit` raises.

        `declared` is the declared length of the body. Without one, the bytes are counted as they arrive. A body that is
        too large to be read counts none.
        """
        limits = self._defaults if credential.limits == NO_LIMITS else credential.limits.or_else(self._defaults)
        if limits == NO_LIMITS:
            return
        meter = self._meters.get(credential.subject)
        if meter is None or meter.limits != limits:
            if len(self._meters) >= MAX_METERS:
                self._meters.clear()
            meter = self._meters[credential.subject] = KeyMeter(limits, self._clock)
        try:
            meter.admit(declared if declared is not None and declared <= facts.max_bytes else 0)
        finally:
            facts.headers = meter.headers
        if declared is None:
            facts.count_bytes = meter.count_bytes
