"""What became of a transaction whose COMMIT was not answered.

Its id alone does not tell: Postgres that has crashed gives an id again if nothing of the first transaction had
reached its log. So the block that the transaction staged is looked for too, by the instant at which it was staged.
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

SELECT_STATUS = sa.text("SELECT pg_xact_status(CAST(:transaction_id AS xid8))")

SELECT_STAGED_AT = sa.text("""
    SELECT staged_at FROM mirrorgate.staged_blocks
    WHERE table_id = :table_id AND generation = :generation AND first_sequence = :first_sequence""")

PATIENCE_SECONDS: Final = 3.0
"""How long a lost connection's transaction may still be in progress, and a database be away, before we give up."""

_PAUSE_SECONDS: Final = 0.1
"""Between two questions to a database that may be starting."""


@dataclass(frozen=True, slots=True)
class TransactionId:
    """What tells a transaction from all others: its id, and the instant at which it staged a block, if any."""

    transaction_id: str
    block: BatchKey | None
    staged_at: datetime | None


def current_transaction_id(connection: sa.Connection) -> TransactionId:
    """The transaction that is open, and has staged no block; one that has is told by `stage_block`."""
    [(transaction_id,)] = driver_rows(connection, SELECT_TRANSACTION, {})
    return TransactionId(transaction_id, None, None)


def is_committed(engine: sa.Engine, transaction: TransactionId, patience_seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether the transaction is durable. Raises TemporarilyUnavailable `commit_unknown` while nobody can tell.

    After a restart Postgres tells a transaction that was in progress as aborted, which it is, or as what became of
    a later one with the same id: then its block is not there. Of a transaction without a block nobody can tell.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            with answer_within(max(1.0, patience_seconds)), engine.connect() as connection:
                own = {"transaction_id": transaction.transaction_id}
                status = connection.execute(SELECT_STATUS, own).scalar()
                if status == "committed" and transaction.block is not None:
                    # A statement of its own: one that also asks for the status may see what was before the commit.
                    table_id, generation, first_sequence = transaction.block
                    keys = {"table_id": table_id, "generation": generation, "first_sequence": first_sequence}
                    staged_at = connection.execute(SELECT_STAGED_AT, keys).scalar()
                    return bool(staged_at == transaction.staged_at)
                if status == "aborted":
                    return False
        except (sa.exc.DBAPIError, sa.exc.TimeoutError):
            pass  # asked again until the patience is over
        if time.monotonic() >= deadline:
            raise TemporarilyUnavailable(Code.COMMIT_UNKNOWN, "the connection was lost during COMMIT")
        time.sleep(_PAUSE_SECONDS)
