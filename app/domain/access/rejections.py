"""Counts rejected calls by the minute, so that no caller can make the audit long.

Everything that a caller can choose freely is bounded: callers are told apart by their key, never by what they claim to
be; the tables that one names up to MAX_TABLES, and all rejections of a minute up to MAX_REJECTIONS. Those beyond a
limit are counted together.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

MAX_TABLES: Final = 20
"""Tables of one caller that are counted separately in a minute; one under another action counts again."""

MAX_REJECTIONS: Final = 1_000
"""Rejections that are counted separately in a minute."""

ANY_ACTION: Final = "*"


class AuditOutcome(StrEnum):
    """The outcome of an audited operation or call."""

    DONE = "done"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected call. `action` is its method and route, `table` the folded name of the table that it named."""

    action: str
    status: int
    code: str
    subject: str | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class CountedRejection:
    """The number of rejections of a call in one minute, with the request id of the first one."""

    minute: datetime
    rejection: Rejection
    times: int
    request_id: str | None


@dataclass(slots=True)
class RejectionCounter:
    """Counter of rejections, until they are taken to be stored."""

    _minute: datetime | None = None
    _separate: set[Rejection] = field(default_factory=set)
    _tables: dict[str | None, set[Rejection]] = field(default_factory=dict)
    _counted: dict[tuple[datetime, Rejection], CountedRejection] = field(default_factory=dict)

    def note(self, rejection: Rejection, now: datetime, request_id: str | None) -> None:
        """Count one rejection."""
        minute = now.replace(second=0, microsecond=0)
        if minute != self._minute:
            self._minute = minute
            self._separate.clear()
            self._tables.clear()
        self._add(CountedRejection(minute, self._bounded(rejection), 1, request_id))

    def take(self) -> list[CountedRejection]:
        """Return and remove what was counted since the last call."""
        taken = [*self._counted.values()]
        self._counted.clear()
        return taken

    def put_back(self, taken: list[CountedRejection]) -> None:
        """Count again what could not be stored, together with what was counted since."""
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
        full = len(self._separate) >= MAX_REJECTIONS or len(self._counted) >= MAX_REJECTIONS
        if rejection not in self._separate and full:
            return _coarse(rejection)
        self._separate.add(rejection)
        return rejection


def _coarse(rejection: Rejection) -> Rejection:
    """Return the rejection with its status and code only."""
    return Rejection(ANY_ACTION, rejection.status, rejection.code)
