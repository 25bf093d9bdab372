"""W3: compare the ledger with the table's folder, before the new owner publishes anything.

After a crash the ledger is at most one file behind. After a restore of the database to an older point it can be any
number of files behind, and Fabric may have consumed them: publishing under such a number would land rows twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

import structlog

from app.domain.model.landing_file import BuiltFile, PlannedFile
from app.domain.model.table import Epoch, FileNumber, Table
from app.landing.folder_marker import require_marker
from app.landing.landed_state import (
    facts_at_number,
    identity_at_number,
    numbers_beyond,
    recover_visible_file,
    unknown_files,
)
from app.landing.zone import LandingZone
from app.staging.connection.database import Connection, Engine
from app.staging.ledger.files import is_build_registered, recorded_number, register_builds, unrecorded_files
from app.staging.ledger.leases import Claim, check_epoch
from app.staging.ledger.planning import adopt_file

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Brings the ledger of a table up to the files in the landing zone, or stops the table."""

    engine: Engine
    zone: LandingZone
    installation_id: UUID
    record: Callable[[Mapping[PlannedFile, Epoch]], None]
    """Records visible files (W8)."""

    def run(self, table: Table, epoch: Epoch) -> None:
        """Record each file beyond the ledger that the ledger's own batches made; reject any other file.

        A process that dies inside leaves the rest to the next owner. Raise InvariantBroken `foreign_file`,
        `landing_folder_lost`, or `ledger_behind_zone` with the numbers that were found.
        """
        with self.engine.begin() as connection:
            check_epoch(connection, table.table_id, epoch)
            recorded = recorded_number(connection, table.table_id)
            unrecorded = _next_unrecorded(connection, table)
        seen = numbers_beyond(self.zone, table.name, recorded)
        while recover_visible_file(self.zone, table, self.installation_id, unrecorded) and unrecorded is not None:
            recorded, unrecorded = self._record_found(table, unrecorded, epoch)
        while ahead := [number for number in seen if number > recorded]:
            require_marker(self.zone, table, self.installation_id)
            adopted = None if unrecorded is not None else self._adopt(table, epoch, ahead, recorded)
            if adopted is None:
                raise unknown_files(self.zone, table.name, table.generation, recorded, ahead)
            recorded, unrecorded = self._record_found(table, adopted, epoch)

    def _adopt(self, table: Table, epoch: Epoch, ahead: list[FileNumber], recorded: FileNumber) -> PlannedFile | None:
        """Plan the file under the next number as it is; return None if the pending batches do not prove its identity.

        A process that dies after the commit leaves a planned, visible file, which W3 of the next owner records.
        """
        identity = identity_at_number(self.zone, table.name, ahead[0]) if ahead[0] == recorded + 1 else None
        if identity is None:
            return None
        with self.engine.begin() as connection:
            adopted = adopt_file(connection, Claim(table, epoch), identity)
        if adopted is not None:
            log.warning("file_adopted", table=str(table.name), generation=table.generation, number=ahead[0])
        return adopted

    def _record_found(self, table: Table, planned: PlannedFile, epoch: Epoch) -> tuple[FileNumber, PlannedFile | None]:
        """Record a planned file that is visible; return its number, and the next planned file that is not recorded."""
        with self.engine.begin() as connection:
            known = is_build_registered(connection, planned)
        if not known:  # only after a restore: the build was registered after the backup
            facts = facts_at_number(self.zone, table.name, planned.identity.number)
            found = BuiltFile(planned, epoch, "found", facts.file_bytes, facts.sha256)
            with self.engine.begin() as connection:
                register_builds(connection, [found])
        self.record({planned: epoch})
        with self.engine.begin() as connection:
            return planned.identity.number, _next_unrecorded(connection, table)


def _next_unrecorded(connection: Connection, table: Table) -> PlannedFile | None:
    return next(iter(unrecorded_files(connection, table, limit=1)), None)
