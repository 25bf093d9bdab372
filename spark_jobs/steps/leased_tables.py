"""The tables that this process has taken over, and the epoch of each.

Nothing here is durable. A process that dies loses it; the next owner claims a later epoch and repeats W1 to W3.
"""

from collections.abc import Iterable

from app.domain.model.landing_file import FileIdentity
from app.domain.model.table import Epoch, TableId


class LeasedTables:
    """Epochs whose predecessors this process has revoked, and tables that wait. Threads share it, one per table."""

    def __init__(self) -> None:
        self._epochs: dict[TableId, Epoch] = {}
        self._published: dict[TableId, FileIdentity] = {}
        self._deferred_drops: set[TableId] = set()
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
        """Tell whether this process has published a file of this or a later number: then the ledger went back."""
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

    def forget_all(self) -> None:
        """Forget all epochs, because the database may have gone back."""
        for table_id in [*self._epochs, *self._awaiting_background]:
            self.forget(table_id)

    def defer_drop(self, table_id: TableId) -> None:
        """Note that the drop of the table waits until Fabric no longer lists it (R5)."""
        self._deferred_drops.add(table_id)

    def await_background(self, table_id: TableId, epoch: Epoch) -> None:
        """Note that the table does not publish, and is attempted again while its rebuild or backfill runs.

        Those attempts keep the epoch. It is not taken over before the table publishes again.
        """
        self._awaiting_background[table_id] = epoch

    def resume(self, table_id: TableId) -> Epoch | None:
        """Note that the table is attempted again now; return the epoch to keep, None if it has to be claimed again."""
        self._deferred_drops.discard(table_id)
        awaited = self._awaiting_background.pop(table_id, None)
        return self._epochs.get(table_id, awaited)

    def must_back_off(self, table_id: TableId) -> bool:
        """Return whether the last attempt failed or deferred a drop, so that the next one has to wait."""
        if table_id in self._awaiting_background:
            return False
        return table_id not in self._epochs or table_id in self._deferred_drops
