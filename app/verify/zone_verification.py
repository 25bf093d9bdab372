"""One run of all checks over a landing zone, table by table, in memory that does not grow with the tables' rows."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from app.landing.publish import METADATA, PARTNER_EVENTS, SCRATCH
from app.landing.zone import LandingZone, PathKind
from app.published.table_files import PublishedTable, list_files, list_tables
from app.verify.checks.folders import ZONE_CHECKS, ZoneView
from app.verify.finding import Finding, guarded
from app.verify.table_verification import ROW_CHECKS, RowCheckFactory, SharedColumns, TableVerification
from mirrorgate.errors import Code, Misconfigured

Progress = Callable[[str, float, int], None]
"""Called with the name of the table, the number of tables done with fractions, and the number of tables."""

_SAMPLES: Final = 5


class ZoneVerification:
    """Verification of a landing zone, once or repeatedly: later runs read only what is new or changed."""

    def __init__(
        self,
        zone: LandingZone,
        *,
        tables: Sequence[str] = (),
        row_checks: Sequence[RowCheckFactory] = ROW_CHECKS,
        keep: bool = False,
    ) -> None:
        """Read nothing. `tables` limits the checks to some tables, `keep` remembers what was read for the next run."""
        self.tables = 0
        """Tables that the last run checked."""
        self.names: tuple[str, ...] = ()
        """Their names."""
        self.files = 0
        """Data files in them."""
        self._zone = zone
        self._wanted = tuple(tables)
        self._row_checks = row_checks
        self._keep = keep
        self._shared: SharedColumns = {}
        self._known: dict[str, TableVerification] = {}

    def run(self, now: datetime, progress: Progress) -> Iterator[Finding]:
        """Yield every finding. Raise Misconfigured for an unknown table, and OSError if the root cannot be listed."""
        tables = self._tables()
        self.tables, self.files = len(tables), 0
        self.names = tuple(map(str, tables))
        if not self._wanted:
            view = ZoneView(self._zone, tables, now)
            for check in ZONE_CHECKS:
                yield from guarded(partial(check, view), check.__name__)
        self._forget_all_but(tables)
        for position, table in enumerate(tables):
            yield from self._table(table, position, now, progress)
        if tables:
            progress("", len(tables), len(tables))

    def close(self) -> None:
        """Free what was kept for the next run."""
        self._forget_all_but([])

    def _table(self, table: PublishedTable, position: int, now: datetime, progress: Progress) -> Iterator[Finding]:
        def files_done(done: int, total: int) -> None:
            progress(str(table), position + done / max(total, 1), self.tables)

        files_done(0, 1)
        verification = self._known.get(table.folder)
        if verification is None:
            verification = TableVerification(self._zone, table, self._row_checks, self._shared)
        if self._keep:
            self._known[table.folder] = verification
        try:
            yield from verification.run(now, files_done)
            self.files += verification.files
        finally:
            if not self._keep:
                verification.close()

    def _tables(self) -> list[PublishedTable]:
        tables = list_tables(self._zone)
        if not self._wanted:
            return tables
        by_name = {str(table).casefold(): table for table in tables}
        if missing := [name for name in self._wanted if name.casefold() not in by_name]:
            known = ", ".join(sorted(map(str, tables))[:_SAMPLES]) or "none"
            raise Misconfigured(
                Code.UNKNOWN_TABLE,
                f"the zone has no table {', '.join(missing)}",
                remedy=f"Name a table as `schema.table` or `table`. The zone has {len(tables):,}: {known}"
                + (", …" if len(tables) > _SAMPLES else "."),
            )
        return [by_name[name] for name in dict.fromkeys(name.casefold() for name in self._wanted)]

    def _forget_all_but(self, tables: Sequence[PublishedTable]) -> None:
        present = {table.folder for table in tables}
        for folder in [folder for folder in self._known if folder not in present]:
            self._known.pop(folder).close()


def require_landing_zone(zone: LandingZone, location: str) -> None:
    """Raise Misconfigured `landing_zone_unusable` unless something at the root looks like a landing zone, or OSError.

    An empty folder is none: a wrong address would otherwise pass as a zone without a fault.
    """
    kind = zone.kind("")
    if kind is not PathKind.FOLDER:
        found = "there is nothing" if kind is PathKind.ABSENT else "there is no folder"
        raise _no_zone(f"{found} at {location}", "Give the folder or address of a landing zone.")
    root = zone.kinds("")
    if METADATA in root:
        raise _no_zone(f"{location} is a table folder", "Give the folder above it, and name the table with --table.")
    if PARTNER_EVENTS in root or SCRATCH in root or any(_is_table(zone, table) for table in list_tables(zone)):
        return
    inside = next((path for path in ("LandingZone", "Files/LandingZone") if zone.kind(path) is PathKind.FOLDER), None)
    hint = f"Did you mean {location.rstrip('/')}/{inside}?" if inside else "Give the folder that has the table folders."
    raise _no_zone(f"{location} has no table folder: no {METADATA} and no data file", hint)


def _is_table(zone: LandingZone, table: PublishedTable) -> bool:
    files = list_files(zone, table)
    return METADATA in files.kinds or bool(files.numbered or files.unnumbered)


def _no_zone(detail: str, remedy: str) -> Misconfigured:
    return Misconfigured(Code.LANDING_ZONE_UNUSABLE, detail, remedy=remedy)
