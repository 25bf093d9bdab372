"""R3 to R6: delete the folder of a dropped table, wait for Fabric, and finish the drop.

Drop, recreate, rename and rebuild are one operation: recreate and rename start the table's next generation here, and a
rebuild has started it before.
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

import structlog

from app.domain.model.table import Epoch, Table, TableState, former_generation
from app.landing.publish import Scratch, remove_table_folder
from app.staging.connection.database import answer_within
from app.staging.ledger.leases import check_epoch
from app.staging.ledger.reports import note_folder_gone
from app.staging.tables.operations import finish_drop
from app.staging.tables.registry import find_table_by_id, note_drop_trouble
from spark_jobs.fabric_status import is_listed_by_fabric
from spark_jobs.steps.context import DrainContext, log_fields
from spark_jobs.steps.failures import LeasedTables, TableFailures

log = structlog.get_logger()

DROP_TRANSACTION_SECONDS: Final = 600.0
"""Deleting all staged batches of a large table takes far longer than any other transaction."""


@dataclass(frozen=True, slots=True)
class Dropping:
    """Drops carried out by one drain."""

    context: DrainContext
    leased: LeasedTables
    failures: TableFailures
    wait_seconds: float
    """The longest time that a drop waits until Fabric no longer lists the table."""

    def run(self, table: Table, epoch: Epoch) -> Table | None:
        """Run R3 to R6; return the table in its new generation, None if there is none, or none yet.

        A process that dies between two steps leaves the rest to the next owner.
        """
        context = self.context
        context.claimed_zone.require()
        ended = former_generation(table) if table.state is TableState.REBUILDING else table
        scratch, check = Scratch(table.table_id, epoch), partial(self._check_epoch, table, epoch)
        remove_table_folder(context.zone, ended, context.installation_id, scratch, check)
        context.claimed_zone.require()  # a folder that is gone with the whole zone is not deleted
        if self._must_wait_for_fabric(table, epoch):
            self.leased.defer_drop(table.table_id)
            return None
        with answer_within(DROP_TRANSACTION_SECONDS), context.engine.begin() as connection:
            finished = finish_drop(connection, table, epoch, marker_first=context.config.layout.marker_first)
            next_generation = find_table_by_id(connection, table.table_id)
        self.failures.clear({table.table_id})
        log.info("table_dropped", **(log_fields(table) | asdict(finished)))
        return next_generation

    def _check_epoch(self, table: Table, epoch: Epoch) -> None:
        with self.context.engine.begin() as connection:
            check_epoch(connection, table.table_id, epoch)

    def _must_wait_for_fabric(self, table: Table, epoch: Epoch) -> bool:
        """R5: return whether Fabric still lists the table and the wait is not over; the table's state shows the wait.

        Fabric could take a folder of the same name that appears too early for the old one. The database counts the
        time, so that neither a crash nor another owner starts the wait again.
        """
        context = self.context
        if not is_listed_by_fabric(context.config.landing_zone, table.name):
            return False
        with context.engine.begin() as connection:
            check_epoch(connection, table.table_id, epoch)
            waited = note_folder_gone(connection, table.table_id)
            must_wait = waited < self.wait_seconds
            if must_wait:
                reason = f"waiting until Fabric no longer lists the table, at most {self.wait_seconds:.0f} s"
                note_drop_trouble(connection, table.table_id, f"{reason}; {waited:.0f} s so far")
        if not must_wait:
            log.warning("fabric_wait_timed_out", **log_fields(table), seconds=round(waited))
        return must_wait
