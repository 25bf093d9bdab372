"""The head of each page of a table: its name, generation and state, and the tabs that the user may open."""

from dataclasses import dataclass
from typing import Final

from app.console.views.attention import address
from app.domain.model.table import Table

FRAGMENTS: Final = "/console/fragments"

_TABS: Final = (("Status", ""), ("Files", "/files"), ("Schema", "/schema"), ("Rows", "/rows"))
_ADMIN_TABS: Final = (("Events", "/events"),)


@dataclass(frozen=True, slots=True)
class TabView:
    """A page of the table."""

    label: str
    link: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class TableHead:
    """What each page of a table begins with."""

    name: str
    path: str
    """The address of the table's first page; those of its other pages begin with it."""
    generation: int | None
    """None for a table that is gone; its events stay."""
    state: str | None
    tabs: tuple[TabView, ...]


def head_of(name: str, table: Table | None, current: str, *, is_admin: bool) -> TableHead:
    """Return the head of a page of a table, and the tabs that its users may open; None for a table that is gone."""
    path = address(name)
    tabs = (_TABS if table is not None else ()) + (_ADMIN_TABS if is_admin else ())
    return TableHead(
        name=name,
        path=path,
        generation=None if table is None else table.generation,
        state=None if table is None else table.state.value,
        tabs=tuple(TabView(label, path + suffix, label == current) for label, suffix in tabs),
    )
