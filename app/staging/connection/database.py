"""Engines for Postgres: sessions with our settings, bounded waits and a pool that replaces broken connections.

Staging's callers import `Engine` and `Connection` from here, so that SQLAlchemy stays inside staging.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

import psycopg
import sqlalchemy as sa

from app.errors import Code, Misconfigured
from app.staging.connection.bounded_connection import CONNECT_SECONDS, KEEPALIVES, BoundedConnection, answer_within
from app.staging.connection.database_errors import ends_session, translated_errors
from app.staging.connection.watched_pool import MAX_OVERFLOW, WatchedPool

__all__ = [
    "BINARY_RESULT",
    "Connection",
    "Engine",
    "answer_within",
    "driver_url",
    "installation_id",
    "open_engine",
    "pin_marker_position",
    "read_snapshot",
    "session_settings",
    "translated_errors",
]

Engine = sa.Engine
Connection = sa.Connection
"""Names for callers outside staging, which hold a database or pass on an open transaction."""

SILENCE_SECONDS: Final = 30.0
"""How long a connection waits for one answer by default."""

_LOCK_MILLISECONDS: Final = 2_000
"""How long a statement waits for a lock: Postgres's `lock_timeout`."""

_TRANSACTION_MILLISECONDS: Final = 30_000
"""How long a transaction may be idle before Postgres ends it."""

_PING_SECONDS: Final = 3.0
"""The pool replaces a connection that does not answer a ping within this time."""

_BINARY: Final = "mirrorgate_binary"
BINARY_RESULT: Final = {_BINARY: True}
"""Execution options that fetch a result in binary form; `bytea` values as text take three times as long."""

SELECT_INSTALLATION_ID = sa.text("SELECT installation_id FROM mirrorgate.installation")
"""Read the database's installation id."""

PIN_MARKER_POSITION = sa.text("""
    UPDATE mirrorgate.installation SET marker_first = coalesce(marker_first, :marker_first)
    RETURNING marker_first""")
"""Set the position of the row marker unless it is set, and return the position that holds."""


def open_engine(
    database_url: str,
    *,
    pool_size: int = 5,
    application: str = "mirrorgate",
    silence_seconds: float = SILENCE_SECONDS,
    bound_statements: bool = False,
) -> sa.Engine:
    """Open an engine for `postgresql://…` that closes and replaces connections whose answers take too long.

    With `bound_statements` the server also cancels a statement, and ends an idle transaction, after
    `silence_seconds`. An abandoned transaction then releases its locks by that time. Migrations must not set it.

    Raises Misconfigured `bad_setting` for an invalid address.
    """
    url = _parsed(database_url).set(drivername="postgresql+psycopg")
    settings = session_settings()
    if bound_statements:
        milliseconds = str(round(1_000 * silence_seconds))
        settings |= {"statement_timeout": milliseconds, "idle_in_transaction_session_timeout": milliseconds}
    engine = sa.create_engine(
        url,
        pool_size=pool_size,
        poolclass=WatchedPool,
        max_overflow=MAX_OVERFLOW,
        pool_timeout=min(SILENCE_SECONDS, silence_seconds),
        pool_pre_ping=True,
        hide_parameters=True,
        connect_args={
            "connect_timeout": CONNECT_SECONDS,
            "application_name": application,
            "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
            **{name: value for name, value in KEEPALIVES.items() if name not in url.query},
        },
    )

    def connect(_: object, __: object, arguments: Any, parameters: Any) -> BoundedConnection:
        return BoundedConnection.open(*arguments, silence_seconds=silence_seconds, **parameters)

    sa.event.listen(engine, "do_connect", connect)
    sa.event.listen(engine, "before_cursor_execute", _choose_format)
    sa.event.listen(engine, "handle_error", _replace_connections)
    _bound_ping(engine.dialect)
    return engine


@contextmanager
def read_snapshot(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Begin a transaction that only reads, and whose statements all see the database as it was at one moment."""
    with engine.connect() as session:
        connection = session.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connection.begin():
            yield connection


def check_database_url(database_url: str) -> None:
    """Raise Misconfigured `bad_setting` for an invalid database address, without connecting."""
    _parsed(database_url)


def _parsed(database_url: str) -> sa.URL:
    try:
        return sa.make_url(database_url)
    except (sa.exc.ArgumentError, ValueError):  # not chained: their messages contain the password
        raise Misconfigured(
            Code.BAD_SETTING,
            "MIRRORGATE_DATABASE_URL is not a valid database address",
            remedy="Use postgresql://user:password@host:port/database. Encode special characters of the password: "
            "%40 for @, %2F for /, %3A for : and %25 for %.",
        ) from None


def _choose_format(_: object, cursor: Any, __: str, ___: object, context: Any, ____: bool) -> None:
    if context.execution_options.get(_BINARY):
        cursor.format = psycopg.pq.Format.BINARY


def _replace_connections(context: sa.engine.ExceptionContext) -> None:
    if ends_session(context.original_exception):
        context.is_disconnect = True


def _bound_ping(dialect: Any) -> None:
    """Limit the pool's ping of a connection to a short time; the limit of statements is far longer."""
    ping = dialect.do_ping

    def do_ping(connection: Any) -> bool:
        with answer_within(_PING_SECONDS):
            return bool(ping(connection))

    dialect.do_ping = do_ping


def session_settings() -> dict[str, str]:
    """Return the settings of every session, with values as `SHOW` prints them."""
    return {
        "lock_timeout": str(_LOCK_MILLISECONDS),
        "idle_in_transaction_session_timeout": str(_TRANSACTION_MILLISECONDS),
        "TimeZone": "UTC",
    }


def driver_url(engine: sa.Engine) -> str:
    """Return the engine's address in psycopg's form. It contains the password: never log it."""
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=False)


def installation_id(connection: sa.Connection) -> UUID:
    """Return the id that the first migration gave this database."""
    found: UUID = connection.execute(SELECT_INSTALLATION_ID).scalar_one()
    return found


def pin_marker_position(engine: sa.Engine, *, marker_first: bool) -> None:
    """Record the position of the row marker in landing files; the first program that starts on a database sets it.

    Raises Misconfigured `bad_setting` for the other position, which existing files and metadata chains contradict.
    """
    with translated_errors(), engine.begin() as connection:
        pinned = connection.execute(PIN_MARKER_POSITION, {"marker_first": marker_first}).scalar_one()
    if pinned != marker_first:
        position = "first" if pinned else "last"
        raise Misconfigured(
            Code.BAD_SETTING,
            f"the landing files of this database have the row marker as their {position} column",
            remedy=f"Set MIRRORGATE_ROW_MARKER_POSITION={position}, or start with a new database and landing zone.",
        )
