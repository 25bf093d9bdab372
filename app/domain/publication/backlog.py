"""Limits of the backlog: how much can be staged and not yet published, and when a rejected request can be repeated."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.errors import Code, TemporarilyUnavailable

MAX_WAIT_SECONDS: Final = 60
"""Upper limit of `Retry-After` in seconds, however long the backlog is."""

_MEMORY_SECONDS: Final = 30.0
"""About how far back the average rate of publication looks."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Payload bytes and rows."""

    bytes: int = 0
    rows: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.bytes + other.bytes, self.rows + other.rows)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.bytes - other.bytes, self.rows - other.rows)


@dataclass(frozen=True, slots=True)
class Rate:
    """Payload bytes and rows per second."""

    bytes: float = 0.0
    rows: float = 0.0

    def after(self, published: Amount, seconds: float) -> "Rate":
        """Return the rate after more was published in some seconds: an exponential moving average."""
        weight = -math.expm1(-seconds / _MEMORY_SECONDS)
        return Rate(
            self.bytes + weight * (published.bytes / seconds - self.bytes),
            self.rows + weight * (published.rows / seconds - self.rows),
        )


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is staged and not published, the age of its oldest batch, and the recent rate of publication."""

    pending: Amount = Amount()
    oldest_seconds: float = 0.0
    rate: Rate = Rate()


@dataclass(frozen=True, slots=True)
class BacklogLimit:
    """Upper limits of what is pending and of the age of its oldest batch; None for no limit."""

    bytes: int | None = None
    rows: int | None = None
    seconds: float | None = None

    def check(self, what: str, backlog: Backlog) -> None:
        """Raise TemporarilyUnavailable `backlog_full` if a limit is reached; `what` starts the sentence of its text."""
        waits = [*self._waits(backlog)]
        if waits:
            reasons, seconds = zip(*waits, strict=True)
            detail = f"{what} {' and '.join(reasons)} not yet published"
            raise TemporarilyUnavailable(Code.BACKLOG_FULL, detail, retry_after=max(seconds))

    def share(self, backlog: Backlog) -> float:
        """Return the backlog as a share of the nearest limit; from 1 on, changes are rejected."""
        pairs = (
            (backlog.pending.bytes, self.bytes),
            (backlog.pending.rows, self.rows),
            (backlog.oldest_seconds, self.seconds),
        )
        return max((amount / limit for amount, limit in pairs if limit is not None), default=0.0)

    def _waits(self, backlog: Backlog) -> Iterator[tuple[str, int]]:
        """Yield each reason to reject with the seconds to wait."""
        pending, rate = backlog.pending, backlog.rate
        if self.bytes is not None and pending.bytes >= self.bytes:
            yield f"{pending.bytes} bytes", _seconds(pending.bytes - self.bytes, rate.bytes)
        if self.rows is not None and pending.rows >= self.rows:
            yield f"{pending.rows} rows", _seconds(pending.rows - self.rows, rate.rows)
        if self.seconds is not None and backlog.oldest_seconds >= self.seconds:
            yield f"a batch of {backlog.oldest_seconds:.0f} s", _seconds(0, rate.bytes)


def _seconds(excess: int, rate: float) -> int:
    """Return the seconds to publish the `excess` at this rate, from 1 to MAX_WAIT_SECONDS."""
    if rate <= 0 or excess >= rate * MAX_WAIT_SECONDS:
        return MAX_WAIT_SECONDS
    return max(1, math.ceil(excess / rate))
