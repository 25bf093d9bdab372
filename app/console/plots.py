"""Plots: the points for the script, and the same values as a summary and a table for everybody else."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from app.staging.retention.history import Sample
from mirrorgate import text

HOUR_MINUTES: Final = 60


class Line(NamedTuple):
    """A line of a plot: its name, its last value and its largest value."""

    label: str
    now: str
    most: str


class Row(NamedTuple):
    """A minute of a plot's table."""

    minute: str
    cells: tuple[str, ...]


class Plot(NamedTuple):
    """A plot as the macro `plot` prints it. `data` and `labels` are JSON for the script."""

    name: str
    title: str
    unit: str
    """Format of values in the script: `count` or `seconds`."""
    unit_label: str
    description: str
    lines: tuple[Line, ...]
    data: str
    labels: str
    rows: tuple[Row, ...]


_Values = Mapping[str, Callable[[Sample], float]]

_PLOTS: Final[Sequence[tuple[str, str, str, str, _Values]]] = (
    ("rates", "Rows per second", "count", "", {
        "Accepted": lambda sample: sample.accepted_rate, "Published": lambda sample: sample.published_rate,
    }),
    ("lag", "Lag", "seconds", "age of the oldest unpublished batch", {
        "Oldest unpublished": lambda sample: sample.oldest_seconds,
    }),
    ("waiting", "Rows waiting", "count", "accepted and not published", {"Waiting": lambda sample: sample.pending_rows}),
)  # fmt: skip
"""The name, title, unit and label of each plot, and the values of its lines."""


def hour_plots(samples: Sequence[Sample], now: datetime, *, minutes: int = HOUR_MINUTES) -> tuple[Plot, ...]:
    """Return the plots of rates, lag and waiting rows over the last minutes; a minute without a sample is a gap."""
    last = now.replace(second=0, microsecond=0)
    axis = [last - timedelta(minutes=back) for back in reversed(range(minutes))]
    known = {sample.minute: sample for sample in samples}
    return tuple(_plot(*drawn, axis, known) for drawn in _PLOTS)


def _plot(
    name: str,
    title: str,
    unit: str,
    unit_label: str,
    values: _Values,
    axis: Sequence[datetime],
    known: Mapping[datetime, Sample],
) -> Plot:
    form = text.duration if unit == "seconds" else text.short_count
    series = [[_rounded(value(known[at])) if at in known else None for at in axis] for value in values.values()]
    lines = tuple(_line(label, points, form) for label, points in zip(values, series, strict=True))
    said = "; ".join(f"{line.label.lower()} {line.now} now, at most {line.most}" for line in lines)
    places = [place for place in reversed(range(len(axis))) if axis[place] in known]
    return Plot(
        name=name,
        title=title,
        unit=unit,
        unit_label=unit_label,
        description=f"{title} in the last {len(axis)} minutes: {said}",
        lines=lines,
        data=json.dumps([[int(at.timestamp()) for at in axis], *series], separators=(",", ":")),
        labels=json.dumps([*values]),
        rows=tuple(Row(f"{axis[place]:%H:%M}", tuple(form(points[place]) for points in series)) for place in places),
    )


def _line(label: str, points: Sequence[float | None], form: Callable[[float | None], str]) -> Line:
    present = [point for point in points if point is not None]
    return Line(label, form(present[-1] if present else None), form(max(present, default=None)))


def _rounded(value: float) -> float:
    return round(value, 2) if value < 1_000 else round(value)
