"""Waiting for something another process does, with an end."""

import time
from collections.abc import Callable
from typing import Final

_BETWEEN_LOOKS: Final = 0.02


def holds_within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether `condition` becomes true within `seconds`; returns as soon as it does."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= give_up:
            return False
        time.sleep(_BETWEEN_LOOKS)
    return True
