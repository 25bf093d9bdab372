"""The root of the zone: partner events, files outside of tables, names of tables, and hidden leftovers."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.landing.folder_marker import MARKER
from app.landing.publish import PARTNER_EVENTS, SCRATCH
from app.landing.zone import Entry, LandingZone, PathKind
from app.published.table_folders import SCHEMA_SUFFIX, PublishedTable
from app.verify.checks.folder_entries import KEPT_HIDDEN
from app.verify.codes import FindingCode
from app.verify.finding import Finding

MAX_TABLES: Final = 1_000

_MAX_EVENT_BYTES: Final = 2**20
_MAX_DEPTH: Final = 4


@dataclass(frozen=True, slots=True)
class ZoneView:
    """The zone at the moment of its listing."""

    zone: LandingZone
    tables: Sequence[PublishedTable]
    now: datetime


def partner_events(view: ZoneView) -> Iterator[Finding]:
    """Check the file that names the publisher."""
    kind = view.zone.kind(PARTNER_EVENTS)
    if kind is PathKind.ABSENT:
        yield Finding(FindingCode.PARTNER_EVENTS_MISSING, f"the root has no {PARTNER_EVENTS}", file=PARTNER_EVENTS)
    elif (problem := _events_problem(view.zone, kind)) is not None:
        yield Finding(FindingCode.PARTNER_EVENTS_DAMAGED, problem, file=PARTNER_EVENTS)


def outside_tables(view: ZoneView) -> Iterator[Finding]:
    """Find files and special entries at the root and in schema folders, and schema folders without a table."""
    schemas = [
        name
        for name, kind in view.zone.kinds("").items()
        if kind is PathKind.FOLDER and name.lower().endswith(SCHEMA_SUFFIX) and not name.startswith(("_", "."))
    ]
    used = {table.folder.rpartition("/")[0] for table in view.tables}
    for folder in ["", *sorted(schemas)]:
        for name, kind in sorted(view.zone.kinds(folder).items()):
            path = f"{folder}/{name}" if folder else name
            if kind is PathKind.SPECIAL:
                yield Finding(FindingCode.SPECIAL_ENTRY, "it is neither a regular file nor a folder", file=path)
            elif kind is PathKind.FILE and not name.startswith("_"):
                yield Finding(FindingCode.FILE_OUTSIDE_TABLE, "it is in no table folder", file=path)
        if folder and folder not in used:
            yield Finding(FindingCode.EMPTY_SCHEMA_FOLDER, f"folder {folder} has no table folder", file=folder)


def table_names(view: ZoneView) -> Iterator[Finding]:
    """Check the number of tables, and that their names differ in more than letter case."""
    if len(view.tables) > MAX_TABLES:
        yield Finding(FindingCode.TOO_MANY_TABLES, f"the zone has {len(view.tables):,} tables")
    same: defaultdict[str, list[PublishedTable]] = defaultdict(list)
    for table in view.tables:
        same[str(table).casefold()].append(table)
    for tables in same.values():
        if len(tables) > 1:
            folders = ", ".join(table.folder for table in tables)
            yield Finding(FindingCode.TABLE_NAMES_DIFFER_IN_CASE, f"folders {folders}", str(tables[0]))


def old_scratch(view: ZoneView) -> Iterator[Finding]:
    """Find hidden files at the root and in `_scratchPad` that somebody began to write long ago."""
    old = [path for path, entry in _hidden(view.zone, "", 0) if _is_leftover(path, entry, view.now)]
    if old:
        detail = f"hidden files older than 7 days: {len(old):,}"
        yield Finding(FindingCode.OLD_HIDDEN_FILES, detail, file=min(old))


ZONE_CHECKS: Final[tuple[Callable[[ZoneView], Iterator[Finding]], ...]] = (
    partner_events,
    outside_tables,
    table_names,
    old_scratch,
)


def _events_problem(zone: LandingZone, kind: PathKind) -> str | None:
    """Return what is wrong with `_partnerEvents.json`, None if nothing is."""
    if kind is not PathKind.FILE:
        return "it is not a file"
    with zone.read_file(PARTNER_EVENTS) as file:
        content = file.read(_MAX_EVENT_BYTES)
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return "it is not JSON in UTF-8"
    source = found.get("sourceInfo") if isinstance(found, dict) else None
    if not isinstance(source, dict) or not isinstance(found.get("partnerName"), str):
        return "it is not an object with partnerName and sourceInfo"
    return None if isinstance(source.get("sourceType"), str) else "sourceInfo has no sourceType"


def _hidden(zone: LandingZone, folder: str, depth: int) -> Iterator[tuple[str, Entry]]:
    """Yield the files below a folder whose path has a hidden part."""
    for name, entry in zone.entries(folder).items():
        path = f"{folder}/{name}" if folder else name
        if not folder and not name.startswith("_"):
            continue
        if entry.kind is PathKind.FILE:
            yield path, entry
        elif entry.kind is PathKind.FOLDER and depth < _MAX_DEPTH:
            yield from _hidden(zone, path, depth + 1)


def _is_leftover(path: str, entry: Entry, now: datetime) -> bool:
    """Return whether a file is old. A gateway's own markers stay: empty files, and the owner of the zone."""
    is_marker = path in (PARTNER_EVENTS, f"{SCRATCH}/{MARKER}") or entry.size == 0
    return not is_marker and entry.modified is not None and now - entry.modified > KEPT_HIDDEN
