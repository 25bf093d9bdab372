"""The overview for operators: a summary of each table, all facts of chosen tables, producers, and sent alerts.

A summary costs one row a table, whatever the length of the ledger. *Staged* equals *accepted* there, because one
transaction writes both, and *published* is what is accepted and not pending; the status of a table counts each of them
from its own source (`app.staging.tables.status`). The facts of tables take a number of queries that does not depend on
the number of tables: read them in one `read_snapshot`, so that they are of one moment.

A producer stores no time. Its age is that of its last receipt, so it is unknown once retention has purged the receipt.

Alerts are stored so that one API process tells each of them once. A process that dies between a message and its record
tells the same alerts again, with the same ids.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa

from app.domain.health.facts import TableSummary
from app.domain.health.troubles import KnownAlert, Severity, Trouble, TroubleKind
from app.domain.loads import LoadSession
from app.domain.model.table import Table
from app.staging.images import Backfill, find_backfills
from app.staging.ledger.reports import (
    FAILING_AFTER,
    IS_FAILING,
    FabricStatus,
    TableFailure,
    fabric_statuses,
    failing_tables,
)
from app.staging.loads import open_loads
from app.staging.mirror import MirrorProgress, mirror_progress
from app.staging.rebuild.progress import Rebuild, find_rebuilds
from app.staging.tables.status import MISSING_CHANGES, SOURCE_LAG, ImagesSize, TableCounts, count_tables, image_sizes

SELECT_ALERTS = sa.text("""
    SELECT kind, subject, severity, code, detail, remedy, since, code_since, told_code FROM mirrorgate.alerts""")
"""Read all alerts."""

UPSERT_ALERT = sa.text("""
    INSERT INTO mirrorgate.alerts (kind, subject, severity, code, detail, remedy, since, code_since, told_code)
    VALUES (:kind, :subject, :severity, :code, :detail, :remedy, :since, :code_since, :told_code)
    ON CONFLICT (kind, subject) DO UPDATE SET severity = excluded.severity, code = excluded.code,
        detail = excluded.detail, remedy = excluded.remedy, code_since = excluded.code_since,
        told_code = excluded.told_code""")
"""Store an alert; one that is known keeps the time since when it lasts."""

DELETE_ALERTS = sa.text("""
    DELETE FROM mirrorgate.alerts WHERE kind || ':' || subject = ANY(:keys)""")
"""Forget alerts that are over."""


def known_alerts(connection: sa.Connection) -> Mapping[str, KnownAlert]:
    """Return the alerts that an earlier look found, by key."""
    found = [
        KnownAlert(
            Trouble(TroubleKind(row.kind), row.subject, Severity(row.severity), row.code, row.detail, row.remedy),
            row.since,
            row.code_since,
            row.told_code,
        )
        for row in connection.execute(SELECT_ALERTS)
    ]
    return {known.alert.key: known for known in found}


def store_alerts(connection: sa.Connection, kept: Iterable[KnownAlert], forgotten: Sequence[str]) -> None:
    """Store these alerts, and forget those with these keys."""
    rows = [
        {
            **asdict(known.alert),
            "since": known.since,
            "code_since": known.code_since,
            "told_code": known.told_code,
        }
        for known in kept
    ]
    if rows:
        connection.execute(UPSERT_ALERT, rows)
    if forgotten:
        connection.execute(DELETE_ALERTS, {"keys": list(forgotten)})


_SELECT_PRODUCERS = """
    SELECT p.principal, p.producer, p.last_sequence, p.position, r.created_at
    FROM mirrorgate.producers p
    LEFT JOIN mirrorgate.request_receipts r
      ON r.principal = p.principal AND r.name = p.producer AND r.producer_sequence = p.last_sequence
    WHERE p.last_sequence > 0 AND (CAST(:owner AS text) IS NULL OR p.principal = :owner)
      AND (strpos(lower(p.producer), :search) > 0 OR strpos(lower(p.principal), :search) > 0)"""
"""Read producers whose name or caller contains a string; the beginning of three statements."""

SELECT_FIRST = sa.text(f"{_SELECT_PRODUCERS} ORDER BY p.principal, p.producer LIMIT :limit")
"""Read the first producers."""

SELECT_FOLLOWING = sa.text(f"""{_SELECT_PRODUCERS}
    AND (p.principal, p.producer) > (:principal, :producer) ORDER BY p.principal, p.producer LIMIT :limit""")
"""Read the producers after one."""

SELECT_PRECEDING = sa.text(f"""{_SELECT_PRODUCERS}
    AND (p.principal, p.producer) < (:principal, :producer)
    ORDER BY p.principal DESC, p.producer DESC LIMIT :limit""")
"""Read the producers before one, in reverse."""


@dataclass(frozen=True, slots=True)
class ListedProducer:
    """A producer with its progress."""

    principal: str
    producer: str
    last_sequence: int
    position: str | None
    accepted_at: datetime | None
    """Time at which its last number was accepted; None if the receipt is purged."""


@dataclass(frozen=True, slots=True)
class ProducerTurn:
    """Page of the list: from its start, or from a producer on, forwards or backwards."""

    principal: str | None = None
    producer: str = ""
    backwards: bool = False


def list_producers(
    connection: sa.Connection, *, owner: str | None, search: str, turn: ProducerTurn, limit: int
) -> list[ListedProducer]:
    """Return up to `limit` producers of a page in the order of their names; those of one caller if `owner` is given."""
    parameters = {"owner": owner, "search": search.lower(), "limit": limit}
    if turn.principal is None:
        return [ListedProducer(*row) for row in connection.execute(SELECT_FIRST, parameters)]
    parameters |= {"principal": turn.principal, "producer": turn.producer}
    if not turn.backwards:
        return [ListedProducer(*row) for row in connection.execute(SELECT_FOLLOWING, parameters)]
    return [ListedProducer(*row) for row in reversed(connection.execute(SELECT_PRECEDING, parameters).all())]


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The database's facts about one table."""

    table: Table
    counts: TableCounts
    failure: TableFailure | None
    """Reason why its publication fails, if it has failed several times in a row."""
    fabric: FabricStatus | None
    mirror: MirrorProgress | None
    load: LoadSession | None
    """The open load session."""
    images: ImagesSize | None
    """The row images, if the table keeps any."""
    backfill: Backfill | None
    """The last backfill of row images, perhaps of an earlier generation."""
    rebuild: Rebuild | None
    """The last rebuild or dry run, perhaps of an earlier generation."""

    @property
    def summary(self) -> TableSummary:
        """Return what the table is judged by."""
        table, counts, failure, fabric, mirror = self.table, self.counts, self.failure, self.fabric, self.mirror
        return TableSummary(
            table_id=table.table_id,
            name=str(table.name),
            generation=table.generation,
            state=table.state,
            state_reason=counts.state_reason,
            accepted_rows=counts.accepted_rows,
            pending_rows=counts.pending_rows,
            oldest_seconds=counts.oldest_seconds,
            waiting_letters=counts.waiting_letters,
            oldest_letter_at=counts.oldest_letter_at,
            processed_rows=None if fabric is None else fabric.processed_rows,
            fabric_error=None if fabric is None else fabric.fault,
            fabric_whose=None if fabric is None else fabric.whose,
            failure_code=None if failure is None else failure.code,
            failure_detail=None if failure is None else failure.detail,
            failure_remedy=None if failure is None else failure.remedy,
            failure_tries=None if failure is None else failure.tries,
            failing_since=None if failure is None else failure.since,
            quarantined_at=counts.quarantined_at,
            source_lag_seconds=counts.source_lag_seconds,
            missing_changes=counts.missing_changes,
            staged_rows=counts.staged_rows,
            mirror_code=None if mirror is None else mirror.code,
            mirror_state="" if mirror is None else mirror.state,
            mirror_file=0 if mirror is None else mirror.file_number,
            mirror_detail="" if mirror is None else mirror.detail or "",
            mirror_remedy="" if mirror is None else mirror.remedy or "",
        )

    @property
    def present_backfill(self) -> Backfill | None:
        """Return the last backfill of the present generation."""
        backfill = self.backfill
        return backfill if backfill is not None and backfill.is_of(self.table) else None


def find_facts(connection: sa.Connection, tables: Sequence[Table], *, with_images: bool = True) -> list[TableFacts]:
    """Return the facts of these tables, in their order, by eight queries; by seven without their row images."""
    ids = [table.table_id for table in tables]
    counts, failures = count_tables(connection, ids), failing_tables(connection, ids)
    fabric, mirrored = fabric_statuses(connection, ids), mirror_progress(connection, ids)
    loads = open_loads(connection, ids)
    images = image_sizes(connection, [table.table_id for table in tables if with_images and table.options.keeps_images])
    backfills, rebuilds = find_backfills(connection, ids), find_rebuilds(connection, ids)
    return [
        TableFacts(
            table=table,
            counts=counts[table.table_id],
            failure=failures.get(table.table_id),
            fabric=fabric.get(table.table_id),
            mirror=mirrored.get(table.table_id),
            load=loads.get(table.table_id),
            images=images.get(table.table_id),
            backfill=backfills.get(table.table_id),
            rebuild=rebuilds.get(table.table_id),
        )
        for table in tables
    ]


SELECT_SUMMARIES = sa.text(f"""
    SELECT t.table_id, t.name, t.generation, t.state, t.state_reason,
        c.accepted_rows, coalesce(l.pending_rows, 0) AS pending_rows,
        greatest(extract(epoch FROM clock_timestamp() - l.oldest_at), 0)::float8 AS oldest_seconds,
        coalesce(d.letters, 0) AS waiting_letters, d.oldest AS oldest_letter_at,
        m.processed_rows, CASE WHEN m.has_failed THEN coalesce(m.error, m.state) ELSE m.error END AS fabric_error,
        m.whose AS fabric_whose,
        CASE WHEN {IS_FAILING} THEN f.code END AS failure_code, f.detail AS failure_detail,
        f.remedy AS failure_remedy, f.tries AS failure_tries, f.since AS failing_since,
        CASE WHEN t.state = 'quarantined' THEN (
            SELECT max(e.happened_at) FROM mirrorgate.table_events e
            WHERE e.folded_name = t.folded_name AND e.table_id = t.table_id AND e.action = 'quarantined')
        END AS quarantined_at, {SOURCE_LAG}, {MISSING_CHANGES}
    FROM mirrorgate.tables t
    JOIN mirrorgate.table_counters c ON c.table_id = t.table_id
    -- One look-up a table, also without statistics.
    LEFT JOIN LATERAL (SELECT * FROM mirrorgate.lag WHERE table_id = t.table_id OFFSET 0) l ON true
    LEFT JOIN (
        SELECT table_id, generation, count(*) AS letters, min(received_at) AS oldest FROM mirrorgate.dead_letters
        WHERE state = 'waiting' GROUP BY table_id, generation) d
        ON d.table_id = t.table_id AND d.generation = t.generation
    LEFT JOIN mirrorgate.fabric_states m ON m.table_id = t.table_id AND m.generation = t.generation
    LEFT JOIN mirrorgate.table_failures f ON f.table_id = t.table_id AND f.generation = t.generation
    WHERE t.state <> 'dropped' ORDER BY t.folded_name""")  # noqa: S608  # constant text
"""Read a summary of each live table."""

SELECT_DURABILITY = sa.text("""
    SELECT current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
        current_setting('synchronous_commit') AS synchronous_commit""")
"""Read the settings of Postgres on which the safety of acknowledged changes depends."""


@dataclass(frozen=True, slots=True)
class Durability:
    """The durability settings of Postgres, as `SHOW` prints it."""

    fsync: str
    full_page_writes: str
    synchronous_commit: str


def table_summaries(connection: sa.Connection) -> list[TableSummary]:
    """Return all live tables by name, read in one statement."""
    return [TableSummary(*row) for row in connection.execute(SELECT_SUMMARIES, {"tries": FAILING_AFTER})]


def durability(connection: sa.Connection) -> Durability:
    """Return the settings of the server, as this session has them."""
    return Durability(*connection.execute(SELECT_DURABILITY).one())
