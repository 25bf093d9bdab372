"""Source routing: which table a source feeds, among those that have its name in any letter case."""

from collections.abc import Sequence
from typing import NamedTuple

from app.domain.model.source_name import SourceName
from app.domain.model.table import Table


class Route(NamedTuple):
    """Where a source's changes go."""

    table: Table | None
    twin: Table | None = None
    """A table whose name, or a name in its option `sources`, differs from the source's in letter case only."""


def route(source: SourceName, candidates: Sequence[Table]) -> Route:
    """Return the table that a source feeds: one whose option `sources` names it, else the one with its name.

    `candidates` are the tables with that name or source in any letter case. Letter case counts, except for callers'
    names of tables.
    """
    names = [source] if source.catalog is None else [source, source.without_catalog]
    for any_case in (False, True):
        if any_case and not source.any_case:
            break
        for name in names:
            for table in candidates:
                if any(_is(name, given, any_case=any_case) for given in sources_of(table)):
                    return Route(table)
        for table in candidates:
            if any(_is(names[-1], own, any_case=any_case) for own in _names_of(table)):
                return Route(table)
    return Route(None, candidates[0] if candidates else None)


def sources_of(table: Table) -> list[SourceName]:
    """Return the names that the table's option `sources` has."""
    return [SourceName.parse(text) for text in table.options.sources]


def is_named(table: Table, source: SourceName) -> bool:
    """Tell whether the table's option `sources` has exactly this name."""
    return any(_is(source, given, any_case=False) for given in sources_of(table))


def case_detail(source: SourceName, twin: Table) -> str:
    """Return the error text for a source whose name differs from a registered one in letter case only."""
    return (
        f"the source {source.without_catalog} does not feed table {twin.name}, because their names differ in letter "
        "case"
    )


def _names_of(table: Table) -> list[SourceName]:
    """Return the table's own name, and the one that it is being renamed to."""
    renamed = table.drop_plan.new_name if table.drop_plan else None
    return [SourceName(None, name.schema, name.table) for name in (table.name, renamed) if name is not None]


def _is(one: SourceName, other: SourceName, *, any_case: bool) -> bool:
    return one.folded == other.folded if any_case else one[:3] == other[:3]
