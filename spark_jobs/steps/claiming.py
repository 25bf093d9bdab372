"""W1: claim a table under a new epoch, or confirm the epoch that this process has."""

from dataclasses import dataclass

import structlog

from app.domain.model.table import Epoch, Table, TableId
from app.landing.scratch_sweep import newest_epoch
from app.staging.connection.database import Connection
from app.staging.ledger.leases import claim_table, known_zone, raise_epoch, release_table
from app.staging.tables.registry import find_table_by_id
from mirrorgate.errors import Code, TemporarilyUnavailable
from spark_jobs.steps.context import DrainContext, log_fields

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
                self._require_known_zone(connection)
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

    def _require_known_zone(self, connection: Connection) -> None:
        """Raise TemporarilyUnavailable `landing_zone_away` once the database has been moved to another zone."""
        known = known_zone(connection)
        if known is not None and known.zone_id != self.context.claimed_zone.known.zone_id:
            detail = f"the database publishes into {known} now: start this drain with that zone"
            raise TemporarilyUnavailable(Code.LANDING_ZONE_AWAY, detail)

    def _beyond_scratch(self, table: Table, epoch: Epoch) -> Epoch:
        """Return the claimed epoch, raised above every epoch in scratch: a restore may have set the counter back."""
        newest = newest_epoch(self.context.zone, table.table_id)
        if newest < epoch:
            return epoch
        with self.context.engine.begin() as connection:
            epoch = raise_epoch(connection, table.table_id, epoch, beyond=newest)
        log.warning("epoch_raised", **log_fields(table), epoch=epoch)
        return epoch
