"""The list of tables, what needs attention, and plots.

`TableQuery` is the whole query in the address of the page, so it works as a link, as a form without a script, and in
the part that is refreshed. A value of the address that makes no sense counts as left out.

`attention` returns the problems that need attention, worst first: each with what is wrong, why, what to do, and where.
Many tables with the same trouble become one entry, so that the list remains short.

`hour_plots` draws rates, lag and waiting rows over the last minutes.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Any, Final, NamedTuple, Self

from app.console.render import FRAGMENTS, link, table_path
from app.domain.health.facts import TableSummary
from app.domain.health.troubles import ALL_TABLES, NEAR_LIMIT, Severity, Trouble, TroubleKind, code_in
from app.domain.model.table import DropAction, TableLife, TableState
from app.staging.overview import TableFacts
from app.staging.retention.history import Sample
from mirrorgate import text

PAGE_TABLES: Final = 100
"""Tables on one page."""

LAGGING_SECONDS: Final = 300
"""The age of the oldest waiting batch from which a table lags, as in the alert `MirrorgateLagOld`."""

MAX_SEARCH_CHARACTERS: Final = 200
PATH: Final = "/console/tables"
FRAGMENT: Final = f"{FRAGMENTS}/tables"


class Order(StrEnum):
    """The order of the list."""

    NAME = "name"
    LAG = "lag"
    WAITING = "waiting"
    ROWS = "rows"


_ORDERS: Final[Mapping[Order, tuple[str, Callable[[TableSummary], Any], bool]]] = {
    Order.NAME: ("Table", lambda summary: summary.name.casefold(), False),
    Order.LAG: ("Lag", lambda summary: summary.oldest_seconds, True),
    Order.WAITING: ("Rows waiting", lambda summary: summary.pending_rows, True),
    Order.ROWS: ("Rows accepted", lambda summary: summary.accepted_rows, True),
}
"""Of each order its label, its key, and whether the largest come first."""

_FILTERS: Final[Mapping[str, tuple[str, Callable[[TableSummary, float], bool]]]] = {
    "active": ("Active", lambda summary, _: summary.shown_state == TableState.ACTIVE),
    "quarantined": ("Quarantined", lambda summary, _: summary.state == TableState.QUARANTINED),
    "failing": ("Failing", lambda summary, _: summary.failure_code is not None),
    "lagging": ("Lagging", lambda summary, share: share >= NEAR_LIMIT or summary.oldest_seconds >= LAGGING_SECONDS),
    "fabric-error": ("Fabric error", lambda summary, _: bool(summary.fabric_error)),
    "dead-letters": ("Dead letters", lambda summary, _: summary.waiting_letters > 0),
    "paused": ("Paused", lambda summary, _: summary.state == TableState.PAUSED),
    "rebuilding": ("Rebuilding", lambda summary, _: summary.state == TableState.REBUILDING),
    "dropping": ("Dropping", lambda summary, _: summary.state == TableState.DROPPING),
}
"""Of each chip its label, and which tables it shows; the number is the table's share of its backlog limit."""


@dataclass(frozen=True, slots=True)
class TableQuery:
    """The query in the address of the page."""

    search: str = ""
    state: str = ""
    """The name of a chip; empty for all tables."""
    order: Order = Order.NAME
    reverse: bool = False
    page: int = 1

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Read the parameters of an address."""
        order, page = given.get("sort", ""), given.get("page", "")
        state = given.get("state", "")
        return cls(
            search=given.get("q", "").strip()[:MAX_SEARCH_CHARACTERS],
            state=state if state in _FILTERS else "",
            order=Order(order) if order in Order._value2member_map_ else Order.NAME,
            reverse=given.get("order") == "reverse",
            page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) <= 6 else 1,
        )

    def address(self, path: str = PATH, **changes: Any) -> str:
        """Return the address that asks for this with some changes, without what is the default."""
        wanted = replace(self, **changes)
        return link(
            path,
            q=wanted.search,
            state=wanted.state,
            sort=None if wanted.order is Order.NAME else wanted.order.value,
            order="reverse" if wanted.reverse else None,
            page=wanted.page if wanted.page > 1 else None,
        )

    def sorted_by(self, order: Order) -> str:
        """Return the address of the list in an order, reversed if it has this order already."""
        return self.address(order=order, reverse=self.order is order and not self.reverse, page=1)


class Totals(NamedTuple):
    """Rows of the tables that the user may see, in their present generations."""

    tables: int
    states: Mapping[str, int]
    """The numbers of tables by state, `active` first."""
    accepted: int
    pending: int
    oldest_seconds: float
    processed: int | None
    """None if Fabric reported about none of the tables."""
    reported: int
    """The number of tables that Fabric reported about."""
    letters: int


@dataclass(frozen=True, slots=True)
class TableList:
    """A page of the list."""

    query: TableQuery
    """Query of the request, with the last page in place of a later one."""
    rows: Sequence[tuple[TableSummary, str]]
    """The tables, each with the code of what is wrong, empty if nothing is."""
    chips: Sequence[tuple[str, str, int]]
    """The name, label and number of the states that occur, and of the one that is chosen; all tables come first."""
    found: int
    total: int
    """The number of tables that the user may see."""

    @property
    def first(self) -> int:
        """The place of the first row among those found, from 1."""
        return (self.query.page - 1) * PAGE_TABLES + 1

    @property
    def last(self) -> int:
        """The place of the last row among those found."""
        return self.first + len(self.rows) - 1

    @property
    def headers(self) -> list[tuple[Order, str, str | None]]:
        """The order and label of each column, and the direction in which the list is sorted by it."""
        reverse = self.query.reverse
        return [
            (order, label, ("descending" if down != reverse else "ascending") if self.query.order is order else None)
            for order, (label, _, down) in _ORDERS.items()
        ]


def table_list(summaries: Sequence[TableSummary], query: TableQuery, shares: Mapping[TableLife, float]) -> TableList:
    """Return the page that a query asks for, the last one if there are fewer. `shares` are those of backlog limits."""
    words = query.search.casefold().split()
    matching = [summary for summary in summaries if all(word in summary.name.casefold() for word in words)]
    named = {summary.table_id: _chips_of(summary, shares) for summary in matching}
    found = [summary for summary in matching if not query.state or query.state in named[summary.table_id]]
    _, key, largest_first = _ORDERS[query.order]
    found.sort(key=_ORDERS[Order.NAME][1])
    found.sort(key=key, reverse=largest_first != query.reverse)
    query = replace(query, page=min(query.page, max(1, -(-len(found) // PAGE_TABLES))))
    shown = found[(query.page - 1) * PAGE_TABLES : query.page * PAGE_TABLES]
    numbers = Counter(name for names in named.values() for name in names)
    chips = [
        (name, label, numbers[name]) for name, (label, _) in _FILTERS.items() if numbers[name] or name == query.state
    ]
    return TableList(
        query,
        [(summary, _trouble(summary)) for summary in shown],
        [("", "All", len(matching)), *chips],
        len(found),
        len(summaries),
    )


def totals_of(summaries: Sequence[TableSummary]) -> Totals:
    """Add up tables."""
    states = Counter(summary.shown_state for summary in summaries)
    processed = [summary.processed_rows for summary in summaries if summary.processed_rows is not None]
    return Totals(
        tables=len(summaries),
        states=dict(sorted(states.items(), key=lambda entry: entry[0] != TableState.ACTIVE)),
        accepted=sum(summary.accepted_rows for summary in summaries),
        pending=sum(summary.pending_rows for summary in summaries),
        oldest_seconds=max((summary.oldest_seconds for summary in summaries), default=0.0),
        processed=sum(processed) if processed else None,
        reported=len(processed),
        letters=sum(summary.waiting_letters for summary in summaries),
    )


def _chips_of(summary: TableSummary, shares: Mapping[TableLife, float]) -> list[str]:
    share = shares.get(summary.life, 0.0)
    return [name for name, (_, shows) in _FILTERS.items() if shows(summary, share)]


def _trouble(summary: TableSummary) -> str:
    reason = code_in(summary.state_reason) if summary.state == TableState.QUARANTINED else None
    return summary.failure_code or reason or ("Fabric error" if summary.fabric_error else "")


MAX_EACH: Final = 5
"""Tables with the same trouble that are named; the others are counted."""

_MAX_WHY: Final = 400

_LISTS: Final = {
    TroubleKind.TABLE_QUARANTINED: "/console/tables?state=quarantined",
    TroubleKind.TABLE_FAILING: "/console/tables?state=failing",
    TroubleKind.TABLE_PAUSED: "/console/tables?state=paused",
    TroubleKind.BACKLOG: "/console/tables?state=lagging",
    TroubleKind.FABRIC_TABLE: "/console/tables?state=fabric-error",
    TroubleKind.DEAD_LETTERS: "/console/dead-letters",
}
"""Pages that list all tables with a trouble."""

_AFTER_DROP: Final = {
    DropAction.DROP: "then the table is gone.",
    DropAction.RECREATE: "then its next generation begins, empty.",
    DropAction.RENAME: "then it begins again under its new name.",
    DropAction.REBUILD: "then the rebuilt rows are published, and behind them the changes that are accepted now.",
}


@dataclass(frozen=True, slots=True)
class TroubleView:
    """One entry of a list of troubles."""

    severity: str
    """The class of its style: `bad` or `warn`."""
    chip: str
    title: str
    why: str
    remedy: str
    link: str | None = None
    since: datetime | None = None


def attention(troubles: Iterable[Trouble], doctor: str | None = None) -> tuple[TroubleView, ...]:
    """Return the entries of the overview for troubles in the order of `app.domain.health.troubles`.

    `doctor` is the path of the doctor's page, for a user who may open it.
    """
    kinds = groupby(troubles, lambda one: one.kind)
    return tuple(entry for kind, alike in kinds for entry in _entries(kind, [*alike], doctor))


def table_attention(troubles: Iterable[Trouble]) -> tuple[TroubleView, ...]:
    """Return the entries of a table's page, with what each trouble means instead of the table's name."""
    return tuple(_entry(trouble, trouble.title) for trouble in troubles)


def notice_of_drop(facts: TableFacts) -> Iterator[TroubleView]:
    """Yield what the drain does with a table that is being dropped or rebuilt."""
    table, reason = facts.table, facts.counts.state_reason
    if table.state.deletes_folder and table.drop_plan is not None:
        waits = f" Now it waits: {reason}" if reason else ""
        why = f"The drain deletes the landing folder, {_AFTER_DROP[table.drop_plan.action]}{waits}"
        what = "rebuilt" if table.state is TableState.REBUILDING else "dropped"
        yield TroubleView("warn", table.state, f"The table is being {what}", why, "")


def _entries(kind: TroubleKind, alike: list[Trouble], doctor: str | None) -> Iterator[TroubleView]:
    """Yield the first troubles of a kind, and one entry that counts the others."""
    for trouble in alike if kind not in _LISTS else alike[:MAX_EACH]:
        is_table = kind in _LISTS and trouble.subject != ALL_TABLES
        yield _entry(trouble, trouble.subject if is_table else trouble.title, _link(trouble, doctor, is_table=is_table))
    if kind in _LISTS and (more := alike[MAX_EACH:]):
        names = ", ".join(trouble.subject for trouble in more[:MAX_EACH])
        yield TroubleView(
            _style(more[0]),
            kind.label,
            f"{len(more)} more tables",
            f"{names}{', …' if len(more) > MAX_EACH else ''}",
            "Start with those above; the cause is often the same.",
            _LISTS[kind],
        )


def _entry(trouble: Trouble, title: str, path: str | None = None) -> TroubleView:
    chip = trouble.subject if trouble.kind in (TroubleKind.PART, TroubleKind.FINDING) else trouble.kind.label
    return TroubleView(
        _style(trouble), chip, title, trouble.detail[:_MAX_WHY], trouble.remedy, path, since=trouble.since
    )


def _link(trouble: Trouble, doctor: str | None, *, is_table: bool) -> str | None:
    if trouble.kind is TroubleKind.DEAD_LETTERS:
        return link("/console/dead-letters", table=trouble.subject)
    if is_table:
        return table_path(trouble.subject)
    is_examined = trouble.kind in (TroubleKind.PART, TroubleKind.FINDING) and trouble.subject != "fabric"
    return doctor if is_examined else None


def _style(trouble: Trouble) -> str:
    return "bad" if trouble.severity is Severity.CRITICAL else "warn"


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
