"""Distribution of work of unequal weight over worker slots and Spark tasks."""

import heapq
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

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
