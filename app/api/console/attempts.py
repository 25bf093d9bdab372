"""Limits how often one address can fail to sign in.

A key has 256 random bits and cannot be guessed, so this protects Postgres from the look-ups.
"""

import time
from collections.abc import Callable
from math import ceil
from typing import Final

from app.domain.access.rights import TokenBucket
from mirrorgate.errors import Code, TemporarilyUnavailable

ATTEMPTS_PER_SECOND: Final = 5.0
"""Failed tries of one address, which can be a proxy with many people behind it."""

MAX_ADDRESSES: Final = 10_000
"""Addresses that are counted at a time. Beyond it all of them start again."""


class AttemptLimit:
    """Counter of failed sign-ins by address. Not thread-safe: the event loop uses it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}

    def check(self, address: str) -> None:
        """Raise TemporarilyUnavailable `rate_limited` if this address has failed too often."""
        bucket = self._buckets.get(address)
        if bucket is not None and (wait := bucket.seconds_to_wait(self._clock())) > 0:
            raise TemporarilyUnavailable(
                Code.RATE_LIMITED,
                "too many tries to sign in",
                retry_after=max(1, ceil(wait)),
                remedy="Wait some seconds, then sign in again.",
            )

    def note_failure(self, address: str) -> None:
        """Count a failed try."""
        now = self._clock()
        if address not in self._buckets and len(self._buckets) >= MAX_ADDRESSES:
            self._buckets.clear()
        bucket = self._buckets.setdefault(address, TokenBucket(ATTEMPTS_PER_SECOND, now))
        bucket.seconds_to_wait(now)  # fills it
        bucket.spend(1)


SIGN_IN_ATTEMPTS: Final = AttemptLimit()
"""The failed tries of this process, with keys and at an identity provider."""
