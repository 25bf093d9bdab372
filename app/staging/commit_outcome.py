"""What became of a transaction whose COMMIT was not answered."""

import time
from typing import Final

import sqlalchemy as sa

from app.errors import Code, TemporarilyUnavailable

SELECT_TRANSACTION = sa.text("SELECT CAST(pg_current_xact_id() AS text)")
SELECT_STATUS = sa.text("SELECT pg_xact_status(CAST(:transaction_id AS xid8))")

PATIENCE_SECONDS: Final = 3.0
"""How long a lost connection's transaction may still be in progress, and a database be away, before we give up."""

_PAUSE_SECONDS: Final = 0.1


def current_transaction(connection: sa.Connection) -> str:
    """The id of the open transaction."""
    transaction_id: str = connection.execute(SELECT_TRANSACTION).scalar_one()
    return transaction_id


def committed(engine: sa.Engine, transaction_id: str, patience_seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether the transaction is durable. Raises TemporarilyUnavailable `commit_unknown` while nobody can tell.

    After a restart Postgres tells a transaction that was in progress as aborted, which it is.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            with engine.connect() as connection:
                status = connection.execute(SELECT_STATUS, {"transaction_id": transaction_id}).scalar()
            if status in {"committed", "aborted"}:
                return bool(status == "committed")
        except (sa.exc.DBAPIError, sa.exc.TimeoutError):
            pass  # asked again until the patience is over
        if time.monotonic() >= deadline:
            raise TemporarilyUnavailable(Code.COMMIT_UNKNOWN, "the connection was lost during COMMIT")
        time.sleep(_PAUSE_SECONDS)
