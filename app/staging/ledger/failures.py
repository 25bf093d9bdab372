"""Why a table's publication fails, since when and how often: written by the drain, shown by the API."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from app.domain.model.table import Table, TableId
from app.domain.publication.failure import Failure

FAILING_AFTER: Final = 3
"""Failed tries in a row after which a table counts as failing: fewer pass by themselves more often than not."""

_LONGEST_DETAIL: Final = 1_000

RECORD = sa.text("""
    INSERT INTO mirrorgate.table_failures AS f (table_id, generation, code, detail, remedy)
    VALUES (:table_id, :generation, :code, :detail, :remedy)
    ON CONFLICT (table_id) DO UPDATE SET
        generation = excluded.generation, code = excluded.code, detail = excluded.detail, remedy = excluded.remedy,
        last_at = excluded.last_at,
        tries = CASE WHEN f.generation = excluded.generation THEN f.tries + 1 ELSE 1 END,
        since = CASE WHEN f.generation = excluded.generation THEN f.since ELSE excluded.since END
    RETURNING tries""")

CLEAR = sa.text("DELETE FROM mirrorgate.table_failures WHERE table_id = ANY(:table_ids)")

HAS_FAILED = sa.text("SELECT EXISTS (SELECT FROM mirrorgate.table_failures WHERE table_id = :table_id)")

IS_FAILING = "(f.tries >= :tries AND t.state IN ('active', 'dropping')) IS TRUE"

SELECT_FAILING = sa.text(f"""
    SELECT f.table_id, f.code, f.detail, f.remedy, f.tries, f.since, f.last_at
    FROM mirrorgate.table_failures f JOIN mirrorgate.tables t USING (table_id, generation)
    WHERE f.table_id = ANY(:table_ids) AND {IS_FAILING}""")  # noqa: S608  # constant text


@dataclass(frozen=True, slots=True)
class TableFailure:
    """The last failure of a table that is failing; `since` is the first of the failed tries in a row."""

    code: str
    detail: str
    remedy: str
    tries: int
    since: datetime
    last_at: datetime


def record_failure(connection: sa.Connection, table: Table, failure: Failure) -> int:
    """Count a failed try of a table; return how many there were in a row."""
    parameters = {
        "table_id": table.table_id,
        "generation": table.generation,
        "code": str(failure.code),
        "detail": failure.detail[:_LONGEST_DETAIL],
        "remedy": failure.remedy,
    }
    return int(connection.execute(RECORD, parameters).scalar_one())


def clear_failures(connection: sa.Connection, table_ids: Collection[TableId]) -> None:
    """Forget the failures of tables that have been published, or that wait for an operator now."""
    connection.execute(CLEAR, {"table_ids": list(table_ids)})


def has_failed(connection: sa.Connection, table_id: TableId) -> bool:
    """Whether the last try of a table failed, by whatever drain."""
    return bool(connection.execute(HAS_FAILED, {"table_id": table_id}).scalar())


def failing_tables(connection: sa.Connection, table_ids: Collection[TableId]) -> dict[TableId, TableFailure]:
    """Those of these tables that have failed FAILING_AFTER times or more in a row, with the last reason."""
    rows = connection.execute(SELECT_FAILING, {"table_ids": list(table_ids), "tries": FAILING_AFTER})
    return {TableId(table_id): TableFailure(*facts) for table_id, *facts in rows}
