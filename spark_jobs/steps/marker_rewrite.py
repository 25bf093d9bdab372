"""Rewrite of a damaged or lost `_gateway.json`, when an operator asked for it and the folder proves to be the table's.

The proof is what only this ledger knows: the last recorded file is there with its size and digest, visible or
consumed, and none of the ledger's newest numbers has other content. A file that an operator asked to repair proves
nothing and disproves nothing, because the repair waits for the marker; another file has to prove the folder instead.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

import structlog

from app.domain.model.table import Epoch, FileNumber, Table
from app.errors import Code, InvariantBroken
from app.landing.folder_marker import MARKER, FolderMarker, is_marker_damaged
from app.landing.landed_state import difference, find_file, numbers_beyond
from app.landing.publish import Scratch
from app.landing.zone import LandingZone, PathKind
from app.staging.connection.database import Engine
from app.staging.ledger.files import LedgerEntry, list_files, numbers_to_repair, recorded_number
from app.staging.tables.quarantine_release import end_marker_rewrite, is_marker_to_be_rewritten

log = structlog.get_logger()

MAX_PROOF_FILES: Final = 20
"""Only the newest files are compared with the ledger: reading all files of a large table would take hours."""

_REPAIR_FIRST: Final = "if the folder is the table's own, ask for the file's repair, then release again"


@dataclass(frozen=True, slots=True)
class MarkerRewrite:
    """Carries out requests for new markers in one landing zone."""

    engine: Engine
    zone: LandingZone
    installation_id: UUID

    def run(self, table: Table, epoch: Epoch) -> None:
        """Write the marker if it was requested and is damaged. A process that dies inside leaves the request.

        Raise InvariantBroken `landing_folder_lost` when the folder does not prove to be the table's.
        """
        with self.engine.begin() as connection:
            if not is_marker_to_be_rewritten(connection, table.table_id):
                return
            recorded = recorded_number(connection, table.table_id)
            after = FileNumber(max(0, recorded - MAX_PROOF_FILES))
            files = list_files(connection, table.table_id, table.generation, after=after, limit=MAX_PROOF_FILES)
            broken = numbers_to_repair(connection, table, after=after)
        whole = [entry for entry in files if entry.number <= recorded and entry.number not in broken]
        rejection = self._unproven(table, recorded, whole)
        if rejection is None and is_marker_damaged(self.zone, table.name.folder):
            prepared = Scratch(table.table_id, epoch).path(f"{MARKER}-{uuid4().hex}")
            self.zone.create_file(prepared, FolderMarker.of(table, self.installation_id).content())
            self.zone.replace_file(prepared, f"{table.name.folder}/{MARKER}")
            log.warning("marker_rewritten", table=str(table.name), generation=table.generation)
        with self.engine.begin() as connection:
            end_marker_rewrite(connection, table.table_id, epoch)
        if rejection is not None:
            raise InvariantBroken(Code.LANDING_FOLDER_LOST, f"{MARKER} was not written again: {rejection}")

    def _unproven(self, table: Table, recorded: FileNumber, whole: list[LedgerEntry]) -> str | None:
        """Return why the folder may not be the table's, None if it certainly is.

        `whole` are the newest recorded files that need no repair.
        """
        folder = table.name.folder
        if self.zone.kind(f"{folder}/{MARKER}") is PathKind.FOLDER:
            return f"{folder}/{MARKER} is a folder"
        if recorded == 0:
            others = numbers_beyond(self.zone, table.name, recorded)
            return f"the ledger has no file, the folder has number {others[0]}" if others else None
        is_proven = False
        for entry in reversed(whole):
            found = find_file(self.zone, table.name, entry.number)
            if found is None:
                if entry.number == recorded:
                    return f"the last recorded file, number {recorded}, is not there; {_REPAIR_FIRST}"
                continue
            differs = difference(self.zone, found[0], entry.file_bytes, entry.file_sha256)
            if differs is not None:
                return f"{found[0]} is not the ledger's: {differs}; {_REPAIR_FIRST}"
            is_proven = True
        return None if is_proven else "each of the newest files is gone or waits for its repair: none proves the owner"
