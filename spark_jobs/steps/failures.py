"""Records of a drain about its tables: the epoch of each that it has taken over, and the reason that one stopped.

`TableFailures` makes the log line, the record for the table's status, and the quarantine. Invariant: only what may
never happen quarantines a table, and only while its epoch holds and the zone is present. Everything else is retried.

`LeasedTables` has the tables that this process has taken over, and the epoch of each. Nothing in it is durable. A
process that dies loses it; the next owner claims a later epoch and repeats W1 to W3.
"""

from collections.abc import Iterable, Set
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import structlog

from app.domain.model.landing_file import FileIdentity
from app.domain.model.table import Epoch, Table, TableId
from app.domain.publication import described
from app.observability.drain_metrics import FAILED_ATTEMPTS
from app.staging.connection.database import Connection, translated_errors
from app.staging.ledger.leases import check_epoch
from app.staging.ledger.reports import FAILING_AFTER, clear_failures, has_failed, record_failure
from app.staging.tables.registry import find_table_by_id, note_drop_trouble, quarantine_table
from mirrorgate.errors import Code
from spark_jobs.steps.context import DrainContext, log_fields


class LeasedTables:
    """Epochs whose predecessors this process has revoked, and tables that wait. Threads share it, one per table."""

    def __init__(self) -> None:
        self._epochs: dict[TableId, Epoch] = {}
        self._published: dict[TableId, FileIdentity] = {}
        self._postponed: set[TableId] = set()
        self._awaiting_background: dict[TableId, Epoch] = {}

    def __len__(self) -> int:
        """Return the number of tables that this process has taken over."""
        return len(self._epochs)

    def add(self, table_id: TableId, epoch: Epoch) -> None:
        """Remember that the table was taken over under this epoch (after W2 and W3)."""
        self._published.pop(table_id, None)
        self._epochs[table_id] = epoch

    def note_published(self, table_id: TableId, last: FileIdentity) -> None:
        """Remember the last file that this process published since it took the table over."""
        self._published[table_id] = last

    def was_published(self, table_id: TableId, planned: FileIdentity) -> bool:
        """Return True if this process has published a file of this or a later number: then the ledger went back."""
        last = self._published.get(table_id)
        return last is not None and planned.generation == last.generation and planned.number <= last.number

    def epoch(self, table_id: TableId) -> Epoch | None:
        """Return the table's epoch, None if the next attempt has to claim it again."""
        return self._epochs.get(table_id)

    def epochs(self, table_ids: Iterable[TableId]) -> dict[TableId, Epoch]:
        """Return the epochs of those of the tables that were taken over."""
        return {table_id: epoch for table_id in table_ids if (epoch := self._epochs.get(table_id)) is not None}

    def forget(self, table_id: TableId) -> None:
        """Forget the epoch after a failure, so that the next attempt starts with a new claim."""
        self._epochs.pop(table_id, None)
        self._awaiting_background.pop(table_id, None)
        self._postponed.add(table_id)

    def forget_all(self) -> None:
        """Forget all epochs, because the database may have gone back."""
        for table_id in [*self._epochs, *self._awaiting_background]:
            self.forget(table_id)

    def defer_drop(self, table_id: TableId) -> None:
        """Note that the drop of the table waits until Fabric no longer lists it (R5)."""
        self._postponed.add(table_id)

    def await_background(self, table_id: TableId, epoch: Epoch) -> None:
        """Note that the table does not publish, and is attempted again while its rebuild or backfill runs.

        Those attempts keep the epoch. It is not taken over before the table publishes again.
        """
        self._awaiting_background[table_id] = epoch

    def resume(self, table_id: TableId) -> Epoch | None:
        """Note that the table is attempted again now; return the epoch to keep, None if it has to be claimed again."""
        self._postponed.discard(table_id)
        awaited = self._awaiting_background.pop(table_id, None)
        return self._epochs.get(table_id, awaited)

    def must_back_off(self, table_id: TableId) -> bool:
        """Return whether the last attempt failed or deferred a drop, so that the next one has to wait."""
        return table_id in self._postponed


log = structlog.get_logger()

QUARANTINE_CODES: Final = frozenset(
    {
        Code.FOREIGN_FILE,
        Code.LANDING_FOLDER_LOST,
        Code.LAST_FILE_MISSING,
        Code.LEDGER_BEHIND_ZONE,
        Code.PAYLOAD_CORRUPT,
    }
)
"""Codes of failures that must never happen: the table stops until an operator decides. Other failures are retried."""


@dataclass(frozen=True, slots=True)
class TableFailures:
    """Failures of one drain's tables, cleared at the next success."""

    context: DrainContext
    leased: LeasedTables
    _recorded: set[TableId] = field(default_factory=set)
    """Tables whose failure Postgres has on record."""

    def __len__(self) -> int:
        """Return the number of tables whose last attempt failed."""
        return len(self._recorded)

    def load(self, connection: Connection, table_id: TableId) -> None:
        """Read whether a former owner recorded a failure, so that the next success clears it."""
        if has_failed(connection, table_id):
            self._recorded.add(table_id)

    def add(self, table_id: TableId, table: Table | None, epoch: Epoch | None, error: Exception) -> None:
        """Forget the table's epoch, log and record the failure, and quarantine the table if the code demands it.

        Nothing is recorded once the epoch is over: the next owner judges. Nothing is concluded while the landing zone
        is unreachable. If recording fails, the table is attempted, and its failure found, again.
        """
        self.leased.forget(table_id)
        failure = described(error)
        FAILED_ATTEMPTS.labels(str(failure.code)).inc()
        fields = self._fields_by_id(table_id) if table is None else log_fields(table)
        log.warning("table_publication_failed", **fields, **asdict(failure))
        if epoch is None:
            return
        try:
            if failure.code in QUARANTINE_CODES:
                self.context.claimed_zone.require()
            with translated_errors(), self.context.engine.begin() as connection:
                check_epoch(connection, table_id, epoch)
                note_drop_trouble(connection, table_id, f"{failure.code}: {failure.detail}; the drain retries")
                quarantined = failure.code in QUARANTINE_CODES and quarantine_table(
                    connection, table_id, f"{failure.code}: {failure.detail}"
                )
                attempts = 0 if table is None or quarantined else record_failure(connection, table, failure)
                if quarantined:
                    clear_failures(connection, [table_id])
            if quarantined:
                self._recorded.discard(table_id)
                log.error("table_quarantined", **fields, code=failure.code, detail=failure.detail)
                return
            self._recorded.add(table_id)
            if attempts == FAILING_AFTER:
                log.error("table_failing", **fields, tries=attempts, **asdict(failure))
        except Exception as second:  # noqa: BLE001  # the next attempt finds the failure again
            log.warning("table_quarantine_failed", **fields, **asdict(described(second)))

    def clear(self, table_ids: Set[TableId]) -> None:
        """Clear the failures of tables that have succeeded; what cannot be cleared now is cleared at the next one."""
        recovered = self._recorded & table_ids
        if not recovered:
            return
        try:
            with translated_errors(), self.context.engine.begin() as connection:
                clear_failures(connection, recovered)
        except Exception as error:  # noqa: BLE001  # the files are published; only the status is behind
            log.warning("failure_reset_failed", **asdict(described(error)))
        else:
            self._recorded.difference_update(recovered)

    def _fields_by_id(self, table_id: TableId) -> dict[str, Any]:
        """Return the fields that name a table whose claim failed; its id alone while Postgres does not answer."""
        try:
            with translated_errors(), self.context.engine.begin() as connection:
                table = find_table_by_id(connection, table_id)
        except Exception:  # noqa: BLE001  # the failure that is being logged may be just that
            table = None
        return {"table_id": table_id} if table is None else log_fields(table)
