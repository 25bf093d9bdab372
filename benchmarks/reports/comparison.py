"""Compare two results: which figures moved by more than their runs differ."""

from dataclasses import dataclass

from benchmarks.reports.figure import Figure
from benchmarks.reports.results import Results


@dataclass(frozen=True, slots=True)
class FigureChange:
    """The change of a figure. Ratios are new divided by old, of medians; None where the two have other limits."""

    title: str
    value: float
    ratio: float | None
    """Change of the figure's ratio to its limit, which depends less on the machine than the value does."""
    is_beyond_spread: bool
    """Whether the runs of the two, as ratios to their limits if they have any, do not overlap."""


def compare_results(new: Results, old: Results) -> list[FigureChange]:
    """Return the change of each figure that both have, in the order of `new`."""
    earlier = {figure.name: figure for figure in old.figures}
    return [_change(figure, earlier[figure.name]) for figure in new.figures if figure.name in earlier]


def _change(new: Figure, old: Figure) -> FigureChange:
    same_limit = new.limit_name == old.limit_name
    new_ratio, old_ratio = (new.ratio, old.ratio) if same_limit else (None, None)
    return FigureChange(
        new.title,
        new.value.median / old.value.median,
        new_ratio.median / old_ratio.median if new_ratio and old_ratio else None,
        (new_ratio or new.value).is_disjoint_from(old_ratio or old.value),
    )


def setting_differences(new: Results, old: Results) -> list[str]:
    """Return the settings that make two results hard to compare."""
    pairs = {
        "cpu": (new.machine.cpu, old.machine.cpu),
        "cores": (new.machine.cores, old.machine.cores),
        "scale": (new.scale, old.scale),
        "seconds per run": (new.seconds, old.seconds),
    }
    return [f"{name}: {now}, before {before}" for name, (now, before) in pairs.items() if now != before]
