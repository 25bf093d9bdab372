"""Tells whether a measure grew: its median in the last quarter of a run against that in the second quarter.

The first quarter is left out, because caches, pools and heaps fill then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

MIN_SAMPLES: Final = 8


@dataclass(frozen=True, slots=True)
class Allowance:
    """Growth that is allowed: an amount, and a share of the earlier level."""

    amount: float
    share: float = 0.10


@dataclass(frozen=True, slots=True)
class Growth:
    """The level of a measure early and late in a run, its largest value, and whether it is flat."""

    name: str
    early: float
    late: float
    peak: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        """Return True if the measure grew by no more than is allowed."""
        return self.late <= self.allowed


def growth_of(samples: Sequence[Mapping[str, float]], allowed: Mapping[str, Allowance]) -> list[Growth]:
    """Return the growth of every measure in samples of equal distance; `allowed` is by the last word of the names.

    A measure that a sample lacks was 0 then: its process did not run. Raises ValueError for too few samples.
    """
    if len(samples) < MIN_SAMPLES:
        raise ValueError(f"{len(samples)} samples are too few to tell growth; take at least {MIN_SAMPLES}")
    quarter = len(samples) // 4
    names = sorted({name for sample in samples for name in sample})
    return [_growth(name, [sample.get(name, 0.0) for sample in samples], quarter, allowed) for name in names]


def _growth(name: str, values: Sequence[float], quarter: int, allowed: Mapping[str, Allowance]) -> Growth:
    early, late = median(values[quarter : 2 * quarter]), median(values[-quarter:])
    unit = allowed[name.rpartition(" ")[2]]
    return Growth(name, early, late, max(values), early * (1 + unit.share) + unit.amount)
