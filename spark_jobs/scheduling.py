"""When a failed table is tried again, and how work of unequal weight is shared among worker slots and Spark tasks.

A table that fails neither floods the logs nor delays the other tables.
"""

import heapq
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

Table = TypeVar("Table", bound=Hashable)

MIN_BACKOFF: Final = 0.5
_MAX_BACKOFF: Final = 30.0


class RetrySchedule(Generic[Table]):
    """Retry times of failed tables: after pauses that double from 0.5 s to 30 s. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._not_before: dict[Table, tuple[float, float]] = {}
        """By table: the earliest next attempt, and the pause after that one."""

    def back_off(self, table: Table) -> None:
        """Postpone the next attempt at a table that failed."""
        with self._lock:
            _, pause = self._not_before.get(table, (0.0, MIN_BACKOFF))
            self._not_before[table] = (time.monotonic() + pause, min(2 * pause, _MAX_BACKOFF))

    def reset(self, tables: Iterable[Table]) -> None:
        """Forget the failures of tables that succeeded."""
        with self._lock:
            for table in tables:
                self._not_before.pop(table, None)

    def postponed(self, now: float) -> set[Table]:
        """Return the tables whose next attempt is later than `now`, on the monotonic clock."""
        with self._lock:
            return {table for table, (moment, _) in self._not_before.items() if moment > now}

    def failed(self) -> set[Table]:
        """Return the tables that have failed since their last success."""
        with self._lock:
            return set(self._not_before)


Item = TypeVar("Item")

MAX_WORKER_SLOTS: Final = 32
"""Worker slots of a drain that is not told how many, however many tasks Spark runs at a time."""


def balance(items: Iterable[Item], weight: Callable[[Item], int], slots: int) -> list[list[Item]]:
    """Return the items in at most `slots` non-empty lists of about equal weight.

    The heaviest item comes first, and each one joins the lightest list.
    """
    lists: list[list[Item]] = [[] for _ in range(slots)]
    lightest = [(0, number) for number in range(slots)]
    for item in sorted(items, key=weight, reverse=True):
        load, number = heapq.heappop(lightest)
        lists[number].append(item)
        heapq.heappush(lightest, (load + weight(item), number))
    return [members for members in lists if members]
