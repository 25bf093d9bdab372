"""What the gateway reports: its counts per table, and how many files it has recorded as published."""

import sqlalchemy as sa

from app.staging.tables.registry import list_tables
from app.staging.tables.status import count_tables
from tests.chaos.checks.journal import Life
from tests.chaos.checks.oracle import Counts

RECORDED = sa.text("""
    SELECT t.name, t.generation, c.recorded_file_number FROM mirrorgate.tables t
    JOIN mirrorgate.table_counters c USING (table_id)""")


def counts_of(engine: sa.Engine) -> dict[str, Counts]:
    with engine.begin() as connection:
        tables = list_tables(connection)
        counts = count_tables(connection, [table.table_id for table in tables])
        return {
            str(table.name): Counts(
                table.generation,
                table.state,
                counts[table.table_id].accepted_rows,
                counts[table.table_id].staged_rows,
                counts[table.table_id].published_rows,
            )
            for table in tables
        }


def recorded_files(engine: sa.Engine) -> dict[Life, int]:
    """Return the highest recorded file number per table and current generation."""
    with engine.begin() as connection:
        return {(name, generation): number for name, generation, number in connection.execute(RECORDED)}
