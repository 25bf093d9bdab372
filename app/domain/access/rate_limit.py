"""Rate limits as token buckets: a quota per window that refills steadily."""

from dataclasses import dataclass
from math import ceil, floor
from typing import Final


@dataclass(frozen=True, slots=True)
class RateLimits:
    """How much one key may send; None where there is no limit."""

    requests_per_second: float | None = None
    bytes_per_second: float | None = None

    def or_else(self, defaults: "RateLimits") -> "RateLimits":
        """These limits, with the defaults where there is none."""
        requests, size = self.requests_per_second, self.bytes_per_second
        return RateLimits(
            defaults.requests_per_second if requests is None else requests,
            defaults.bytes_per_second if size is None else size,
        )


NO_LIMITS: Final = RateLimits()


class TokenBucket:
    """Allows `rate` units a second on average, and at most `quota` at once; times are in seconds on one clock.

    `quota` is what one `window` brings: a second's worth, or one unit where that takes longer. Whoever may spend at
    least one unit may spend any number, and then waits until the debt is paid: a body larger than the quota gets
    through, and slows down the ones behind it.
    """

    __slots__ = ("_filled_at", "_left", "quota", "rate", "window")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self.window = max(1, ceil(1 / rate))
        self.quota = max(1, floor(rate * self.window))
        self._left = float(self.quota)
        self._filled_at = now

    def seconds_to_wait(self, now: float) -> float:
        """How long until at least one unit may be spent; 0 for now."""
        self._fill(now)
        return max(0.0, (1 - self._left) / self.rate)

    def spend(self, units: float) -> None:
        """Take so many units, whether they are there or not."""
        self._left -= units

    @property
    def left(self) -> int:
        """Units that may be spent at once, as of the last look at the clock."""
        return max(0, floor(self._left))

    @property
    def seconds_to_full(self) -> int:
        """How long until the whole quota is there again, as of the last look at the clock."""
        return ceil((self.quota - self._left) / self.rate)

    def _fill(self, now: float) -> None:
        self._left = min(float(self.quota), self._left + (now - self._filled_at) * self.rate)
        self._filled_at = now
