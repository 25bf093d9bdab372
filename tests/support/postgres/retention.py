"""Run retention in tests, and read what remains."""

from dataclasses import replace

import sqlalchemy as sa

from app.staging.retention.payload_partitions import find_partitions
from app.staging.retention.rounds import RetentionLimits, RetentionReport, run_retention
from tests.support.postgres import sql

AT_ONCE = RetentionLimits(keep_seconds=0, keep_bytes=2**40, quiet_seconds=0)
"""Everything is old as soon as it is there: each round closes the open partition and drops it."""

WEEK = replace(AT_ONCE, keep_seconds=7 * 86_400.0)


def purge(engine: sa.Engine, limits: RetentionLimits = AT_ONCE) -> RetentionReport:
    report = run_retention(engine, limits)
    assert report is not None
    return report


def partition_states(engine: sa.Engine) -> dict[int, str]:
    """Return the state of each partition, or how far its detaching has got."""
    partitions = sql.call(engine, find_partitions)
    return {p.number: str(p.state if p.attachment == "attached" else p.attachment) for p in partitions}


def partitions_of_payloads(engine: sa.Engine) -> dict[int, int]:
    """Return the partition of each payload of the only table that has any, by first sequence."""
    stored = sql.rows(engine, "SELECT first_sequence, bucket FROM mirrorgate.block_payloads ORDER BY 1")
    facts = sql.rows(
        engine,
        """SELECT first_sequence, bucket FROM mirrorgate.staged_blocks
        JOIN mirrorgate.block_payloads USING (table_id, generation, first_sequence, bucket) ORDER BY 1""",
    )
    assert facts == stored, "the facts say where the payloads are"
    return dict(stored)


def count(engine: sa.Engine, table: str) -> int:
    rows: int = sql.value(engine, f"SELECT count(*) FROM mirrorgate.{table}")
    return rows
