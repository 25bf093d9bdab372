"""Verification of a COMMIT whose answer was lost.

`pg_xact_status` alone does not tell: after a crash Postgres reuses the id of a transaction of which nothing had
reached its log. So the staged block is looked up too, and recognized by the time at which it was staged.
"""

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from app.errors import Code, TemporarilyUnavailable
from app.staging.batches.batch import BatchKey
from app.staging.connection.bounded_connection import answer_within
from app.staging.connection.raw_sql import driver_rows

SELECT_TRANSACTION: Final = "SELECT CAST(pg_current_xact_id() AS text)"
"""Read the id of the open transaction."""

SELECT_STATUS = sa.text("SELECT pg_xact_status(CAST(:xid AS xid8))")
"""Read what became of a transaction: `in progress`, `committed`, `aborted`, or NULL if that is forgotten."""

SELECT_STAGED_AT = sa.text("""
    SELECT staged_at FROM mirrorgate.staged_blocks
    WHERE table_id = :table_id AND generation = :generation AND first_sequence = :first_sequence""")
"""Read when a block was staged."""

MAX_SECONDS: Final = 3.0
"""How long to ask while the transaction is still in progress or the database does not answer."""

_PAUSE_SECONDS: Final = 0.1
"""The pause between two attempts; the database may be starting."""


@dataclass(frozen=True, slots=True)
class TransactionId:
    """The identity of a transaction: its Postgres id, and the block that it staged, if any, with the time."""

    xid: str
    block: BatchKey | None
    staged_at: datetime | None


def current_transaction_id(connection: sa.Connection) -> TransactionId:
    """Return the identity of an open transaction without a block; `stage_block` returns that of one with a block."""
    [(xid,)] = driver_rows(connection, SELECT_TRANSACTION, {})
    return TransactionId(xid, None, None)


def is_committed(engine: sa.Engine, transaction: TransactionId, max_seconds: float = MAX_SECONDS) -> bool:
    """Return true if the transaction is durable.

    Raises TemporarilyUnavailable `commit_unknown` if that is still unknown after `max_seconds`. After a restart
    Postgres reports a transaction that was in progress as aborted, or, if its id was reused, the outcome of the later
    one; the block is then missing. The outcome of a committed id without a block therefore stays unknown.
    """
    deadline = time.monotonic() + max_seconds
    while True:
        try:
            with answer_within(max(1.0, max_seconds)), engine.connect() as connection:
                status = connection.execute(SELECT_STATUS, {"xid": transaction.xid}).scalar()
                if status == "committed" and transaction.block is not None:
                    # A separate statement: one that also read the status could have a snapshot from before the COMMIT.
                    table_id, generation, first_sequence = transaction.block
                    keys = {"table_id": table_id, "generation": generation, "first_sequence": first_sequence}
                    staged_at = connection.execute(SELECT_STAGED_AT, keys).scalar()
                    return bool(staged_at == transaction.staged_at)
                if status == "aborted":
                    return False
        except (sa.exc.DBAPIError, sa.exc.TimeoutError):
            pass  # tried again until the deadline
        if time.monotonic() >= deadline:
            raise TemporarilyUnavailable(Code.COMMIT_UNKNOWN, "the connection was lost during COMMIT")
        time.sleep(_PAUSE_SECONDS)
