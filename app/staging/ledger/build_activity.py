"""Tells from Postgres whether build tasks still work, on whatever machine: each reads its payloads from here.

The driver of a stuck Spark cannot ask its executors (decision 0025).
"""

from datetime import datetime

import sqlalchemy as sa

from app.staging.connection.database import translated_errors

SELECT_NEWEST_STATEMENT = sa.text("""
    SELECT max(query_start) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = :application""")
"""Find when any connection with this application name last sent a statement."""


def newest_statement_at(engine: sa.Engine, application: str) -> datetime | None:
    """Return when a connection with this name last sent a statement, None if there is no such connection."""
    with translated_errors(), engine.begin() as connection:
        found: datetime | None = connection.execute(SELECT_NEWEST_STATEMENT, {"application": application}).scalar()
    return found
