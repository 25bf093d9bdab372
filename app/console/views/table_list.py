"""The list of tables: what was searched for, which states are shown, in which order, and one page of the rows.

The whole query is in the address of the page, so it works as a link, as a form without a script, and in the part that
is refreshed. A value of the address that makes no sense counts as left out.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Self
from urllib.parse import urlencode

from app.console.views.attention import address
from app.domain.health.facts import TableSummary
from app.domain.health.troubles import NEAR_LIMIT, code_in
from app.domain.model.table import TableLife, TableState

PAGE_TABLES: Final = 100
"""Tables on one page."""

LAGGING_SECONDS: Final = 300
"""The age of the oldest waiting batch from which a table lags, as in the alert `MirrorgateLagOld`."""

MAX_SEARCH_CHARACTERS: Final = 200
PATH: Final = "/console/tables"
FRAGMENT: Final = "/console/fragments/tables"


class Order(StrEnum):
    """What the list is sorted by."""

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
    """What the address of the page asks for."""

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

    def address(self, path: str = PATH) -> str:
        """Return the address that asks for this, without what is the default."""
        given = {
            "q": self.search,
            "state": self.state,
            "sort": "" if self.order is Order.NAME else self.order.value,
            "order": "reverse" if self.reverse else "",
            "page": str(self.page) if self.page > 1 else "",
        }
        query = urlencode({name: value for name, value in given.items() if value})
        return f"{path}?{query}" if query else path


@dataclass(frozen=True, slots=True)
class ChipView:
    """A chip that shows the tables of one state, with how many there are."""

    label: str
    number: int
    link: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class HeaderView:
    """The header of a column, with the link that sorts by it."""

    label: str
    link: str
    is_number: bool
    direction: str | None
    """`ascending` or `descending` if the list is sorted by it."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table in the list."""

    summary: TableSummary
    link: str
    state: str
    trouble: str
    """The code of what is wrong, empty if nothing is."""


@dataclass(frozen=True, slots=True)
class TableListView:
    """A page of the list."""

    query: TableQuery
    chips: tuple[ChipView, ...]
    headers: tuple[HeaderView, ...]
    rows: tuple[TableRow, ...]
    found: int
    first: int
    """The place of the first row among those found, from 1."""
    total: int
    """The number of tables that the user may see."""
    refresh: str
    previous: str | None
    following: str | None
    every: str
    """The address of the list without search and chip."""


def table_list(
    summaries: Sequence[TableSummary], query: TableQuery, shares: Mapping[TableLife, float]
) -> TableListView:
    """Return the page that a query asks for, the last one if there are fewer. `shares` are those of backlog limits."""
    words = query.search.casefold().split()
    matching = [summary for summary in summaries if all(word in summary.name.casefold() for word in words)]
    named = {summary.table_id: _chips_of(summary, shares) for summary in matching}
    found = [summary for summary in matching if not query.state or query.state in named[summary.table_id]]
    _, key, largest_first = _ORDERS[query.order]
    found.sort(key=_ORDERS[Order.NAME][1])
    found.sort(key=key, reverse=largest_first != query.reverse)
    last = max(1, -(-len(found) // PAGE_TABLES))
    query = replace(query, page=min(query.page, last))
    start = (query.page - 1) * PAGE_TABLES
    return TableListView(
        query=query,
        chips=tuple(_chip_views(query, len(matching), Counter(name for names in named.values() for name in names))),
        headers=tuple(_header(query, order) for order in Order),
        rows=tuple(_row(summary) for summary in found[start : start + PAGE_TABLES]),
        found=len(found),
        first=start + 1,
        total=len(summaries),
        refresh=query.address(FRAGMENT),
        previous=replace(query, page=query.page - 1).address() if query.page > 1 else None,
        following=replace(query, page=query.page + 1).address() if query.page < last else None,
        every=replace(query, search="", state="", page=1).address(),
    )


def _chips_of(summary: TableSummary, shares: Mapping[TableLife, float]) -> list[str]:
    share = shares.get(summary.life, 0.0)
    return [name for name, (_, shows) in _FILTERS.items() if shows(summary, share)]


def _chip_views(query: TableQuery, number: int, numbers: Mapping[str, int]) -> list[ChipView]:
    """Return the chips of states that occur, and the one that is chosen."""
    first = replace(query, page=1)
    chips = [ChipView("All", number, replace(first, state="").address(), not query.state)]
    for name, (label, _) in _FILTERS.items():
        if numbers.get(name) or name == query.state:
            link = replace(first, state=name).address()
            chips.append(ChipView(label, numbers.get(name, 0), link, query.state == name))
    return chips


def _header(query: TableQuery, order: Order) -> HeaderView:
    label, _, largest_first = _ORDERS[order]
    is_current = query.order is order
    direction = "descending" if largest_first != query.reverse else "ascending"
    asked = replace(query, order=order, reverse=is_current and not query.reverse, page=1)
    return HeaderView(label, asked.address(), order is not Order.NAME, direction if is_current else None)


def _row(summary: TableSummary) -> TableRow:
    reason = code_in(summary.state_reason) if summary.state == TableState.QUARANTINED else None
    trouble = summary.failure_code or reason or ("Fabric error" if summary.fabric_error else "")
    return TableRow(summary, address(summary.name), summary.shown_state, trouble)
