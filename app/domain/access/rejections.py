"""Refusals counted by the minute, so that no caller can make the audit long: pure, one process's share.

Whatever a caller may choose freely is bounded: a caller is told apart by its key, never by what it claims to be; the
tables that it names only up to a number; and all refusals of a minute up to another. Beyond, they are counted together.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

MOST_TABLES: Final = 20
"""Tables told apart of one caller in a minute, the same one under another action counted again."""

MOST_REFUSALS: Final = 1_000
"""Refusals told apart in a minute."""

ANY_ACTION: Final = "*"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that was refused. `action` is its method and route, `table` the folded name that it was about."""

    action: str
    status: int
    code: str
    subject: str | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class CountedRefusal:
    """How often something was refused in the minute that began then; the request id is the first one's."""

    minute: datetime
    refusal: Refusal
    times: int
    request_id: str | None


@dataclass(slots=True)
class RefusalBook:
    """Counts refusals until they are taken out to be stored."""

    _minute: datetime | None = None
    _told_apart: set[Refusal] = field(default_factory=set)
    _tables: dict[str | None, set[Refusal]] = field(default_factory=dict)
    _counted: dict[tuple[datetime, Refusal], CountedRefusal] = field(default_factory=dict)

    def note(self, refusal: Refusal, now: datetime, request_id: str | None) -> None:
        minute = now.replace(second=0, microsecond=0)
        if minute != self._minute:
            self._minute = minute
            self._told_apart.clear()
            self._tables.clear()
        self._add(CountedRefusal(minute, self._bounded(refusal), 1, request_id))

    def take(self) -> list[CountedRefusal]:
        """What was counted since the last time."""
        taken = [*self._counted.values()]
        self._counted.clear()
        return taken

    def put_back(self, taken: list[CountedRefusal]) -> None:
        """What could not be stored is counted with what has come since."""
        for counted in taken:
            full = len(self._counted) >= MOST_REFUSALS
            self._add(replace(counted, refusal=_coarse(counted.refusal)) if full else counted)

    def _add(self, more: CountedRefusal) -> None:
        key = (more.minute, more.refusal)
        known = self._counted.get(key)
        self._counted[key] = more if known is None else replace(known, times=known.times + more.times)

    def _bounded(self, refusal: Refusal) -> Refusal:
        if refusal.table is not None:
            with_tables = self._tables.setdefault(refusal.subject, set())
            if refusal in with_tables or len(with_tables) < MOST_TABLES:
                with_tables.add(refusal)
            else:
                refusal = replace(refusal, table=None)
        full = len(self._told_apart) >= MOST_REFUSALS or len(self._counted) >= MOST_REFUSALS
        if refusal not in self._told_apart and full:
            return _coarse(refusal)
        self._told_apart.add(refusal)
        return refusal


def _coarse(refusal: Refusal) -> Refusal:
    """The refusal without anything but its status and code."""
    return Refusal(ANY_ACTION, refusal.status, refusal.code)
