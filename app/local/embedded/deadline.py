"""Wait for a condition that another process makes true, with a time limit."""

import time
from collections.abc import Callable
from typing import Final

_POLL_SECONDS: Final = 0.02


def holds_within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Return True as soon as `condition` is true, or False after `seconds`."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= give_up:
            return False
        time.sleep(_POLL_SECONDS)  # files and processes of Postgres offer no notification
    return True
