"""What operators and the drain did to the tables of a name, the newest first."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.console.views.table.head import TableHead
from app.staging.tables.events import TableEvent

PAGE_EVENTS: Final = 50
NEWEST: Final = 2**63 - 1
"""Every event id is smaller."""

_MAX_DETAILS: Final = 400


@dataclass(frozen=True, slots=True)
class EventView:
    """An event, with its details as one line."""

    event: TableEvent
    details: str


@dataclass(frozen=True, slots=True)
class EventsView:
    """A page of events."""

    head: TableHead
    events: tuple[EventView, ...]
    newest: str | None
    older: str | None


def events_page(head: TableHead, found: Sequence[TableEvent], *, is_newest: bool) -> EventsView:
    """Return a page of events."""
    link = f"{head.path}/events"
    return EventsView(
        head=head,
        events=tuple(EventView(event, _details(event)) for event in found),
        newest=None if is_newest else link,
        older=f"{link}?before={found[-1].event_id}" if len(found) == PAGE_EVENTS else None,
    )


def _details(event: TableEvent) -> str:
    known = {name: value for name, value in event.details.items() if value not in (None, 0)}
    shown = json.dumps(known, ensure_ascii=False) if known else ""
    return shown if len(shown) <= _MAX_DETAILS else shown[:_MAX_DETAILS] + "…"
