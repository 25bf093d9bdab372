"""What each error code means and what to do about it: the only source of docs/errors.md.

Each module holds the entries of one subject: `requests` (HTTP), `access` (callers), `bodies` (syntax and messages),
`rows` (changes against their table), `tables` (schemas, states, generations), `loads` (load sessions), `repeats`
(idempotency and dead letters), `availability`, `setup` (what keeps a process from starting), `publication` (the drain),
`mirror` (the Delta mirror), `bridges` (sources of the bridges) and `fabric` (Fabric's API). `CATALOGUE` merges them.
Invariant: every code has exactly one entry; the import fails otherwise.
"""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.access import ACCESS
from app.errors.catalogue.availability import AVAILABILITY
from app.errors.catalogue.bodies import BODIES
from app.errors.catalogue.bridges import BRIDGES
from app.errors.catalogue.entry import Entry
from app.errors.catalogue.fabric import FABRIC
from app.errors.catalogue.loads import LOADS
from app.errors.catalogue.mirror import MIRROR
from app.errors.catalogue.publication import PUBLICATION
from app.errors.catalogue.repeats import REPEATS
from app.errors.catalogue.requests import REQUESTS
from app.errors.catalogue.rows import ROWS
from app.errors.catalogue.setup import SETUP
from app.errors.catalogue.tables import TABLES
from app.errors.codes import Code

__all__ = ["CATALOGUE", "SUBJECTS", "Entry"]

SUBJECTS: Final[Mapping[str, Mapping[Code, Entry]]] = {
    "The request": REQUESTS,
    "The caller": ACCESS,
    "Bodies and messages": BODIES,
    "Changes and values": ROWS,
    "Tables and schemas": TABLES,
    "Load sessions": LOADS,
    "Repeated requests and dead letters": REPEATS,
    "Availability": AVAILABILITY,
    "Setup": SETUP,
    "Publication": PUBLICATION,
    "The Delta mirror": MIRROR,
    "Bridges": BRIDGES,
    "Fabric": FABRIC,
}
"""The entries by subject, in the order of docs/errors.md."""


def _merged() -> dict[Code, Entry]:
    merged = {code: entry for entries in SUBJECTS.values() for code, entry in entries.items()}
    if missing := [code for code in Code if code not in merged]:
        raise LookupError(f"codes without an entry in the catalogue: {', '.join(missing)}")
    if len(merged) != sum(map(len, SUBJECTS.values())):
        raise LookupError("a code has two entries in the catalogue")
    return merged


CATALOGUE: Final[Mapping[Code, Entry]] = _merged()
"""The one entry of every code."""
