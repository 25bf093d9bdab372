"""Connections to Postgres."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

import psycopg
import psycopg.errors
import sqlalchemy as sa

from app.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable

Engine = sa.Engine
Connection = sa.Connection
"""Under these names callers hold a database and pass an open transaction on; they need not know whose they are."""

_CONNECT_SECONDS: Final = 5
_LOCK_MILLISECONDS: Final = 2_000
_TRANSACTION_MILLISECONDS: Final = 30_000
_BINARY: Final = "mirrorgate_binary"
BINARY_RESULT: Final = {_BINARY: True}
"""Execution options of a statement whose result comes in binary form: bytes as text take three times as long."""


def open_engine(database_url: str, *, pool_size: int = 5, application: str = "mirrorgate") -> sa.Engine:
    """An engine for `postgresql://…`. A transaction of a stalled process gives its locks back by itself."""
    url = sa.make_url(database_url).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(
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
    sa.event.listen(engine, "before_cursor_execute", _choose_format)
    return engine


def _choose_format(_: object, cursor: Any, __: str, ___: object, context: Any, ____: bool) -> None:
    if context.execution_options.get(_BINARY):
        cursor.format = psycopg.pq.Format.BINARY


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


def installation_id(connection: sa.Connection) -> UUID:
    """The id that this database was given when it was first migrated."""
    found: UUID = connection.execute(sa.text("SELECT installation_id FROM mirrorgate.installation")).scalar_one()
    return found


def pin_marker_position(engine: sa.Engine, *, marker_first: bool) -> None:
    """Landing files have the row marker where the first program that started on this database was told to put it.

    Raises Misconfigured `bad_setting` for another place: files and metadata chains that exist would contradict it.
    """
    statement = """UPDATE mirrorgate.installation SET marker_first = coalesce(marker_first, :marker_first)
        RETURNING marker_first"""
    with translated_errors(), engine.begin() as connection:
        pinned = connection.execute(sa.text(statement), {"marker_first": marker_first}).scalar_one()
    if pinned != marker_first:
        place = "first" if pinned else "last"
        raise Misconfigured(
            Code.BAD_SETTING,
            f"the landing files of this database have the row marker as their {place} column",
            remedy=f"Set MIRRORGATE_ROW_MARKER_POSITION={place}, or begin with a new database and landing zone.",
        )


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
