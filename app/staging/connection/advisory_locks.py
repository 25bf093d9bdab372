"""Advisory locks of Postgres that the processes of one gateway take, with the numbers that name them.

All fixed numbers are in this module, because two purposes with one number would silently block each other. The locks
of idempotency keys have no fixed number: `batches.idempotency` derives 64 bits from each key, and a key that shares
a number with another one only waits for it.
"""

from enum import IntEnum, unique
from typing import Final

import sqlalchemy as sa


@unique
class AdvisoryLock(IntEnum):
    """The purpose of each fixed advisory lock."""

    MIGRATION = 7_246_011_002
    """Let one program at a time migrate the schema. Held to the end of the migration's transaction."""

    ROUTING = 7_246_011_003
    """Let one transaction at a time change which table a name leads to."""

    RETENTION = 7_246_011_004
    """Let one process at a time run retention. Held by a session; it ends with the session's connection."""

    LAYOUTS = 7_246_011_005
    """Let one transaction at a time change layouts, so that each change has one audit event."""

    ALERTS = 7_246_011_006
    """Let one API process at a time look for alerts and tell them. Held by a session."""


LOCK_FOR_TRANSACTION: Final = sa.text("SELECT pg_advisory_xact_lock(:number)")
"""Wait for a lock, and hold it until the transaction ends."""

TRY_LOCK_FOR_SESSION: Final = sa.text("SELECT pg_try_advisory_lock(:number)")
"""Take a lock for the session without waiting; false where another session has it."""

UNLOCK_SESSION: Final = sa.text("SELECT pg_advisory_unlock(:number)")
"""Release a lock of the session."""


def lock_for_transaction(connection: sa.Connection, lock: AdvisoryLock) -> None:
    """Wait for a lock, and hold it until the transaction ends."""
    connection.execute(LOCK_FOR_TRANSACTION, {"number": lock.value})


def try_lock_for_session(connection: sa.Connection, lock: AdvisoryLock) -> bool:
    """Take a lock without waiting, until `unlock_session` or the end of the connection; false where another has it."""
    return bool(connection.execute(TRY_LOCK_FOR_SESSION, {"number": lock.value}).scalar_one())


def unlock_session(connection: sa.Connection, lock: AdvisoryLock) -> None:
    """Release a lock that `try_lock_for_session` took on this connection."""
    connection.execute(UNLOCK_SESSION, {"number": lock.value})
