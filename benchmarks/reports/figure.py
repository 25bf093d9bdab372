"""What a benchmark finds: a value and its limit, run by run, and whether the goal is reached."""

import statistics
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Self

import msgspec

from benchmarks.costs import Costs


class BenchmarkFailed(Exception):
    """A figure could not be measured; the text says why."""


class Measured(msgspec.Struct, frozen=True):
    """One quantity over several runs, in the order in which they were made; at least one."""

    runs: tuple[float, ...]

    @classmethod
    def of(cls, runs: Sequence[float]) -> Self:
        if not runs:
            raise ValueError("a quantity needs at least one run")
        return cls(tuple(runs))

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    @property
    def low(self) -> float:
        return min(self.runs)

    @property
    def high(self) -> float:
        return max(self.runs)

    def over(self, other: "Measured") -> "Measured":
        """The ratios of runs that were made in turn, one by one."""
        return Measured(tuple(mine / theirs for mine, theirs in zip(self.runs, other.runs, strict=True)))

    def is_apart_from(self, other: "Measured") -> bool:
        """Whether no run of one lies within the runs of the other."""
        return self.low > other.high or self.high < other.low


class Of(StrEnum):
    """What a goal is about."""

    RATIO = "ratio"
    VALUE = "value"


class Goal(msgspec.Struct, frozen=True):
    """A bound for a figure's median ratio, or for its median value."""

    bound: float
    at_least: bool
    of: Of = Of.RATIO

    def __str__(self) -> str:
        about = "" if self.of is Of.RATIO else "value "
        return f"{about}{'≥' if self.at_least else '≤'} {self.bound:g}"

    def is_reached(self, figure: "Figure") -> bool:
        found = figure.ratio.median if self.of is Of.RATIO else figure.value.median
        return found >= self.bound if self.at_least else found <= self.bound


class Figure(msgspec.Struct, frozen=True):
    """A value, the limit that it is to be seen beside, and the goal, if there is one.

    `value` and `limit` have the same unit and as many runs, made in turn. `details` is what else was seen, `costs`
    what sizes are reckoned from.
    """

    name: str
    title: str
    unit: str
    value: Measured
    limit: Measured
    limit_name: str
    goal: Goal | None = None
    details: Mapping[str, str] = {}
    costs: Costs | None = None

    @property
    def ratio(self) -> Measured:
        return self.value.over(self.limit)

    @property
    def reached(self) -> bool | None:
        """None without a goal."""
        return self.goal.is_reached(self) if self.goal else None


def readable(number: float) -> str:
    """Write a number with three or four digits that count, in one notation: 1,234, 56,700, 0.123."""
    if abs(number) < 100:
        return f"{number:.3g}"
    if abs(number) < 10_000:
        return f"{number:,.0f}"
    return f"{float(f'{number:.3g}'):,.0f}"
