"""Wait in tests for a condition with a deadline, never for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def wait_until(condition: Callable[[], Value], *, within: float, what: str) -> Value:
    """Return the first true value of `condition`; after `within` seconds, fail and say that `what` did not happen."""
    give_up = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() >= give_up:
            raise AssertionError(f"did not happen within {within} s: {what}")
        time.sleep(0.01)
    return value
