"""The time that a body can take to arrive, or an answer to be read, so that a slow caller holds little for long."""

from dataclasses import dataclass, replace
from typing import Final

MAX_UNVERIFIED_SECONDS: Final = 15.0
"""How long the body of a caller that has not shown a valid key can take to arrive."""

MAX_UNVERIFIED_GRACE_SECONDS: Final = 3.0
"""The grace period of such a body."""


@dataclass(frozen=True, slots=True)
class TransferDeadline:
    """Computes the time that a transfer can take: a grace period, and then the time of its bytes at a minimum rate.

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
