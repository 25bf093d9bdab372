"""The list of tables: what was searched for, which states are shown, in which order, and one page of the rows.

The whole query is in the address of the page, so it works as a link, as a form without a script, and in the part that
is refreshed. A value of the address that makes no sense counts as left out.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from app.console.links import FRAGMENTS, link
from app.domain.health.facts import TableSummary
from app.domain.health.troubles import NEAR_LIMIT, code_in
from app.domain.model.table import TableLife, TableState

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
