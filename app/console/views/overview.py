"""The overview: is the gateway well, and what needs attention first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.domain.preflight.readiness import OK

_LABELS: Final = {
    "api": "API",
    "database": "Postgres",
    "writer": "Writer",
    "drain": "Drains",
    "tables": "Tables",
    "backlog": "Backlog",
    "mirror": "Mirrors",
    "fabric": "Fabric",
    "clock": "Clocks",
}


@dataclass(frozen=True, slots=True)
class PartView:
    """A part of the gateway: `ok`, or what is wrong with it."""

    label: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class OverviewView:
    """The overview as its template prints it."""

    parts: tuple[PartView, ...]


def parts_of(parts: Mapping[str, str]) -> tuple[PartView, ...]:
    """Return the parts of the gateway as `/statusz` names them, those with trouble first."""
    views = [PartView(_LABELS.get(name, name.capitalize()), state == OK, state) for name, state in parts.items()]
    return tuple(sorted(views, key=lambda part: part.ok))
