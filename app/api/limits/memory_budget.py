"""Memory budget of one API process: change requests under way, and bytes of the bodies of all requests.

No request waits for the budget: what does not fit is rejected with 503 `overloaded` at once, and what it held is free
again. So half-uploaded bodies cannot block each other, however many there are (decision 0022). The requests of one key
together get a share of the budget, so that no key can use it up alone.
"""

from dataclasses import dataclass
from threading import Lock
from typing import Final

from fastapi import Request

from app.errors import Code, TemporarilyUnavailable
from app.observability.telemetry import BODY_BYTES, CHANGE_REQUESTS

RESERVATION: Final = "mirrorgate.reservation"
WINDOW: Final = 256 * 2**10
"""Bytes reserved beyond what has arrived of a body with a declared length: what the connection buffers unread."""

_RETRY_AFTER: Final = 1


@dataclass(slots=True)
class Allowance:
    """Change requests and bytes of bodies: how many may be, or how many are."""

    requests: int
    size: int


class MemoryBudget:
    """What one API process holds at a time: at most `total`, and of one key at most `of_one_key`."""

    def __init__(self, total: Allowance, of_one_key: Allowance) -> None:
        self._total = total
        self._of_one_key = of_one_key
        self._taken = Allowance(0, 0)
        self._taken_by: dict[str, Allowance] = {}
        self._lock = Lock()

    def check(self, subject: str | None, size: int) -> None:
        """Raise TemporarilyUnavailable `overloaded` where `size` bytes more would not fit now; take nothing."""
        with self._lock:
            self._check(subject, 0, size)

    def take(self, subject: str | None, requests: int, size: int) -> None:
        """Count so much more. Raises TemporarilyUnavailable `overloaded` and takes nothing where it does not fit."""
        with self._lock:
            self._check(subject, requests, size)
            self._change(subject, requests, size)
        _show(requests, size)

    def give_back(self, subject: str | None, requests: int, size: int) -> None:
        """Count so much less."""
        with self._lock:
            self._change(subject, -requests, -size)
        _show(-requests, -size)

    def _check(self, subject: str | None, requests: int, size: int) -> None:
        most, taken = self._total, self._taken
        if requests and taken.requests + requests > most.requests:
            raise _overloaded(f"this API process works on {most.requests} requests already")
        if size and taken.size + size > most.size:
            raise _overloaded(f"the bodies of the requests under way fill {most.size} bytes")
        if subject is None or (own := self._taken_by.get(subject)) is None:
            own = _NOTHING
        most = self._of_one_key
        if requests and own.requests + requests > most.requests:
            raise _overloaded(f"this API process works on {most.requests} requests of this key already")
        if size and own.size + size > most.size:
            raise _overloaded(f"the bodies of this key's requests under way fill its share of {most.size} bytes")

    def _change(self, subject: str | None, requests: int, size: int) -> None:
        self._taken.requests += requests
        self._taken.size += size
        if subject is None:
            return
        own = self._taken_by.get(subject)
        if own is None:
            own = self._taken_by[subject] = Allowance(0, 0)
        own.requests += requests
        own.size += size
        if not own.requests and not own.size:
            del self._taken_by[subject]


class Reservation:
    """The part of the budget that one request holds; `leave` gives it back.

    It belongs to nobody until `claim` says whose request it is. `counted` is 1 for a change request, else 0.
    """

    __slots__ = ("_budget", "_counted", "_held", "_requests", "_subject")

    def __init__(self, budget: MemoryBudget, counted: int = 1) -> None:
        self._budget = budget
        self._counted = counted
        self._requests = self._held = 0
        self._subject: str | None = None

    def claim(self, subject: str) -> None:
        """Count this request as one of this key. Raises TemporarilyUnavailable `overloaded`."""
        if self._counted:
            self._budget.take(subject, self._counted, 0)
        self._subject = subject
        self._requests = self._counted

    def check(self, size: int) -> None:
        """Raise TemporarilyUnavailable `overloaded` where a body of `size` bytes would not fit now; reserve nothing."""
        if size > self._held:
            self._budget.check(self._subject, size - self._held)

    def hold(self, size: int) -> None:
        """Reserve `size` bytes in all. Raises TemporarilyUnavailable `overloaded`; what was held stays."""
        if size > self._held:
            self._budget.take(self._subject, 0, size - self._held)
            self._held = size

    def leave(self) -> None:
        """Give all of it back, once."""
        if self._requests or self._held:
            self._budget.give_back(self._subject, self._requests, self._held)
            self._requests = self._held = 0


def reservation_of(request: Request) -> Reservation:
    """The reservation of this request."""
    reservation: Reservation = request.scope[RESERVATION]
    return reservation


_NOTHING: Final = Allowance(0, 0)


def _show(requests: int, size: int) -> None:
    if requests:
        CHANGE_REQUESTS.inc(requests)
    if size:
        BODY_BYTES.inc(size)


def _overloaded(detail: str) -> TemporarilyUnavailable:
    return TemporarilyUnavailable(Code.OVERLOADED, detail, retry_after=_RETRY_AFTER)
