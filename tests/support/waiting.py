"""Wait in tests for a condition with a deadline, never for a fixed time; clocks that tests move."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def wait_until(condition: Callable[[], Value], *, within: float, what: str) -> Value:
    """Return the first true value of `condition`; after `within` seconds, fail and say that `what` did not happen.

    The pause between two looks grows from 10 ms, so that a long wait costs little processor time and lasts 5% longer.
    """
    started = time.monotonic()
    give_up = started + within
    while not (value := condition()):
        if time.monotonic() >= give_up:
            raise AssertionError(f"did not happen within {within} s: {what}")
        time.sleep(max(0.01, (time.monotonic() - started) / 20))
    return value


class Clock:
    """Seconds that pass only when a test moves them, or what is tested sleeps; `slept` has each of its pauses."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
