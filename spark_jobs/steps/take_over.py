"""W1 to W3: claim a table, end what every older owner can still do, then compare the ledger with the folder.

`Claiming` claims a table under a new epoch, or confirms the epoch that this process has (W1). Invariant: when a
take-over returns, no older owner can make a file visible, and the ledger has every visible file.

`Reconciliation` compares the ledger with the folder (W3). After a crash the ledger is at most one file behind. After a
restore of the database to an older point it can be any number of files behind, and Fabric may have consumed them:
publishing under such a number would land rows twice.

`MarkerRewrite` writes a damaged or lost `_gateway.json` again when an operator asked for it and the folder proves to be
the table's. The proof is what only this ledger knows: the last recorded file is there with its size and digest, visible
or consumed, and none of the ledger's newest numbers has other content. A file that an operator asked to repair proves
nothing and disproves nothing, because the repair waits for the marker; another file has to prove the folder instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

import structlog

from app.domain.model.landing_file import BuiltFile, PlannedFile
from app.domain.model.table import Epoch, FileNumber, Table, TableId
from app.landing.landed_state import (
    MARKER,
    FolderMarker,
    difference,
    facts_at_number,
    find_file,
    identity_at_number,
    is_marker_damaged,
    numbers_beyond,
    recover_visible_file,
    require_marker,
    unknown_files,
)
from app.landing.publish import Scratch, newest_epoch, revoke_older_epochs
from app.landing.zone import LandingZone, PathKind
from app.staging.connection.database import Connection, Engine
from app.staging.ledger.files import (
    LedgerEntry,
    is_build_registered,
    list_files,
    numbers_to_repair,
    recorded_number,
    register_builds,
    unrecorded_files,
)
from app.staging.ledger.leases import (
    Claim,
    check_epoch,
    claim_table,
    known_zone,
    raise_epoch,
    release_table,
    revoked_through,
)
from app.staging.ledger.planning import adopt_file
from app.staging.tables.operations import end_marker_rewrite, is_marker_to_be_rewritten
from app.staging.tables.registry import find_table_by_id
from mirrorgate.errors import Code, InvariantBroken, Misconfigured, TemporarilyUnavailable
from spark_jobs.steps.context import DrainContext, log_fields
from spark_jobs.steps.failures import TableFailures
from spark_jobs.steps.publishing import Publishing

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Claiming:
    """Claims of tables for one drain."""

    context: DrainContext

    def run(self, table_id: TableId, *, held: Epoch | None) -> tuple[Table | None, Epoch | None]:
        """Claim the table; return it with its epoch, None for a table that is gone or another drain's.

        The epoch `held` is kept while it is still the table's.
        A process that dies inside leaves a used epoch number. Raise TemporarilyUnavailable `landing_zone_away` while
        the zone is unreachable: then no epoch is used up. Raise TemporarilyUnavailable `table_too_new` for a table that
        only a newer drain can read, and leave the table to it.
        """
        if held is None:
            self.context.claimed_zone.require()
        try:
            with self.context.engine.begin() as connection:
                self.require_known_zone(connection)
                epoch = claim_table(connection, table_id, self.context.worker_id, held=held)
                table = find_table_by_id(connection, table_id)
        except TemporarilyUnavailable as error:
            if error.code is Code.TABLE_TOO_NEW:
                with self.context.engine.begin() as connection:
                    release_table(connection, table_id, self.context.worker_id)
            raise
        if table is not None and epoch is not None and epoch != held:
            if held is not None:
                self.context.claimed_zone.require()
            epoch = self._beyond_scratch(table, epoch)
        return table, epoch

    def require_known_zone(self, connection: Connection) -> None:
        """Raise Misconfigured `landing_zone_changed` once the database has been moved to another zone."""
        known = known_zone(connection)
        if known is not None and known.zone_id != self.context.claimed_zone.known.zone_id:
            detail = f"the database publishes into {known} now: start this drain with that zone"
            raise Misconfigured(Code.LANDING_ZONE_CHANGED, detail)

    def _beyond_scratch(self, table: Table, epoch: Epoch) -> Epoch:
        """Return the claimed epoch, raised above every epoch in scratch: a restore may have set the counter back."""
        newest = newest_epoch(self.context.zone, table.table_id)
        if newest < epoch:
            return epoch
        with self.context.engine.begin() as connection:
            epoch = raise_epoch(connection, table.table_id, epoch, beyond=newest)
        log.warning("epoch_raised", **log_fields(table), epoch=epoch)
        return epoch


MAX_PROOF_FILES: Final = 20
"""Only the newest files are compared with the ledger: reading all files of a large table would take hours."""

_REPAIR_FIRST: Final = "if the folder is the table's own, ask for the file's repair, then release again"


@dataclass(frozen=True, slots=True)
class MarkerRewrite:
    """Rewrites for requests for new markers in one landing zone."""

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


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Reconciliation of a table's ledger with the files in the landing zone; it stops the table if they conflict."""

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


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Take-over of claimed tables for one drain."""

    context: DrainContext
    failures: TableFailures
    publishing: Publishing

    def run(self, table: Table, epoch: Epoch) -> None:
        """Revoke older epochs (W2), then reconcile the ledger with the folder (W3). Safe to repeat after a crash.

        A table that is being dropped skips W3: its folder is deleted next.
        """
        context, scratch = self.context, Scratch(table.table_id, epoch)
        with context.engine.begin() as connection:
            swept = revoked_through(connection, table.table_id)
            self.failures.load(connection, table.table_id)
        revoke_older_epochs(context.zone, scratch, after=swept)
        context.zone.create_folder(scratch.folder)
        if table.state.deletes_folder:
            return
        MarkerRewrite(context.engine, context.zone, context.installation_id).run(table, epoch)
        Reconciliation(context.engine, context.zone, context.installation_id, self.publishing.record).run(table, epoch)
