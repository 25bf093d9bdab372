"""The facts that judging the gateway needs: of this API process, of the whole gateway, and of each table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from app.domain.fabric import FabricFacts, Whose
from app.domain.model.table import Generation, TableId, TableLife, TableState
from app.domain.preflight import Finding


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """The facts of one API process. Ages are in seconds; None if nothing has happened or nothing waits."""

    database: str | None = None
    """Reason why Postgres does not take changes; None if it does."""
    masks: str | None = None
    """Reason why this process cannot serve tables with hashed columns."""
    writer_failure: str | None = None
    """Reason why the last transaction failed."""
    writer_failed_seconds: float | None = None
    oldest_request_seconds: float | None = None
    """Age of the oldest request that waits for the writer."""
    oldest_request_limit: float = float("inf")


@dataclass(frozen=True, slots=True)
class GatewayFacts:
    """Postgres's facts about the whole gateway."""

    drains: int
    waiting_drains: int
    """Drains that cannot publish anything."""
    waits_for: str | None
    """The error code of the reason, of one of them."""
    tables: Mapping[str, int]
    """Numbers of tables by state, without dropped ones."""
    fabric: FabricFacts | None
    """Report of Fabric's API; None where no drain asks it."""
    fabric_tables: int
    """Tables that Fabric has given up, or for which it reports an error."""
    stopped_mirrors: int
    """Tables whose next landing file a running Delta mirror cannot apply."""
    future_batches: int
    """Unpublished blocks whose staging time is in the future by the database's clock."""
    clock_behind_seconds: float
    """Seconds that this process's clock is behind the database's."""
    drain_clock_behind_seconds: float
    """The same of the drain whose clock is furthest away."""


class TableSummary(NamedTuple):
    """The summary of a live table for lists and health checks. The failure is set only while the table is failing."""

    table_id: TableId
    name: str
    generation: Generation
    state: str
    state_reason: str | None
    accepted_rows: int
    pending_rows: int
    oldest_seconds: float
    waiting_letters: int
    oldest_letter_at: datetime | None
    processed_rows: int | None
    fabric_error: str | None
    fabric_whose: Whose | None
    failure_code: str | None
    failure_detail: str | None
    failure_remedy: str | None
    failure_tries: int | None
    failing_since: datetime | None
    quarantined_at: datetime | None
    source_lag_seconds: float | None
    """From the commit in the source to the acceptance of the last change; None for a table without recent changes."""
    missing_changes: int
    """Changes that are missing by Arcion's counts of operations."""
    staged_rows: int | None = None
    """None where only the whole status of the table counts them."""
    mirror_code: str | None = None
    """Reason why the Delta mirror does not continue; None also in lists, which do not read it."""
    mirror_state: str = ""
    mirror_file: int = 0
    """The last file that the mirror has applied."""
    mirror_detail: str = ""
    mirror_remedy: str = ""

    @property
    def life(self) -> TableLife:
        """Return the table with its present generation."""
        return self.table_id, self.generation

    @property
    def shown_state(self) -> str:
        """Return the state in one word, as lists and counts of tables show it."""
        return TableState(self.state).shown(is_failing=self.failure_code is not None)


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """The facts known at one moment. Missing facts are not judged."""

    process: ProcessFacts | None = None
    gateway: GatewayFacts | None = None
    tables: Sequence[TableSummary] = ()
    shares: Mapping[TableLife, float] = field(default_factory=dict)
    """Backlogs as shares of their limits."""
    total_share: float = 0.0
    """The same of all tables together."""
    findings: Sequence[Finding] = ()
    """Findings about Postgres and disks."""

    @property
    def fullest_share(self) -> float:
        """Return the largest share of its limit that any backlog has."""
        return max([self.total_share, *self.shares.values()])
