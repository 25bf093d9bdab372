"""The audit: what was done to keys and tables, and which calls were rejected."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.console.views.attention import address
from app.console.views.paging import PageLinks, links_of
from app.staging.access.audit_events import AuditEvent
from app.staging.connection.page_turn import Page

PATH: Final = "/console/audit"
OUTCOMES: Final = ("any", "done", "rejected")

_MAX_DETAILS: Final = 600


@dataclass(frozen=True, slots=True)
class AuditFilterView:
    """The filter as the user gave it."""

    subject: str
    table: str
    action: str
    outcome: str

    @property
    def parameters(self) -> dict[str, str]:
        """Return the parameters of a link to a page of the same list."""
        outcome = "" if self.outcome == "any" else self.outcome
        return {"subject": self.subject, "table": self.table, "action": self.action, "outcome": outcome}


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An event as the list shows it."""

    happened_at: datetime
    subject: str | None
    action: str
    table: str | None
    table_path: str | None
    generation: int | None
    outcome: str
    code: str | None
    status: int | None
    times: int
    reason: str | None
    details: str
    request_id: str | None


@dataclass(frozen=True, slots=True)
class AuditView:
    """A page of the audit."""

    rows: tuple[AuditRow, ...]
    filter: AuditFilterView
    links: PageLinks
    outcomes: tuple[str, ...] = OUTCOMES


def audit_view(page: Page[AuditEvent], filter_: AuditFilterView) -> AuditView:
    """Return a page of events."""
    return AuditView(tuple(map(_row, page.entries)), filter_, links_of(page, PATH, filter_.parameters))


def _row(event: AuditEvent) -> AuditRow:
    details = json.dumps(event.details, ensure_ascii=False) if event.details else ""
    return AuditRow(
        happened_at=event.happened_at,
        subject=event.subject,
        action=event.action,
        table=event.table,
        table_path=None if event.table is None else address(event.table),
        generation=event.generation,
        outcome="done" if event.code is None else "rejected",
        code=event.code,
        status=event.status,
        times=event.times,
        reason=event.reason,
        details=details if len(details) <= _MAX_DETAILS else f"{details[:_MAX_DETAILS]}…",
        request_id=event.request_id,
    )
