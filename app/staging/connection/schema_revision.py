"""The database's schema revision: bringing it forward, and telling whether this program can work with it.

A program supports the revision it was written with, and each newer one whose database says that it still serves
programs of that revision: so programs of two versions run side by side while an upgrade is rolled out.
"""

import random
import re
import time
from pathlib import Path
from typing import Final

import alembic.command
import sqlalchemy as sa
import structlog
from alembic.config import Config
from alembic.script import ScriptDirectory

from app.errors import Code, Misconfigured, TemporarilyUnavailable
from app.staging.connection.advisory_locks import AdvisoryLock, lock_for_transaction
from app.staging.connection.database import open_engine, translated_errors

log = structlog.get_logger()

MIGRATIONS: Final = Path(__file__).resolve().parents[3] / "migrations"

SET_LOCK_TIMEOUT = sa.text("SELECT set_config('lock_timeout', :milliseconds, true)")

SELECT_REVISION = sa.text("SELECT version_num FROM mirrorgate.alembic_version")

SELECT_OLDEST_PROGRAM = sa.text("SELECT oldest_program FROM mirrorgate.installation")

_LOCK_MILLISECONDS: Final = 500
"""How long a migration may wait for a lock, and requests behind it, before it gives way and tries again."""

_STEP_SECONDS: Final = 3_600.0
"""What one statement of a migration may take: it may rewrite a table."""

_MAX_PAUSE_SECONDS: Final = 2.0
_PATIENCE: Final = 120.0

_OURS: Final = re.compile(r"r\d{4}", re.ASCII)


def program_revision() -> str:
    """The schema revision that this program was written with; the oldest one it works with."""
    head = ScriptDirectory.from_config(_configuration()).get_current_head()
    assert head is not None
    return head


def migrate(database_url: str, revision: str = "head", *, patience: float = _PATIENCE) -> tuple[str | None, str]:
    """Bring the database to this program's schema revision; no-op when it is there, or newer and fits.

    Returns the revision before, None for a database that had none, and the one after.

    One transaction: a process that dies here leaves the old revision. It never waits long for a lock that requests
    would then queue behind; it begins again for `patience` seconds, then raises TemporarilyUnavailable `table_busy`.
    """
    engine = open_engine(database_url, silence_seconds=_STEP_SECONDS)
    give_up = time.monotonic() + patience
    try:
        while True:
            try:
                return _migrate(engine, revision)
            except TemporarilyUnavailable as error:
                pause = random.uniform(0, _MAX_PAUSE_SECONDS)
                if error.code is not Code.TABLE_BUSY or time.monotonic() + pause > give_up:
                    raise
                log.info("migration_delayed", detail=error.detail)
                time.sleep(pause)
    finally:
        engine.dispose()


def require_migrated(engine: sa.Engine) -> None:
    """Raises Misconfigured `database_not_migrated` unless the database's revision serves this program."""
    with translated_errors(), engine.connect() as connection:
        found = present_revision(connection)
        if found is None or not serves_this_program(connection, found):
            raise _unfit(found)


def check_revisions(database_url: str) -> str:
    """A sentence on what the database and this program need of each other. Raises Misconfigured where they differ."""
    engine = open_engine(database_url)
    try:
        require_migrated(engine)
        with translated_errors(), engine.connect() as connection:
            found, oldest = present_revision(connection), connection.execute(SELECT_OLDEST_PROGRAM).scalar_one()
    finally:
        engine.dispose()
    return f"this program needs {program_revision()}; the database has {found}, which serves programs from {oldest} on"


def _migrate(engine: sa.Engine, revision: str) -> tuple[str | None, str]:
    with translated_errors(), engine.begin() as connection:
        connection.execute(SET_LOCK_TIMEOUT, {"milliseconds": str(_LOCK_MILLISECONDS)})
        lock_for_transaction(connection, AdvisoryLock.MIGRATION)
        connection.execute(sa.text("CREATE SCHEMA IF NOT EXISTS mirrorgate"))
        found = present_revision(connection)
        if found is not None and _is_newer(found):
            if not serves_this_program(connection, found):
                raise _unfit(found)
            return found, found
        configuration = _configuration()
        configuration.attributes["connection"] = connection
        alembic.command.upgrade(configuration, revision)
        return found, str(present_revision(connection))


def present_revision(connection: sa.Connection) -> str | None:
    """The database's revision; None for a database without our schema."""
    exists = connection.execute(sa.text("SELECT to_regclass('mirrorgate.alembic_version')")).scalar_one()
    revision: str | None = connection.execute(SELECT_REVISION).scalar() if exists else None
    return revision


def serves_this_program(connection: sa.Connection, found: str) -> bool:
    """Whether this program can work with the revision; a newer one says itself whom it serves."""
    needed = program_revision()
    if found == needed:
        return True
    return _is_newer(found) and str(connection.execute(SELECT_OLDEST_PROGRAM).scalar_one()) <= needed


def _is_newer(found: str) -> bool:
    return _OURS.fullmatch(found) is not None and found > program_revision()


def _unfit(found: str | None) -> Misconfigured:
    needed = program_revision()
    detail = f"the database has revision {found}, this program needs {needed} or a newer one that serves {needed}"
    return Misconfigured(Code.DATABASE_NOT_MIGRATED, detail)


def _configuration() -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return configuration
