"""Rejections counted by the minute, so that no caller can make the audit long: pure, one process's share.

Whatever a caller may choose freely is bounded: a caller is told apart by its key, never by what it claims to be; the
tables that it names only up to a number; and all rejections of a minute up to another. Beyond, they are counted
together.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

MAX_TABLES: Final = 20
"""Tables told apart of one caller in a minute, the same one under another action counted again."""

MAX_REJECTIONS: Final = 1_000
"""Rejections told apart in a minute."""

ANY_ACTION: Final = "*"


@dataclass(frozen=True, slots=True)
class Rejection:
    """A call that was rejected. `action` is its method and route, `table` the folded name that it was about."""

    action: str
    status: int
    code: str
    subject: str | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class CountedRejection:
    """How often something was rejected in the minute that began then; the request id is the first one's."""

    minute: datetime
    rejection: Rejection
    times: int
    request_id: str | None


@dataclass(slots=True)
class RejectionCounter:
    """Counts rejections until they are taken out to be stored."""

    _minute: datetime | None = None
    _told_apart: set[Rejection] = field(default_factory=set)
    _tables: dict[str | None, set[Rejection]] = field(default_factory=dict)
    _counted: dict[tuple[datetime, Rejection], CountedRejection] = field(default_factory=dict)

    def note(self, rejection: Rejection, now: datetime, request_id: str | None) -> None:
        minute = now.replace(second=0, microsecond=0)
        if minute != self._minute:
            self._minute = minute
            self._told_apart.clear()
            self._tables.clear()
        self._add(CountedRejection(minute, self._bounded(rejection), 1, request_id))

    def take(self) -> list[CountedRejection]:
        """What was counted since the last time."""
        taken = [*self._counted.values()]
        self._counted.clear()
        return taken

    def put_back(self, taken: list[CountedRejection]) -> None:
        """What could not be stored is counted with what has come since."""
        for counted in taken:
            full = len(self._counted) >= MAX_REJECTIONS
            self._add(replace(counted, rejection=_coarse(counted.rejection)) if full else counted)

    def _add(self, more: CountedRejection) -> None:
        key = (more.minute, more.rejection)
        known = self._counted.get(key)
        self._counted[key] = more if known is None else replace(known, times=known.times + more.times)

    def _bounded(self, rejection: Rejection) -> Rejection:
        if rejection.table is not None:
            with_tables = self._tables.setdefault(rejection.subject, set())
            if rejection in with_tables or len(with_tables) < MAX_TABLES:
                with_tables.add(rejection)
            else:
                rejection = replace(rejection, table=None)
        full = len(self._told_apart) >= MAX_REJECTIONS or len(self._counted) >= MAX_REJECTIONS
        if rejection not in self._told_apart and full:
            return _coarse(rejection)
        self._told_apart.add(rejection)
        return rejection


def _coarse(rejection: Rejection) -> Rejection:
    """The rejection without anything but its status and code."""
    return Rejection(ANY_ACTION, rejection.status, rejection.code)
