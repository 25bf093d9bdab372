"""The bond between a database and its landing zone: claim the zone, check both, move to another, compare the files.

The zone names its gateway and itself in `_scratchPad/_gateway.json`, and the database remembers the zone's id. The row
lock of the installation keeps two drains of one database from claiming different zones at the same moment.

`verify_table` compares the files of a table with the ledger, for `mirrorgate tables verify`.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from app.domain.model.table import FileNumber, Table, TableState
from app.domain.preflight import Seen, ZoneCheck
from app.domain.publication import KnownZone
from app.landing.adls.retries import TransientStorageError
from app.landing.landed_state import marker_mismatch
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.verification import Listing, Recorded, Report, compare_files, note_marker, note_unexpected
from app.landing.zone import ScratchRevoked
from app.landing.zone_owner import check_owner, claim_zone
from app.staging.connection.database import Engine, installation_id, translated_errors
from app.staging.connection.schema_revision import present_installation
from app.staging.ledger.files import LedgerEntry, list_files, recorded_number
from app.staging.ledger.leases import end_all_epochs, known_zone, lock_known_zone, present_zone, remember_zone
from app.staging.ledger.reports import forget_former_zone
from app.staging.tables.registry import find_table_by_id
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, StorageError, TemporarilyUnavailable


def claim_landing_zone(engine: Engine, address: ZoneAddress) -> KnownZone:
    """Claim the zone for this database and remember its id and address; return them.

    A process that dies inside leaves a zone that names this gateway, which the next start remembers. Raise
    Misconfigured `landing_zone_taken`, `landing_zone_changed`, or `landing_zone_unusable` if it cannot be written.
    """
    with translated_errors(), engine.begin() as connection:
        owner, known = installation_id(connection), known_zone(connection)
    try:
        if known is not None:  # checked without the lock, so that drains that start together do not wait for each other
            zone = claim_zone(address, owner, known)
            if zone != known:
                with translated_errors(), engine.begin() as connection:
                    remember_zone(connection, zone)
            return zone
        with translated_errors(), engine.begin() as connection:
            zone = claim_zone(address, owner, lock_known_zone(connection))
            remember_zone(connection, zone)
    except (OSError, ScratchRevoked) as error:
        raise _unusable(address, error) from error
    return zone


def move_landing_zone(engine: Engine, address: ZoneAddress) -> tuple[KnownZone | None, KnownZone]:
    """Publish into another zone from now on; return the former and the new one. Safe to repeat.

    Every epoch ends, so a drain that still runs on the former zone records nothing more. What Fabric said of the former
    zone's database and tables is forgotten. A process that dies inside
    leaves a zone that names this gateway, and everything else as it was. Raise as `claim_landing_zone` does.
    """
    try:
        with translated_errors(), engine.begin() as connection:
            former = lock_known_zone(connection)
            zone = claim_zone(address, installation_id(connection), former=former)
            remember_zone(connection, zone)
            if former is not None and former.zone_id != zone.zone_id:
                end_all_epochs(connection)
                forget_former_zone(connection)
    except (OSError, ScratchRevoked) as error:
        raise _unusable(address, error) from error
    return former, zone


def check_zone_owner(engine: Engine, address: ZoneAddress) -> list[Seen]:
    """Check whether database and landing zone belong together. Raise Misconfigured, TemporarilyUnavailable, OSError."""
    return check_owner(address, present_installation(engine), present_zone(engine))


def _unusable(address: ZoneAddress, error: Exception) -> MirrorgateError:
    detail = f"landing zone {address.location}: {error}"
    meaning = error.meaning if isinstance(error, StorageError) else Code.STORAGE_FAILED
    remedy = meaning.remedy if meaning is not Code.STORAGE_FAILED else None
    if isinstance(error, TransientStorageError):  # its service is unreachable, and may be back at the next start
        return TemporarilyUnavailable(Code.NOT_READY, detail, remedy=remedy)
    return Misconfigured(Code.LANDING_ZONE_UNUSABLE, detail, remedy=remedy)


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
