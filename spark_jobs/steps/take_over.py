"""W2 and W3: end what every older owner can still do, then compare the ledger with the folder.

Invariant: when a take-over returns, no older owner can make a file visible, and the ledger has every visible file.
"""

from dataclasses import dataclass

from app.domain.model.table import Epoch, Table
from app.landing.publish import Scratch, revoke_older_epochs
from app.staging.ledger.leases import revoked_through
from spark_jobs.steps.context import DrainContext
from spark_jobs.steps.failures import TableFailures
from spark_jobs.steps.marker_rewrite import MarkerRewrite
from spark_jobs.steps.publishing import Publishing
from spark_jobs.steps.reconciliation import Reconciliation


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Takes over claimed tables for one drain."""

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
