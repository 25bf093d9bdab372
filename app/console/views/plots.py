"""Plots: the points for the script, and the same values as a summary and a table for everybody else."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.console import text
from app.staging.retention.history import Sample

HOUR_MINUTES: Final = 60


@dataclass(frozen=True, slots=True)
class LineView:
    """A line of a plot: its name, its last value and its largest value."""

    label: str
    now: str
    most: str


@dataclass(frozen=True, slots=True)
class RowView:
    """A minute of a plot's table."""

    minute: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlotView:
    """A plot as the macro `plot` prints it. `data` and `labels` are JSON for the script."""

    name: str
    title: str
    unit: str
    """How the script formats values: `count` or `seconds`."""
    unit_label: str
    description: str
    lines: tuple[LineView, ...]
    data: str
    labels: str
    rows: tuple[RowView, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """What to plot of each sample."""

    label: str
    value: Callable[[Sample], float]


RATES: Final = (Line("Accepted", lambda s: s.accepted_rate), Line("Published", lambda s: s.published_rate))
OLDEST: Final = (Line("Oldest unpublished", lambda s: s.oldest_seconds),)
PENDING: Final = (Line("Waiting", lambda s: s.pending_rows),)


def hour_plots(samples: Sequence[Sample], now: datetime, *, minutes: int = HOUR_MINUTES) -> tuple[PlotView, ...]:
    """Return the plots of rates, lag and waiting rows over the last minutes; a minute without a sample is a gap."""
    return (
        plot("rates", "Rows per second", "count", "", RATES, samples, now, minutes),
        plot("lag", "Lag", "seconds", "age of the oldest unpublished batch", OLDEST, samples, now, minutes),
        plot(
            "waiting",
            "Rows waiting",
            "count",
            "accepted and not published",
            PENDING,
            samples,
            now,
            minutes,
        ),
    )


def plot(
    name: str,
    title: str,
    unit: str,
    unit_label: str,
    lines: Sequence[Line],
    samples: Sequence[Sample],
    now: datetime,
    minutes: int,
) -> PlotView:
    """Return a plot of some lines. Samples outside the last minutes are left out."""
    form = text.duration if unit == "seconds" else text.short_count
    last = now.replace(second=0, microsecond=0)
    axis = [last - timedelta(minutes=back) for back in reversed(range(minutes))]
    known = {sample.minute: sample for sample in samples}
    series = [[_rounded(line.value(known[at])) if at in known else None for at in axis] for line in lines]
    views = []
    for line, values in zip(lines, series, strict=True):
        present = [value for value in values if value is not None]
        views.append(
            LineView(line.label, form(present[-1] if present else None), form(max(present) if present else None))
        )
    said = "; ".join(f"{view.label.lower()} {view.now} now, at most {view.most}" for view in views)
    rows = [
        RowView(at.strftime("%H:%M"), tuple(form(values[index]) for values in series))
        for index, at in reversed([*enumerate(axis)])
        if at in known
    ]
    return PlotView(
        name=name,
        title=title,
        unit=unit,
        unit_label=unit_label,
        description=f"{title} in the last {minutes} minutes: {said}",
        lines=tuple(views),
        data=json.dumps([[int(at.timestamp()) for at in axis], *series], separators=(",", ":")),
        labels=json.dumps([line.label for line in lines]),
        rows=tuple(rows),
    )


def _rounded(value: float) -> float:
    return round(value, 2) if value < 1_000 else round(value)
