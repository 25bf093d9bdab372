"""Rejects a connection pooler that gives the server processes of a session to other sessions in between.

In transaction mode, prepared statements and settings of one session meet statements of another. Wrong statements can
then run with parameters that fit them, so no program may start behind such a pooler. A pooler in session mode is fine.
"""

from contextlib import ExitStack
from typing import Final

import sqlalchemy as sa

from app.errors import Code, Misconfigured, TemporarilyUnavailable
from app.staging.connection.bounded_connection import answer_within
from app.staging.connection.database_errors import translated_errors

SELECT_BACKEND = sa.text("SELECT pg_backend_pid()")
"""Read the id of the server process that runs the statement."""

_ROUNDS: Final = 5
"""A busy pooler may by chance give a session the same server process again, but hardly so often in a row."""

_PROBE_SECONDS: Final = 10.0
"""How long the probe may wait for answers; a pooler without a free server process does not answer."""

_REJECTED_PARAMETER: Final = "unsupported startup parameter"
"""What PgBouncer says if it does not let the settings of a session pass."""

_NO_TRANSACTIONS: Final = "statement pooling mode"
"""What PgBouncer says of a transaction in statement mode."""


def require_own_sessions(engine: sa.Engine) -> None:
    """Raise Misconfigured `pooler_unusable` unless each session has its own server process.

    Also raised for a pooler that rejects the session's settings. Raises TemporarilyUnavailable if Postgres is away.
    """
    try:
        with translated_errors(), answer_within(_PROBE_SECONDS):
            shared = through_pooler(engine) and _shares_processes(engine)
    except TemporarilyUnavailable as error:
        shared = _NO_TRANSACTIONS in str(error.__cause__)
        if not shared and _REJECTED_PARAMETER not in str(error.__cause__):
            raise
        if not shared:
            raise _rejected() from error
    if shared:
        raise Misconfigured(
            Code.POOLER_UNUSABLE,
            "a connection pooler in transaction or statement mode lets sessions share server processes",
        )


def _rejected() -> Misconfigured:
    return Misconfigured(
        Code.POOLER_UNUSABLE,
        "the connection pooler rejects the settings that a session asks for (startup parameter `options`)",
        remedy="Connect past the pooler. Or set `pool_mode = session` and `ignore_startup_parameters = options` in "
        "pgbouncer.ini, and set what `mirrorgate doctor` then names for the role: ALTER ROLE … SET ….",
    )


def through_pooler(engine: sa.Engine) -> bool:
    """Return True if the server process is not the one that the connection was opened with."""
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        return driver is None or connection.execute(SELECT_BACKEND).scalar_one() != driver.info.backend_pid


def _shares_processes(engine: sa.Engine) -> bool:
    """Return True if a session changes its server process between statements, or shares it with an open transaction."""
    with ExitStack() as stack:
        session = stack.enter_context(engine.connect().execution_options(isolation_level="AUTOCOMMIT"))
        other = stack.enter_context(engine.connect())
        own = session.execute(SELECT_BACKEND).scalar_one()
        for _ in range(_ROUNDS):
            if other.execute(SELECT_BACKEND).scalar_one() == own or session.execute(SELECT_BACKEND).scalar_one() != own:
                return True
            other.rollback()
    return False
