"""Memory budget of one API process: change requests under way, and bytes of the bodies of all requests.

No request waits for the budget. What does not fit is rejected at once with 503 `overloaded`, and its reservation is
released; so half-uploaded bodies cannot block each other (decision 0022). The requests of one key together get a share
of the budget, so that no key can use all of it.
"""

from dataclasses import dataclass
from threading import Lock
from typing import Final

from app.errors import Code, TemporarilyUnavailable
from app.observability.api_metrics import BODY_BYTES, BODY_BYTES_LIMIT, CHANGE_REQUESTS, CHANGE_REQUESTS_LIMIT

READ_AHEAD_BYTES: Final = 256 * 2**10
"""Bytes reserved beyond what has arrived of a body with a declared length: what the connection buffers unread."""

_RETRY_AFTER_SECONDS: Final = 1


@dataclass(slots=True)
class Allowance:
    """A number of change requests and of body bytes: either a limit or what is in use."""

    requests: int
    size: int


_UNUSED: Final = Allowance(0, 0)


class MemoryBudget:
    """Counts reservations against a limit for the process and a limit for each key. Thread-safe."""

    def __init__(self, total: Allowance, of_one_key: Allowance) -> None:
        self._total = total
        self._of_one_key = of_one_key
        self._used = Allowance(0, 0)
        self._used_by_key: dict[str, Allowance] = {}
        self._lock = Lock()
        CHANGE_REQUESTS_LIMIT.set(total.requests)
        BODY_BYTES_LIMIT.set(total.size)

    def check(self, subject: str | None, size: int) -> None:
        """Raise TemporarilyUnavailable `overloaded` if `size` more bytes do not fit now; reserve nothing."""
        with self._lock:
            self._check(subject, 0, size)

    def reserve(self, subject: str | None, requests: int, size: int) -> None:
        """Reserve requests and bytes. Raises TemporarilyUnavailable `overloaded`, and then reserves nothing."""
        with self._lock:
            self._check(subject, requests, size)
            self._change(subject, requests, size)
        _update_gauges(requests, size)

    def release(self, subject: str | None, requests: int, size: int) -> None:
        """Release what `reserve` reserved."""
        with self._lock:
            self._change(subject, -requests, -size)
        _update_gauges(-requests, -size)

    def _check(self, subject: str | None, requests: int, size: int) -> None:
        limit, used = self._total, self._used
        if requests and used.requests + requests > limit.requests:
            raise _overloaded(f"this API process already handles {limit.requests} requests")
        if size and used.size + size > limit.size:
            raise _overloaded(f"the request bodies in progress fill the memory budget of {limit.size} bytes")
        if subject is None or (own := self._used_by_key.get(subject)) is None:
            own = _UNUSED
        limit = self._of_one_key
        if requests and own.requests + requests > limit.requests:
            raise _overloaded(f"this API process already handles {limit.requests} requests of this key")
        if size and own.size + size > limit.size:
            raise _overloaded(f"the request bodies of this key fill its share of {limit.size} bytes")

    def _change(self, subject: str | None, requests: int, size: int) -> None:
        self._used.requests += requests
        self._used.size += size
        if subject is None:
            return
        own = self._used_by_key.get(subject)
        if own is None:
            own = self._used_by_key[subject] = Allowance(0, 0)
        own.requests += requests
        own.size += size
        if not own.requests and not own.size:
            del self._used_by_key[subject]


class Reservation:
    """The part of the memory budget that one request holds. `release` gives it back.

    It counts towards no key until `assign_to` names one. `counted` is 1 for a change request, and otherwise 0.
    """

    __slots__ = ("_budget", "_counted", "_is_released", "_lock", "_requests", "_size", "_subject")

    def __init__(self, budget: MemoryBudget, counted: int = 1) -> None:
        self._budget = budget
        self._counted = counted
        self._requests = self._size = 0
        self._subject: str | None = None
        self._lock = Lock()
        self._is_released = False

    def assign_to(self, subject: str) -> None:
        """Count this request towards this key. Raises TemporarilyUnavailable `overloaded`."""
        if self._counted:
            self._budget.reserve(subject, self._counted, 0)
        self._subject = subject
        self._requests = self._counted

    def check(self, size: int) -> None:
        """Raise TemporarilyUnavailable `overloaded` if a body of `size` bytes does not fit now; reserve nothing."""
        if size > self._size:
            self._budget.check(self._subject, size - self._size)

    def reserve(self, size: int) -> None:
        """Increase the reservation to `size` bytes in total.

        A thread may call it while the request ends; the reservation then stays released.

        Raises TemporarilyUnavailable `overloaded`; the reservation then stays as it was.
        """
        with self._lock:
            if size > self._size and not self._is_released:
                self._budget.reserve(self._subject, 0, size - self._size)
                self._size = size

    def release(self) -> None:
        """Release all of it. A second call does nothing."""
        with self._lock:
            self._is_released = True
            if self._requests or self._size:
                self._budget.release(self._subject, self._requests, self._size)
                self._requests = self._size = 0


def _update_gauges(requests: int, size: int) -> None:
    if requests:
        CHANGE_REQUESTS.inc(requests)
    if size:
        BODY_BYTES.inc(size)


def _overloaded(detail: str) -> TemporarilyUnavailable:
    return TemporarilyUnavailable(Code.OVERLOADED, detail, retry_after=_RETRY_AFTER_SECONDS)
