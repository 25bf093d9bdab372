"""Comparing two results: what moved by more than its runs differ."""

from dataclasses import dataclass

from benchmarks.reports.figure import Figure
from benchmarks.reports.results import Results


@dataclass(frozen=True, slots=True)
class Moved:
    """How a figure of `new` stands to the same of `old`. Ratios are of medians: above 1 the newer one is larger."""

    title: str
    value: float
    ratio: float
    """Of the figure's own ratio to its limit, which depends less on the machine than the value does."""
    is_beyond_spread: bool
    """Whether the runs of the two, as ratios to their limits, do not overlap."""


def compared(new: Results, old: Results) -> list[Moved]:
    """Each figure that both have, in the order of `new`."""
    earlier = {figure.name: figure for figure in old.figures}
    return [_moved(figure, earlier[figure.name]) for figure in new.figures if figure.name in earlier]


def _moved(new: Figure, old: Figure) -> Moved:
    return Moved(
        new.title,
        new.value.median / old.value.median,
        new.ratio.median / old.ratio.median,
        new.ratio.is_apart_from(old.ratio),
    )


def differing_settings(new: Results, old: Results) -> list[str]:
    """What makes two results hard to compare."""
    pairs = {
        "cpu": (new.machine.cpu, old.machine.cpu),
        "cores": (new.machine.cores, old.machine.cores),
        "scale": (new.scale, old.scale),
        "seconds a run": (new.seconds, old.seconds),
    }
    return [f"{name}: {now}, before {before}" for name, (now, before) in pairs.items() if now != before]
