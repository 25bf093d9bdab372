"""The overview: is the gateway well, what needs attention first, how much passed, and how fast."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.console.views.attention import TroubleView
from app.console.views.plots import PlotView
from app.domain.health.facts import TableSummary
from app.domain.health.troubles import OK

_LABELS: Final = {
    "api": "API",
    "database": "Postgres",
    "writer": "Writer",
    "masks": "Masks",
    "drain": "Drains",
    "tables": "Tables",
    "backlog": "Backlog",
    "mirror": "Mirrors",
    "fabric": "Fabric",
    "clock": "Clocks",
}


@dataclass(frozen=True, slots=True)
class PartView:
    """A part of the gateway: `ok`, or what is wrong with it."""

    label: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class TotalsView:
    """Rows of the tables that the user may see, in their present generations."""

    tables: int
    states: tuple[tuple[str, int], ...]
    """The numbers of tables by state, `active` first."""
    accepted: int
    staged: int
    published: int
    pending: int
    oldest_seconds: float
    processed: int | None
    """None if Fabric reported about none of the tables."""
    reported: int
    """The number of tables that Fabric reported about."""
    letters: int


@dataclass(frozen=True, slots=True)
class OverviewView:
    """The overview as its template prints it."""

    parts: tuple[PartView, ...]
    troubles: tuple[TroubleView, ...]
    totals: TotalsView
    drains: int | None
    backlog_share: float


@dataclass(frozen=True, slots=True)
class PlotsView:
    """The plots of a page, which change once a minute."""

    plots: tuple[PlotView, ...]


@dataclass(frozen=True, slots=True)
class OverviewPageView:
    """The whole page: its parts are refreshed separately."""

    live: OverviewView
    plots: PlotsView


def parts_of(parts: Mapping[str, str]) -> tuple[PartView, ...]:
    """Return the parts of the gateway as `/statusz` names them, those with trouble first."""
    views = [PartView(_LABELS.get(name, name.capitalize()), state == OK, state) for name, state in parts.items()]
    return tuple(sorted(views, key=lambda part: part.ok))


def totals_of(summaries: Sequence[TableSummary]) -> TotalsView:
    """Add up tables."""
    states: dict[str, int] = {"active": 0}
    for summary in summaries:
        states[summary.shown_state] = states.get(summary.shown_state, 0) + 1
    processed = [summary.processed_rows for summary in summaries if summary.processed_rows is not None]
    accepted = sum(summary.accepted_rows for summary in summaries)
    pending = sum(summary.pending_rows for summary in summaries)
    return TotalsView(
        tables=len(summaries),
        states=tuple((state, number) for state, number in states.items() if number),
        accepted=accepted,
        staged=accepted,
        published=accepted - pending,
        pending=pending,
        oldest_seconds=max((summary.oldest_seconds for summary in summaries), default=0.0),
        processed=sum(processed) if processed else None,
        reported=len(processed),
        letters=sum(summary.waiting_letters for summary in summaries),
    )
