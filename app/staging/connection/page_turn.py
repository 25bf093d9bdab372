"""Pages of a list that is ordered by id, newest first: which entries a page has, and where the next ones begin.

A page is found by the id at its edge, not by its number, so entries that arrive while a user reads shift nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import sqlalchemy as sa

_Entry = TypeVar("_Entry")

_BEYOND_ALL: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Turn:
    """Page of a list: entries before an id, after an id, or the newest ones."""

    before: int | None = None
    after: int | None = None
    """Counts if both are given."""

    @property
    def older_than(self) -> int:
        """Return the id before which the entries are."""
        return _BEYOND_ALL if self.before is None else self.before


def read_turn(
    connection: sa.Connection, older: sa.TextClause, newer: sa.TextClause, turn: Turn, parameters: Mapping[str, object]
) -> Sequence[sa.Row[Any]]:
    """Return the rows of a page, newest first.

    `older` reads rows before the id `before`, newest first, and `newer` those after the id `after`, oldest first.
    """
    if turn.after is not None:
        return connection.execute(newer, {**parameters, "after": turn.after}).all()[::-1]
    return connection.execute(older, {**parameters, "before": turn.older_than}).all()


@dataclass(frozen=True, slots=True)
class Page(Generic[_Entry]):
    """The entries of a page, newest first, and the ids at its edges; None where nothing follows."""

    entries: tuple[_Entry, ...]
    newer_after: int | None
    older_before: int | None


def cut_page(found: Sequence[_Entry], turn: Turn, size: int, id_of: Callable[[_Entry], int]) -> Page[_Entry]:
    """Return a page of `size` entries, of up to `size + 1` that were read for the turn, newest first."""
    is_more = len(found) > size
    if turn.after is not None:
        entries = tuple(found[-size:])
        is_newer, is_older = is_more, True
    else:
        entries = tuple(found[:size])
        is_newer, is_older = turn.before is not None, is_more
    if not entries:
        return Page((), None, None)
    return Page(entries, id_of(entries[0]) if is_newer else None, id_of(entries[-1]) if is_older else None)
