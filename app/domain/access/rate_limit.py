"""Rate limits as token buckets: a quota per window that refills steadily."""

from dataclasses import dataclass
from math import ceil, floor
from typing import Final


@dataclass(frozen=True, slots=True)
class RateLimits:
    """How much one key may send; None for no limit."""

    requests_per_second: float | None = None
    bytes_per_second: float | None = None

    def or_else(self, defaults: "RateLimits") -> "RateLimits":
        """Return these limits, with the defaults for those that are not set."""
        requests, size = self.requests_per_second, self.bytes_per_second
        return RateLimits(
            defaults.requests_per_second if requests is None else requests,
            defaults.bytes_per_second if size is None else size,
        )


NO_LIMITS: Final = RateLimits()


class TokenBucket:
    """Allows `rate` units per second on average, and at most `quota` at once. Times are seconds of one clock.

    `quota` is the amount of one `window`: a second's worth, or one unit if that takes longer. A caller that has one
    unit left can spend any number, and then waits until the debt is paid. So a body larger than the quota passes, and
    delays the next ones.
    """

    __slots__ = ("_filled_at", "_left", "quota", "rate", "window")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self.window = max(1, ceil(1 / rate))
        self.quota = max(1, floor(rate * self.window))
        self._left = float(self.quota)
        self._filled_at = now

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until one unit can be spent, 0 if it can be now."""
        self._fill(now)
        return max(0.0, (1 - self._left) / self.rate)

    def spend(self, units: float) -> None:
        """Spend units, also more than are left."""
        self._left -= units

    @property
    def left(self) -> int:
        """Units that can be spent at once, as of the last call with a time."""
        return max(0, floor(self._left))

    @property
    def seconds_to_full(self) -> int:
        """Seconds until the whole quota is available again, as of the last call with a time."""
        return ceil((self.quota - self._left) / self.rate)

    def _fill(self, now: float) -> None:
        self._left = min(float(self.quota), self._left + (now - self._filled_at) * self.rate)
        self._filled_at = now
