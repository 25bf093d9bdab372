"""See from Postgres whether build tasks, on whatever machine, still work: each reads its payloads from here."""

from datetime import datetime

import sqlalchemy as sa

from app.staging.connection.database import translated_errors

SELECT_NEWEST_STATEMENT = sa.text("""
    SELECT max(query_start) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = :application""")


def newest_statement_at(engine: sa.Engine, application: str) -> datetime | None:
    """Return when a connection under this name last sent a statement; None where there is no such connection."""
    with translated_errors(), engine.begin() as connection:
        found: datetime | None = connection.execute(SELECT_NEWEST_STATEMENT, {"application": application}).scalar()
    return found
