"""Rate limits of each key in this API process: requests a second, and bytes of bodies a second.

Several API processes count each for itself. The answers to a limited key carry the fields `RateLimit-Policy` and
`RateLimit` of draft-ietf-httpapi-ratelimit-headers.
"""

import time
from collections.abc import Callable
from math import ceil
from typing import Final

from app.api.server.request_facts import RequestFacts
from app.domain.access.rate_limit import NO_LIMITS, RateLimits, TokenBucket
from app.domain.access.rights import Credential
from app.errors import Code, TemporarilyUnavailable

MOST_KEYS: Final = 10_000
"""Keys that are counted; beyond them all begin anew."""


class KeyMeter:
    """Counts the requests and bytes of one key. Used by one event loop alone."""

    def __init__(self, limits: RateLimits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self._clock = clock
        requests, size = limits.requests_per_second, limits.bytes_per_second
        self._requests = None if requests is None else TokenBucket(requests, clock())
        self._bytes = None if size is None else TokenBucket(size, clock())
        self._named = [("requests", "request", self._requests), ("bytes", "content-bytes", self._bytes)]
        self._policy = ", ".join(
            f'"{name}";q={bucket.quota};qu="{unit}";w={bucket.window}' for name, unit, bucket in self._named if bucket
        ).encode()

    def admit(self, size: int) -> None:
        """Count a request with a body of `size` bytes. Raises TemporarilyUnavailable `rate_limited`."""
        now = self._clock()
        for name, _, bucket in self._named:
            if bucket is not None and (wait := bucket.seconds_to_wait(now)) > 0:
                detail = f"the key is limited to {bucket.rate:g} {name} a second"
                raise TemporarilyUnavailable(Code.RATE_LIMITED, detail, retry_after=max(1, ceil(wait)))
        if self._requests is not None:
            self._requests.spend(1)
        self.spend(size)

    def spend(self, size: int) -> None:
        """Count bytes of a body that did not say its length."""
        if self._bytes is not None and size:
            self._bytes.spend(size)

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """The policies, and what is left of each quota."""
        left = ", ".join(
            f'"{name}";r={bucket.left};t={bucket.seconds_to_full}' for name, _, bucket in self._named if bucket
        )
        return ((b"ratelimit-policy", self._policy), (b"ratelimit", left.encode()))


class RateLimiter:
    """The meters of all keys; a key without any limit has none."""

    def __init__(self, defaults: RateLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._defaults = defaults
        self._clock = clock
        self._meters: dict[str, KeyMeter] = {}

    def admit(self, credential: Credential, declared: int | None, facts: RequestFacts) -> None:
        """Count a request of this caller; its answer gets the headers. Raises what `KeyMeter.admit` raises."""
        limits = credential.limits.or_else(self._defaults)
        if limits == NO_LIMITS:
            return
        meter = self._meters.get(credential.subject)
        if meter is None or meter.limits != limits:
            if len(self._meters) >= MOST_KEYS:
                self._meters.clear()
            meter = self._meters[credential.subject] = KeyMeter(limits, self._clock)
        try:
            meter.admit(declared or 0)
        finally:
            facts.headers = meter.headers
        if declared is None:
            facts.spend = meter.spend
