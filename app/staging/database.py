"""Connections to Postgres, and the check that its schema fits this program."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final
from uuid import UUID

import alembic.command
import psycopg.errors
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory

from app.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable

Engine = sa.Engine
Connection = sa.Connection
"""Under these names callers hold a database and pass an open transaction on; they need not know whose they are."""

MIGRATIONS: Final = Path(__file__).resolve().parents[2] / "migrations"
_MIGRATION_LOCK: Final = 7_246_011_002
"""Advisory lock: two programs that migrate at once take turns."""

_CONNECT_SECONDS: Final = 5
_LOCK_MILLISECONDS: Final = 2_000
_TRANSACTION_MILLISECONDS: Final = 30_000


def open_engine(database_url: str, *, pool_size: int = 5, application: str = "mirrorgate") -> sa.Engine:
    """An engine for `postgresql://…`. A transaction of a stalled process gives its locks back by itself."""
    url = sa.make_url(database_url).set(drivername="postgresql+psycopg")
    return sa.create_engine(
        url,
        pool_size=pool_size,
        max_overflow=5,
        pool_pre_ping=True,
        hide_parameters=True,
        connect_args={
            "connect_timeout": _CONNECT_SECONDS,
            "application_name": application,
            "options": " ".join(f"-c {name}={value}" for name, value in session_settings().items()),
        },
    )


def session_settings() -> dict[str, str]:
    """What every connection asks for, as Postgres shows it."""
    return {
        "lock_timeout": str(_LOCK_MILLISECONDS),
        "idle_in_transaction_session_timeout": str(_TRANSACTION_MILLISECONDS),
        "TimeZone": "UTC",
    }


def driver_url(engine: sa.Engine) -> str:
    """The engine's address in the driver's own form, password included: never log it."""
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=False)


def migrate(database_url: str) -> None:
    """Bring the database to this program's schema revision; no-op when it is there.

    One transaction: a process that dies here leaves the old revision.
    """
    engine = open_engine(database_url)
    try:
        with translated_errors(), engine.begin() as connection:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
            connection.execute(sa.text("CREATE SCHEMA IF NOT EXISTS mirrorgate"))
            configuration = _alembic_configuration()
            configuration.attributes["connection"] = connection
            alembic.command.upgrade(configuration, "head")
    finally:
        engine.dispose()


def require_migrated(engine: sa.Engine) -> None:
    """Raises Misconfigured `database_not_migrated` unless the database has exactly this program's revision."""
    with translated_errors(), engine.connect() as connection:
        found, expected = present_revision(connection), own_revision()
    if found != expected:
        raise Misconfigured(
            Code.DATABASE_NOT_MIGRATED, f"the database has revision {found}, this program needs {expected}"
        )


@cache
def own_revision() -> str | None:
    """The schema revision that this program needs."""
    return ScriptDirectory.from_config(_alembic_configuration()).get_current_head()


def present_revision(connection: sa.Connection) -> str | None:
    """The schema revision that the database has, None before its first migration."""
    exists = connection.execute(sa.text("SELECT to_regclass('mirrorgate.alembic_version')")).scalar_one()
    if not exists:
        return None
    return connection.execute(sa.text("SELECT version_num FROM mirrorgate.alembic_version")).scalar()


def installation_id(connection: sa.Connection) -> UUID:
    """The id that this database was given when it was first migrated."""
    found: UUID = connection.execute(sa.text("SELECT installation_id FROM mirrorgate.installation")).scalar_one()
    return found


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn the driver's connection and lock errors into TemporarilyUnavailable; the cause is kept."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise unavailable(error) or error from error
    except sa.exc.TimeoutError as error:
        raise TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "no free database connection") from error


def unavailable(error: sa.exc.DBAPIError) -> MirrorgateError | None:
    """What a driver error means for the caller, None when it is no passing condition."""
    if isinstance(error.orig, psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected):
        return TemporarilyUnavailable(Code.TABLE_BUSY, "the table is locked by another transaction")
    if isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError) or error.connection_invalidated:
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres does not answer")
    return None


def _alembic_configuration() -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return configuration
