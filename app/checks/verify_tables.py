"""`mirrorgate tables verify` without the terminal: compare the ledger with the files in the landing zone."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from app.checks.zone_claim import check_zone_owner
from app.domain.model.table import FileNumber, Table, TableState
from app.domain.preflight import ZoneCheck
from app.landing.landed_state import marker_mismatch
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.verification import (
    Listing,
    Recorded,
    Report,
    compare_files,
    note_marker,
    note_unexpected,
)
from app.staging.connection.database import Engine, installation_id, translated_errors
from app.staging.ledger.files import LedgerEntry, list_files, recorded_number
from app.staging.tables.registry import find_table_by_id
from mirrorgate.errors import Code, Misconfigured

_PAGE_FILES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Verified:
    """The report on one table; None if the table was dropped or recreated meanwhile."""

    table: Table
    report: Report | None

    def to_json(self) -> dict[str, Any]:
        """Return the report as `mirrorgate tables verify --json` prints it."""
        shown: dict[str, Any] = {"table": str(self.table.name), "generation": self.table.generation}
        if self.report is None:
            return shown | {"skipped": "it is being dropped or recreated"}
        return shown | asdict(self.report)


def require_own_zone(engine: Engine, address: ZoneAddress) -> None:
    """Raise Misconfigured unless the database publishes into this zone: otherwise every file would seem missing."""
    for seen in check_zone_owner(engine, address):
        if seen.instead is not None:
            code = Code.LANDING_ZONE_CHANGED if seen.check is ZoneCheck.KNOWN else Code.LANDING_ZONE_TAKEN
            raise Misconfigured(code, seen.instead)


def files_to_compare(engine: Engine, tables: list[Table]) -> int:
    """Return the maximum number of files in the ledger, for a progress bar."""
    with translated_errors(), engine.begin() as connection:
        return sum(recorded_number(connection, table.table_id) for table in tables)


def verify_table(engine: Engine, address: ZoneAddress, table: Table, on_file: Callable[[], None]) -> Verified:
    """Compare one table's files with the ledger, while drains and Fabric continue. Raise OSError if the store fails.

    The ledger is read before and after the listing, so that a file published meanwhile is neither missing nor
    unexpected. `on_file` is called after each file.
    """
    zone, report = open_zone(address), Report()
    with translated_errors(), engine.begin() as connection:
        owner, last = installation_id(connection), recorded_number(connection, table.table_id)
    listing = Listing(zone, table.name)
    known_from = FileNumber(last + 1)
    files = _recorded(engine, table, last)
    for number in compare_files(zone, listing, files, report, last=last, now=datetime.now(UTC)):
        known_from = min(known_from, number)
        on_file()
    if listing.kinds[table.name.folder] or last:
        note_marker(listing, report, marker_mismatch(zone, table, owner))
    planned = max((entry.number for entry in _pages(engine, table, last)), default=last)
    note_unexpected(listing, report, known_from=known_from, planned_through=planned)
    with translated_errors(), engine.begin() as connection:
        now = find_table_by_id(connection, table.table_id)
    same = now is not None and now.generation == table.generation and now.state is not TableState.DROPPING
    return Verified(table, report if same else None)


def _recorded(engine: Engine, table: Table, last: FileNumber) -> Iterator[Recorded]:
    for entry in _pages(engine, table, FileNumber(0)):
        if entry.number > last:
            return
        yield Recorded(entry.number, entry.file_bytes, entry.file_sha256, entry.published_at)


def _pages(engine: Engine, table: Table, after: FileNumber) -> Iterator[LedgerEntry]:
    while True:
        with translated_errors(), engine.begin() as connection:
            page = list_files(connection, table.table_id, table.generation, after=after, limit=_PAGE_FILES)
        yield from page
        if len(page) < _PAGE_FILES:
            return
        after = page[-1].number
