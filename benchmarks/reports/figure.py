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
    """One quantity over at least one run, in the order in which the runs were made."""

    runs: tuple[float, ...]

    @classmethod
    def of(cls, runs: Sequence[float]) -> Self:
        """Return the quantity. Raises ValueError without a run."""
        if not runs:
            raise ValueError("a quantity needs at least one run")
        return cls(tuple(runs))

    @property
    def median(self) -> float:
        """Return the median of the runs."""
        return statistics.median(self.runs)

    @property
    def low(self) -> float:
        """Return the lowest run."""
        return min(self.runs)

    @property
    def high(self) -> float:
        """Return the highest run."""
        return max(self.runs)

    def over(self, other: "Measured") -> "Measured":
        """Return the ratio of each run to the corresponding run of `other`."""
        return Measured(tuple(mine / theirs for mine, theirs in zip(self.runs, other.runs, strict=True)))

    def is_disjoint_from(self, other: "Measured") -> bool:
        """Return whether no run of one lies within the runs of the other."""
        return self.low > other.high or self.high < other.low


class Of(StrEnum):
    """Whether a goal is about the ratio to the limit or about the value."""

    RATIO = "ratio"
    VALUE = "value"


class Goal(msgspec.Struct, frozen=True):
    """A bound for a figure's median ratio, or for its median value."""

    bound: float
    at_least: bool
    of: Of = Of.RATIO

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {ratio_text(self.bound)}" if self.of is Of.RATIO else f"value {sign} {readable(self.bound)}"

    def is_reached(self, figure: "Figure") -> bool:
        """Return whether the figure is within the bound. Raises ValueError for a ratio without a limit."""
        measured = figure.ratio if self.of is Of.RATIO else figure.value
        if measured is None:
            raise ValueError(f"{figure.name} has a goal for its ratio and no limit")
        return measured.median >= self.bound if self.at_least else measured.median <= self.bound


class Figure(msgspec.Struct, frozen=True):
    """A value, the limit to compare it with, and the goal if there is one.

    `value` and `limit` have the same unit and as many runs, made in turn. A count, as of functions, has no limit and
    an empty `limit_name`. `details` holds other observations, `costs` the basis of the sizing tables.
    """

    name: str
    title: str
    unit: str
    value: Measured
    limit: Measured | None = None
    limit_name: str = ""
    goal: Goal | None = None
    details: Mapping[str, str] = {}
    costs: Costs | None = None

    @property
    def ratio(self) -> Measured | None:
        """Return the value divided by the limit, run by run; None without a limit."""
        return self.value.over(self.limit) if self.limit else None

    @property
    def reached(self) -> bool | None:
        """Return whether the goal is reached; None without a goal."""
        return self.goal.is_reached(self) if self.goal else None


def readable(number: float) -> str:
    """Write a value in the one notation of all tables: 1,234, 56,700, 235,000; below 100 with one decimal, as 3.8.

    Counts are whole. Three digits count, and of numbers below 10,000 all.
    """
    if abs(number) < 100:
        return f"{number:.0f}" if number == int(number) else f"{number:.1f}"
    if abs(number) < 10_000:
        return f"{number:,.0f}"
    return f"{float(f'{number:.3g}'):,.0f}"


def ratio_text(ratio: float) -> str:
    """Write a ratio in the one notation of all tables: two decimals."""
    return f"{ratio:.2f}"
