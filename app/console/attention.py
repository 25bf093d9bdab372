"""Problems that need attention, worst first: each with what is wrong, why, what to do, and where.

Many tables with the same trouble become one entry, so that the list remains short.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final

from app.console.links import link, table_path
from app.domain.health.troubles import ALL_TABLES, Kind, Severity, Trouble
from app.domain.model.table import DropAction, TableState
from app.staging.overview import TableFacts

MAX_EACH: Final = 5
"""Tables with the same trouble that are named; the others are counted."""

_MAX_WHY: Final = 400

_LISTS: Final = {
    Kind.TABLE_QUARANTINED: "/console/tables?state=quarantined",
    Kind.TABLE_FAILING: "/console/tables?state=failing",
    Kind.TABLE_PAUSED: "/console/tables?state=paused",
    Kind.BACKLOG: "/console/tables?state=lagging",
    Kind.FABRIC_TABLE: "/console/tables?state=fabric-error",
    Kind.DEAD_LETTERS: "/console/dead-letters",
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


def attention(troubles: Iterable[Trouble]) -> tuple[TroubleView, ...]:
    """Return the entries of the overview for troubles in the order of `app.domain.health.troubles`."""
    return tuple(entry for kind, alike in groupby(troubles, lambda one: one.kind) for entry in _entries(kind, [*alike]))


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


def _entries(kind: Kind, alike: list[Trouble]) -> Iterator[TroubleView]:
    """Yield the first troubles of a kind, and one entry that counts the others."""
    for trouble in alike if kind not in _LISTS else alike[:MAX_EACH]:
        is_table = kind in _LISTS and trouble.subject != ALL_TABLES
        yield _entry(trouble, trouble.subject if is_table else trouble.title, _link(trouble, is_table=is_table))
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
    chip = trouble.subject if trouble.kind in (Kind.PART, Kind.FINDING) else trouble.kind.label
    return TroubleView(
        _style(trouble), chip, title, trouble.detail[:_MAX_WHY], trouble.remedy, path, since=trouble.since
    )


def _link(trouble: Trouble, *, is_table: bool) -> str | None:
    if trouble.kind is Kind.DEAD_LETTERS:
        return link("/console/dead-letters", table=trouble.subject)
    if is_table:
        return table_path(trouble.subject)
    return "/console/doctor" if trouble.kind in (Kind.PART, Kind.FINDING) and trouble.subject != "fabric" else None


def _style(trouble: Trouble) -> str:
    return "bad" if trouble.severity is Severity.CRITICAL else "warn"
