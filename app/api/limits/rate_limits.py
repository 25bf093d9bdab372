"""Rate limits of each key in this API process: requests per second, and body bytes per second.

Each API process counts for itself (decision 0022). Answers to a limited key carry the fields `RateLimit-Policy` and
`RateLimit` of draft-ietf-httpapi-ratelimit-headers.
"""

import time
from collections.abc import Callable
from math import ceil
from typing import Final

from app.api.server.request_facts import RequestFacts
from app.domain.access.rights import NO_LIMITS, Credential, RateLimits, TokenBucket
from mirrorgate.errors import Code, TemporarilyUnavailable

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
    """Meters of the keys that have a limit, one for each key."""

    def __init__(self, defaults: RateLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._defaults = defaults
        self._clock = clock
        self._meters: dict[str, KeyMeter] = {}

    def admit(self, credential: Credential, declared: int | None, facts: RequestFacts) -> None:
        """Count a request of this caller and set the headers of its answer. Raises what `KeyMeter.admit` raises.

        `declared` is the declared length of the body. Without one, the bytes are counted as they arrive.
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
            meter.admit(declared or 0)
        finally:
            facts.headers = meter.headers
        if declared is None:
            facts.count_bytes = meter.count_bytes
