"""The revision of the database schema: migrate to it, and check that it fits this program.

A program works with the revision that it was written for, and with each newer one that the database declares
compatible with that program (`installation.oldest_program`). So programs of two versions can run side by side during
an upgrade.

Rejects a connection pooler that gives the server processes of a session to other sessions in between.

In transaction mode, prepared statements and settings of one session meet statements of another. Wrong statements can
then run with parameters that fit them, so no program may start behind such a pooler. A pooler in session mode is fine.
"""

import random
import re
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final

import alembic.command
import sqlalchemy as sa
import structlog
from alembic.config import Config
from alembic.script import ScriptDirectory

from app.staging.connection.advisory_locks import AdvisoryLock, lock_for_transaction
from app.staging.connection.database import answer_within, open_engine, translated_errors
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable

SELECT_BACKEND = sa.text("SELECT pg_backend_pid()")
"""Read the id of the server process that runs the statement."""

_ROUNDS: Final = 5
"""A busy pooler may by chance give a session the same server process again, but hardly so often in a row."""

_PROBE_SECONDS: Final = 10.0
"""Seconds for which the probe may wait for answers; a pooler without a free server process does not answer."""

_REJECTED_PARAMETER: Final = "unsupported startup parameter"
"""Message of PgBouncer if it does not let the settings of a session pass."""

_NO_TRANSACTIONS: Final = "statement pooling mode"
"""Message of PgBouncer about a transaction in statement mode."""


def require_own_sessions(engine: sa.Engine) -> None:
    """Raise Misconfigured `pooler_unusable` unless each session has its own server process.

    Also raised for a pooler that rejects the session's settings. Raises TemporarilyUnavailable if Postgres is
    unreachable.
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


log = structlog.get_logger()

MIGRATIONS: Final = Path(__file__).resolve().parents[3] / "migrations"

SET_LOCK_TIMEOUT = sa.text("SELECT set_config('lock_timeout', :milliseconds, true)")
"""Limit how long this transaction waits for a lock."""

CREATE_SCHEMA = sa.text("CREATE SCHEMA IF NOT EXISTS mirrorgate")
"""Create our schema in a database without one."""

HAS_REVISION = sa.text("SELECT to_regclass('mirrorgate.alembic_version')")
"""Find out whether the database has our schema."""

SELECT_REVISION = sa.text("SELECT version_num FROM mirrorgate.alembic_version")
"""Read the database's revision."""

SELECT_OLDEST_PROGRAM = sa.text("SELECT oldest_program FROM mirrorgate.installation")
"""Read the revision of the oldest program that the database's schema is compatible with."""

_LOCK_MILLISECONDS: Final = 500
"""Milliseconds for which a migration waits for a lock before it starts over; requests queue behind it meanwhile."""

_STATEMENT_SECONDS: Final = 3_600.0
"""Seconds that one statement of a migration may take; it may rewrite a table."""

_MAX_PAUSE_SECONDS: Final = 2.0
"""The longest pause between two attempts."""

_RETRY_SECONDS: Final = 120.0
"""Seconds for which a migration is retried while tables are locked."""
_UNCHANGED: Final = "the database is unchanged"
_LOCKED_REMEDY: Final = (
    "End the sessions with long transactions on the gateway's tables (pg_stat_activity, pg_locks), such as a dump or a "
    "forgotten psql, then run `mirrorgate migrate` again."
)

_OURS: Final = re.compile(r"r\d{4}", re.ASCII)


@cache
def program_revision() -> str:
    """Return the schema revision that this program was written for, which is the oldest one it works with.

    Remembered, because Alembic runs the module of each migration to find it.
    """
    head = ScriptDirectory.from_config(_configuration()).get_current_head()
    assert head is not None
    return head


def migrate(
    database_url: str, revision: str = "head", *, retry_seconds: float = _RETRY_SECONDS
) -> tuple[str | None, str]:
    """Migrate the database to this program's revision, unless it has that revision or a newer one that fits.

    Returns the revisions before and after; the first is None for a database without our schema.

    All steps are one transaction: a process that dies here leaves the old revision. The transaction waits only briefly
    for a lock, because requests queue behind it. It is retried for `retry_seconds`, then this raises
    TemporarilyUnavailable `table_busy`. Raises Misconfigured for a pooler that mixes sessions.
    """
    engine = open_engine(database_url, silence_seconds=_STATEMENT_SECONDS)
    give_up = time.monotonic() + retry_seconds
    try:
        require_own_sessions(engine)
        while True:
            try:
                return _migrate(engine, revision)
            except TemporarilyUnavailable as error:
                pause = random.uniform(0, _MAX_PAUSE_SECONDS)
                if error.code is not Code.TABLE_BUSY:
                    raise
                if time.monotonic() + pause > give_up:
                    detail = (
                        f"for {retry_seconds:.0f} s other sessions held locks that the migration needs; {_UNCHANGED}"
                    )
                    raise TemporarilyUnavailable(error.code, detail, remedy=_LOCKED_REMEDY) from error
                log.info("migration_delayed", detail=error.detail)
                time.sleep(pause)
    finally:
        engine.dispose()


def require_migrated(engine: sa.Engine) -> None:
    """Raise Misconfigured `database_not_migrated` unless the database's revision fits this program.

    Also raise it for a pooler that mixes sessions (`pooler_unusable`): every program calls this before it works.
    """
    require_own_sessions(engine)
    with translated_errors(), engine.connect() as connection:
        found = present_revision(connection)
        if found is None or not fits_this_program(connection, found):
            raise _not_migrated(found)


def check_revisions(database_url: str) -> str:
    """Return a sentence about the revisions of program and database. Raises Misconfigured if they do not fit."""
    engine = open_engine(database_url)
    try:
        require_migrated(engine)
        with translated_errors(), engine.connect() as connection:
            found, oldest = present_revision(connection), connection.execute(SELECT_OLDEST_PROGRAM).scalar_one()
    finally:
        engine.dispose()
    return f"this program needs {program_revision()}; the database has {found}, which fits programs since {oldest}"


def _migrate(engine: sa.Engine, revision: str) -> tuple[str | None, str]:
    with translated_errors(), engine.begin() as connection:
        connection.execute(SET_LOCK_TIMEOUT, {"milliseconds": str(_LOCK_MILLISECONDS)})
        lock_for_transaction(connection, AdvisoryLock.MIGRATION)
        connection.execute(CREATE_SCHEMA)
        found = present_revision(connection)
        if found is not None and _is_newer(found):
            if not fits_this_program(connection, found):
                raise _not_migrated(found)
            return found, found
        configuration = _configuration()
        configuration.attributes["connection"] = connection
        alembic.command.upgrade(configuration, revision)
        return found, str(present_revision(connection))


def present_revision(connection: sa.Connection) -> str | None:
    """Return the database's revision, or None for a database without our schema."""
    exists = connection.execute(HAS_REVISION).scalar_one()
    revision: str | None = connection.execute(SELECT_REVISION).scalar() if exists else None
    return revision


def fits_this_program(connection: sa.Connection, found: str) -> bool:
    """Return true if this program can work with the revision; the schema of a newer one names its oldest program."""
    needed = program_revision()
    if found == needed:
        return True
    return _is_newer(found) and str(connection.execute(SELECT_OLDEST_PROGRAM).scalar_one()) in _known_revisions()


def _is_newer(found: str) -> bool:
    """Return whether a revision is ours and was made after this program. Numbers do not tell: branches choose them."""
    return _OURS.fullmatch(found) is not None and found not in _known_revisions()


@cache
def _known_revisions() -> frozenset[str]:
    """Return this program's revision and all before it."""
    return frozenset(script.revision for script in ScriptDirectory.from_config(_configuration()).walk_revisions())


def _not_migrated(found: str | None) -> Misconfigured:
    needed = program_revision()
    detail = f"the database has revision {found}; this program needs {needed}, or a newer one that fits {needed}"
    return Misconfigured(Code.DATABASE_NOT_MIGRATED, detail)


def _configuration() -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return configuration
