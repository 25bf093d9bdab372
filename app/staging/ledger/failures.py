"""The failures of a table's publication: written by the drain, shown by the API.

A row per failing table, which its next success deletes.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from app.domain.model.table import Table, TableId
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
