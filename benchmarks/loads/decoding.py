"""The least that any reader of a body does: decoding it."""

import itertools
import time
from collections.abc import Sequence

import orjson


def decoding_rate(bodies: Sequence[bytes], seconds: float) -> float:
    """Bodies a second of `orjson.loads`, one thread, one after the other for so long."""
    started = time.perf_counter()
    for done, body in enumerate(itertools.cycle(bodies), 1):
        orjson.loads(body)
        elapsed = time.perf_counter() - started
        if elapsed >= seconds:
            return done / elapsed
    raise ValueError("there is no body")
