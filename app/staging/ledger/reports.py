"""What operators are told of publication: failures of tables, and what Fabric reports of the database and its tables.

A row per failing table, which its next success deletes. Drains take turns to ask Fabric's API for the database and its
tables, and to read the monitoring file of the zone. Publication never depends on either, apart from the wait of a drop
(R5).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from app.domain.fabric import DatabaseStatus, FabricFacts, TableMirroring, Whose, stored_text
from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table, TableId
from app.domain.publication import Failure

FAILING_AFTER: Final = 3
"""Failed tries in a row after which a table is shown as failing; fewer usually pass by themselves."""

_MAX_DETAIL_LENGTH: Final = 1_000
"""Characters of an error message that are stored."""

RECORD_FAILURE = sa.text("""
    INSERT INTO mirrorgate.table_failures AS f (table_id, generation, code, detail, remedy)
    VALUES (:table_id, :generation, :code, :detail, :remedy)
    ON CONFLICT (table_id) DO UPDATE SET
        generation = excluded.generation, code = excluded.code, detail = excluded.detail, remedy = excluded.remedy,
        last_at = excluded.last_at,
        tries = CASE WHEN f.generation = excluded.generation THEN f.tries + 1 ELSE 1 END,
        since = CASE WHEN f.generation = excluded.generation THEN f.since ELSE excluded.since END
    RETURNING tries""")
"""Store a failed try and return how many there were in a row in this generation."""

DELETE_FAILURES = sa.text("DELETE FROM mirrorgate.table_failures WHERE table_id = ANY(:table_ids)")
"""Forget the failures of tables."""

SELECT_HAS_FAILED = sa.text("SELECT EXISTS (SELECT FROM mirrorgate.table_failures WHERE table_id = :table_id)")
"""Return True if a table's last try failed."""

IS_FAILING = "(f.tries >= :tries AND t.state IN ('active', 'dropping', 'rebuilding')) IS TRUE"
"""Condition on a table `t` and its failure `f`: the table publishes or is dropped, and fails repeatedly."""

SELECT_FAILING = sa.text(f"""
    SELECT f.table_id, f.code, f.detail, f.remedy, f.tries, f.since, f.last_at
    FROM mirrorgate.table_failures f JOIN mirrorgate.tables t USING (table_id, generation)
    WHERE f.table_id = ANY(:table_ids) AND {IS_FAILING}""")  # noqa: S608  # constant text
"""Read the failures of the failing tables."""


@dataclass(frozen=True, slots=True)
class TableFailure:
    """The last failure of a table that is failing; `since` is the first of its failed tries in a row."""

    code: str
    detail: str
    remedy: str
    tries: int
    since: datetime
    last_at: datetime


def record_failure(connection: sa.Connection, table: Table, failure: Failure) -> int:
    """Count a failed try of a table, and return how many there were in a row.

    A process that dies before the commit has lost one count.
    """
    parameters = {
        "table_id": table.table_id,
        "generation": table.generation,
        "code": str(failure.code),
        "detail": failure.detail[:_MAX_DETAIL_LENGTH],
        "remedy": failure.remedy,
    }
    return int(connection.execute(RECORD_FAILURE, parameters).scalar_one())


def clear_failures(connection: sa.Connection, table_ids: Collection[TableId]) -> None:
    """Forget the failures of tables that were published, or that now wait for an operator."""
    connection.execute(DELETE_FAILURES, {"table_ids": list(table_ids)})


def has_failed(connection: sa.Connection, table_id: TableId) -> bool:
    """Return True if the last try of a table failed in any drain."""
    return bool(connection.execute(SELECT_HAS_FAILED, {"table_id": table_id}).scalar())


def failing_tables(connection: sa.Connection, table_ids: Collection[TableId]) -> dict[TableId, TableFailure]:
    """Return those of these tables that failed at least FAILING_AFTER times in a row, with the last reason."""
    rows = connection.execute(SELECT_FAILING, {"table_ids": list(table_ids), "tries": FAILING_AFTER})
    return {TableId(table_id): TableFailure(*facts) for table_id, *facts in rows}


_MAX_WAIT_SECONDS: Final = 3_600.0
"""The longest pause that Fabric can ask for; a clock that was set back cannot make it longer."""

CLAIM_POLL = sa.text("""
    INSERT INTO mirrorgate.fabric_database AS f (next_poll_at, refreshes_sql)
    VALUES (clock_timestamp() + make_interval(secs => :seconds), :refreshes_sql)
    ON CONFLICT (only_row) DO UPDATE SET next_poll_at = excluded.next_poll_at, refreshes_sql = excluded.refreshes_sql
    WHERE f.next_poll_at <= clock_timestamp()
       OR f.next_poll_at > clock_timestamp() + make_interval(secs => :max_wait + :seconds)
    RETURNING next_poll_at""")
"""Claim the next question, if one is due."""

STORE_ANSWER = sa.text("""
    UPDATE mirrorgate.fabric_database f SET
        state = :state, state_since = CASE WHEN f.state = :state THEN f.state_since ELSE clock_timestamp() END,
        error = :error, whose = :whose, answered_at = clock_timestamp(),
        tables_at = CASE WHEN :has_tables THEN clock_timestamp() ELSE f.tables_at END,
        problem_code = NULL, problem_detail = NULL, problem_remedy = NULL
    FROM (SELECT state FROM mirrorgate.fabric_database FOR UPDATE) before
    RETURNING before.state""")
"""Store an answer, and return the state before it."""

STORE_PROBLEM = sa.text("""
    UPDATE mirrorgate.fabric_database f SET
        problem_code = :code, problem_detail = :detail, problem_remedy = :remedy,
        next_poll_at = greatest(f.next_poll_at, clock_timestamp() + make_interval(secs => :wait))
    FROM (SELECT problem_code FROM mirrorgate.fabric_database FOR UPDATE) before
    RETURNING before.problem_code""")
"""Store why a question failed, and return the code of the one before it."""

FORGET = sa.text("""
    WITH forgotten AS (DELETE FROM mirrorgate.fabric_database RETURNING only_row)
    DELETE FROM mirrorgate.fabric_states WHERE EXISTS (SELECT FROM forgotten)""")
"""Forget the database and, if there was one, its tables."""

FORGET_TABLES = sa.text("DELETE FROM mirrorgate.fabric_states")
"""Forget the tables, also those that the monitoring file listed."""

HAS_FILES = sa.text("SELECT EXISTS (SELECT FROM mirrorgate.landing_files WHERE state = 'published')")
"""Look whether a table has a file in the landing zone."""

SELECT_DATABASE = sa.text("""
    SELECT whose, state_since, answered_at, refreshes_sql, state, error,
        extract(epoch FROM clock_timestamp() - coalesce(answered_at, watched_since))::float8 AS answer_seconds,
        problem_code, problem_detail, problem_remedy
    FROM mirrorgate.fabric_database""")
"""Read the last answer, and why the question after it failed."""


@dataclass(frozen=True, slots=True)
class FabricDatabase:
    """The mirrored database as Fabric's API last reported it, in Fabric's own words."""

    whose: str | None
    state_since: datetime | None
    answered_at: datetime | None
    refreshes_sql: bool
    facts: FabricFacts


def claim_poll(connection: sa.Connection, seconds: float, *, refreshes_sql: bool = False) -> bool:
    """Return whether the caller asks Fabric now; no drain asks for the next `seconds`.

    `refreshes_sql`: whether the caller refreshes the SQL endpoint too, which is stored for those who wait for that.
    A process that dies after this has skipped one question.
    """
    asked = {"seconds": seconds, "max_wait": _MAX_WAIT_SECONDS, "refreshes_sql": refreshes_sql}
    return connection.execute(CLAIM_POLL, asked).first() is not None


def has_published_files(connection: sa.Connection) -> bool:
    """Return whether any table has published a file, with or without rows."""
    return bool(connection.execute(HAS_FILES).scalar_one())


def store_answer(connection: sa.Connection, status: DatabaseStatus, *, has_tables: bool) -> str | None:
    """Store the state of the database; return the state before, None without one.

    `has_tables`: the status of the tables is stored in the same transaction. A process that dies before the commit
    leaves the former status, whose age shows.
    """
    stored = {
        "state": stored_text(status.raw) or "",
        "error": stored_text(str(status.error)) if status.error else None,
        "whose": status.error.whose if status.error else None,
        "has_tables": has_tables,
    }
    before: str | None = connection.execute(STORE_ANSWER, stored).scalar_one_or_none()
    return before


def store_problem(connection: sa.Connection, failure: Failure, wait_seconds: float) -> str | None:
    """Store why Fabric did not answer, and that drains wait so long; return the code of the problem before."""
    stored = {
        "code": failure.code,
        "detail": stored_text(failure.detail) or "",
        "remedy": failure.remedy,
        "wait": min(wait_seconds, _MAX_WAIT_SECONDS),
    }
    before: str | None = connection.execute(STORE_PROBLEM, stored).scalar_one_or_none()
    return before


def forget_database(connection: sa.Connection) -> None:
    """Forget what Fabric's API said of the database and its tables, because no drain is told to ask it any more.

    Without an answer of the API, the tables keep what the zone's monitoring file says of them.
    """
    connection.execute(FORGET)


def forget_former_zone(connection: sa.Connection) -> None:
    """Forget what Fabric said of the database and the tables, because another one reads the new landing zone.

    A process that dies before the commit leaves it, together with the former zone.
    """
    connection.execute(FORGET)
    connection.execute(FORGET_TABLES)


def fabric_database(connection: sa.Connection) -> FabricDatabase | None:
    """Return what Fabric last said about the database, None where no drain asks."""
    row = connection.execute(SELECT_DATABASE).one_or_none()
    if row is None:
        return None
    whose, state_since, answered_at, refreshes_sql, *facts = row
    return FabricDatabase(whose, state_since, answered_at, refreshes_sql, FabricFacts(*facts))


def fabric_facts(connection: sa.Connection) -> FabricFacts | None:
    """Return what is judged of the database, None where no drain asks."""
    found = fabric_database(connection)
    return None if found is None else found.facts


_API_SECONDS: Final = 300.0
"""For how long the API's list of the tables counts more than the file."""

CLAIM_READING = sa.text("""
    INSERT INTO mirrorgate.fabric_readings AS r DEFAULT VALUES
    ON CONFLICT (only_row) DO UPDATE SET read_at = clock_timestamp()
    WHERE r.read_at <= clock_timestamp() - make_interval(secs => :seconds) OR r.read_at > clock_timestamp()
    RETURNING NOT EXISTS (SELECT FROM mirrorgate.fabric_database
        WHERE tables_at BETWEEN clock_timestamp() - make_interval(secs => :api_seconds) AND clock_timestamp())""")
"""Claim the next reading unless one was claimed less than `seconds` ago; return True if the API's list is too old."""

CHANGED_FAILURES = sa.text("""
    SELECT n.table_id
    FROM unnest(CAST(:table_ids AS bigint[]), CAST(:generations AS integer[]), CAST(:failed AS boolean[]))
        AS n (table_id, generation, has_failed)
    LEFT JOIN mirrorgate.fabric_states m ON m.table_id = n.table_id AND m.generation = n.generation
    WHERE n.has_failed <> coalesce(m.has_failed, false) ORDER BY n.table_id""")
"""Find the tables that have failed or recovered since the report before."""

DELETE_STATUSES = sa.text("DELETE FROM mirrorgate.fabric_states WHERE NOT table_id = ANY(:kept)")
"""Forget the tables that the report no longer lists."""

UPSERT_STATUS = sa.text("""
    INSERT INTO mirrorgate.fabric_states AS f (table_id, generation, state, error, whose, has_failed, processed_rows,
        processed_bytes, last_sync_at)
    VALUES (:table_id, :generation, :state, :error, :whose, :has_failed, :processed_rows, :processed_bytes, :last_sync)
    ON CONFLICT (table_id) DO UPDATE SET generation = excluded.generation, state = excluded.state,
        error = excluded.error, whose = excluded.whose, has_failed = excluded.has_failed,
        processed_rows = excluded.processed_rows, processed_bytes = excluded.processed_bytes,
        last_sync_at = excluded.last_sync_at, read_at = excluded.read_at,
        queryable_at = CASE WHEN f.generation = excluded.generation THEN f.queryable_at END,
        queryable_error = CASE WHEN f.generation = excluded.generation THEN f.queryable_error END""")
"""Store what the report says about a table."""

SELECT_STATUSES = sa.text("""
    SELECT m.table_id, m.state, m.error, m.whose, m.has_failed, m.processed_rows, m.processed_bytes, m.last_sync_at,
        m.read_at, m.queryable_at, m.queryable_error
    FROM mirrorgate.fabric_states m
    JOIN mirrorgate.tables t ON t.table_id = m.table_id AND t.generation = m.generation
    WHERE m.table_id = ANY(:table_ids)""")
"""Read the status of tables, where it is about their current generation."""

SELECT_UNREFRESHED = sa.text("""
    SELECT m.table_id, m.generation, t.name, m.last_sync_at, m.queryable_error
    FROM mirrorgate.fabric_states m
    JOIN mirrorgate.tables t ON t.table_id = m.table_id AND t.generation = m.generation
    WHERE m.last_sync_at > coalesce(m.queryable_at, '-infinity') AND NOT m.has_failed AND t.state <> 'dropped'
    ORDER BY m.table_id""")
"""List the tables that Fabric has synchronized after the SQL endpoint was last refreshed."""

STORE_REFRESH = sa.text("""
    UPDATE mirrorgate.fabric_states SET queryable_error = :error,
        queryable_at = CASE WHEN CAST(:error AS text) IS NULL THEN :synced_at ELSE queryable_at END
    WHERE table_id = :table_id AND generation = :generation""")
"""Store what a refresh of the SQL endpoint did for a table."""

NOTE_FOLDER_GONE = sa.text("""
    UPDATE mirrorgate.tables SET folder_gone_at = least(folder_gone_at, clock_timestamp())
    WHERE table_id = :table_id AND state IN ('dropping', 'rebuilding')
    RETURNING extract(epoch FROM clock_timestamp() - folder_gone_at)::float8""")
"""Store when a dropping table's folder was first found gone, and return the seconds since then."""


@dataclass(frozen=True, slots=True)
class FabricStatus:
    """Fabric's report about a table's current generation, as last read."""

    state: str | None
    error: str | None
    whose: Whose | None
    has_failed: bool
    processed_rows: int | None
    processed_bytes: int | None
    last_sync_at: datetime | None
    read_at: datetime
    queryable_at: datetime | None
    """The last synchronization that queries of the SQL endpoint show, None if that is unknown."""
    queryable_error: str | None
    """Reason why the last refresh of the SQL endpoint does not show the newest version."""

    @property
    def fault(self) -> str | None:
        """Return the error, or the state in which Fabric has given the table up; None if nothing is wrong."""
        return (self.error or self.state or "") if self.has_failed else self.error


def claim_reading(connection: sa.Connection, seconds: float) -> bool:
    """Return whether the caller reads the file now: no drain has claimed a reading in the last `seconds`.

    False also where Fabric's API has listed the tables in the last minutes, because its list is newer than the file.
    A process that dies after this has skipped one reading.
    """
    claimed = connection.execute(CLAIM_READING, {"seconds": seconds, "api_seconds": _API_SECONDS}).scalar_one_or_none()
    return claimed is True


def record_fabric_status(
    connection: sa.Connection, found: Mapping[tuple[TableId, Generation], TableMirroring]
) -> list[TableId]:
    """Replace all stored statuses by those of the report, for these tables in these generations.

    Return the tables that have failed or recovered since the report before, in their order.
    A process that dies before the commit leaves the former statuses.
    """
    in_order = sorted(found.items())
    compared = {
        "table_ids": [table_id for (table_id, _), _ in in_order],
        "generations": [generation for (_, generation), _ in in_order],
        "failed": [mirrored.has_failed for _, mirrored in in_order],
    }
    changed = [TableId(table_id) for table_id in connection.execute(CHANGED_FAILURES, compared).scalars()]
    connection.execute(DELETE_STATUSES, {"kept": compared["table_ids"]})
    rows = [
        {
            "table_id": table_id,
            "generation": generation,
            "state": mirrored.state,
            "error": stored_text(str(mirrored.error)) if mirrored.error else None,
            "whose": mirrored.error.whose if mirrored.error else None,
            "has_failed": mirrored.has_failed,
            "processed_rows": mirrored.processed_rows,
            "processed_bytes": mirrored.processed_bytes,
            "last_sync": mirrored.last_sync,
        }
        for (table_id, generation), mirrored in in_order
    ]
    if rows:
        connection.execute(UPSERT_STATUS, rows)
    return changed


def fabric_statuses(connection: sa.Connection, table_ids: list[TableId]) -> dict[TableId, FabricStatus]:
    """Return the status of these tables, without those that Fabric has not reported in their current generation."""
    rows = connection.execute(SELECT_STATUSES, {"table_ids": table_ids})
    return {TableId(table_id): FabricStatus(*rest) for table_id, *rest in rows}


@dataclass(frozen=True, slots=True)
class Unrefreshed:
    """A table that Fabric has synchronized at `synced_at`, after the SQL endpoint was last refreshed."""

    table_id: TableId
    generation: Generation
    name: TableName
    synced_at: datetime
    error: str | None
    """Reason why the refresh before failed."""


def unrefreshed_tables(connection: sa.Connection) -> list[Unrefreshed]:
    """Return the tables whose newest rows the SQL endpoint may not show yet."""
    rows = connection.execute(SELECT_UNREFRESHED)
    return [
        Unrefreshed(row.table_id, row.generation, TableName.parse(row.name), row.last_sync_at, row.queryable_error)
        for row in rows
    ]


def store_refresh(connection: sa.Connection, results: Iterable[tuple[Unrefreshed, str | None]]) -> None:
    """Store for each table why the refresh failed, or, with None, that queries show what Fabric had synchronized.

    A process that dies before the commit leaves the tables to the next refresh, which changes nothing for them.
    """
    rows = [
        {
            "table_id": table.table_id,
            "generation": table.generation,
            "synced_at": table.synced_at,
            "error": None if error is None else stored_text(error),
        }
        for table, error in results
    ]
    if rows:
        connection.execute(STORE_REFRESH, rows)


def note_folder_gone(connection: sa.Connection, table_id: TableId) -> float:
    """Return for how many seconds the folder of a dropping table has been gone (R5); the first call starts the count.

    A process that dies after the commit leaves the start of the wait, so the next owner waits only for the rest.
    """
    return float(connection.execute(NOTE_FOLDER_GONE, {"table_id": table_id}).scalar_one())
