"""The time that a body can take to arrive, so that half a body holds resources only for a short time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UploadDeadline:
    """Computes the time that a body can take: a grace period, and then the time of its bytes at a minimum rate.

    The rate is `min_rate` bytes per second, or more for a large body: the rate that brings its declared length in
    `max_seconds`. A caller that declares much and sends little is rejected soon after the grace period.
    """

    max_seconds: float
    grace_seconds: float
    min_rate: int

    def seconds(self, received: int, declared: int) -> float:
        """Return how long to wait for the next piece, counted from the start of the body, after `received` bytes."""
        rate = max(self.min_rate, declared / self.max_seconds)
        return min(self.max_seconds, self.grace_seconds + received / rate)
