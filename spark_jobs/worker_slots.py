"""Spreading work of unequal weight evenly."""

import heapq
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

Item = TypeVar("Item")

MAX_WORKER_SLOTS: Final = 32
"""Bins of a drain that is not told how many, however many tasks Spark runs at a time."""


def balance(items: Iterable[Item], weight: Callable[[Item], int], bins: int) -> list[list[Item]]:
    """The items in at most `bins` non-empty lists of about equal weight: heaviest first, each to the lightest."""
    filled: list[list[Item]] = [[] for _ in range(bins)]
    lightest = [(0, number) for number in range(bins)]
    for item in sorted(items, key=weight, reverse=True):
        load, number = heapq.heappop(lightest)
        filled[number].append(item)
        heapq.heappush(lightest, (load + weight(item), number))
    return [members for members in filled if members]
