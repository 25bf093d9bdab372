"""What the ledger says of a table's publication, by the clock of the database."""

from dataclasses import dataclass
from datetime import datetime

from app.domain.model.table import Table, TableState
from benchmarks.gateway import Gateway
from benchmarks.loads.staged_rows import set_state

SELECT_FILES = """
    SELECT first_sequence, last_sequence, row_count, published_at FROM mirrorgate.landing_files
    WHERE table_id = :table_id AND state = 'published' ORDER BY number"""


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """A published file: its batches, its rows, and when it was recorded as visible."""

    first_sequence: int
    last_sequence: int
    rows: int
    published_at: datetime


@dataclass(frozen=True, slots=True)
class Drained:
    """A backlog that was published; the clock starts when publishing was allowed."""

    started_at: datetime
    files: list[LedgerFile]

    @property
    def rows(self) -> int:
        """Return the rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def seconds(self) -> float:
        """Return the seconds until the last file was published."""
        return (self.files[-1].published_at - self.started_at).total_seconds()

    @property
    def rate(self) -> float:
        """Return the rows per second."""
        return self.rows / self.seconds


def drain_paused(gateway: Gateway, table: Table) -> Drained:
    """Resume a paused table, and return once the running drain has published its whole backlog."""
    started_at = gateway.value("SELECT clock_timestamp()")
    set_state(gateway.engine, table, TableState.ACTIVE)
    gateway.wait_published()
    return Drained(started_at, [LedgerFile(*row) for row in gateway.rows(SELECT_FILES, table_id=table.table_id)])
