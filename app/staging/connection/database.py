"""Connections to Postgres."""

from typing import Any, Final
from uuid import UUID

import psycopg
import sqlalchemy as sa

from app.errors import Code, Misconfigured
from app.staging.connection.bounded_connection import CONNECT_SECONDS, KEEPALIVES, BoundedConnection, answer_within
from app.staging.connection.database_errors import ends_session, translated_errors

__all__ = [
    "BINARY_RESULT",
    "Connection",
    "Engine",
    "answer_within",
    "driver_url",
    "installation_id",
    "open_engine",
    "pin_marker_position",
    "session_settings",
    "translated_errors",
]

Engine = sa.Engine
Connection = sa.Connection
"""Under these names callers hold a database and pass an open transaction on; they need not know whose they are."""

SILENCE_SECONDS: Final = 30.0
"""How long a connection may wait for one answer where nothing else is said."""

_LOCK_MILLISECONDS: Final = 2_000
_TRANSACTION_MILLISECONDS: Final = 30_000
_PING_SECONDS: Final = 3.0
"""A connection from the pool that does not answer a ping within this time is replaced."""

_BINARY: Final = "mirrorgate_binary"
BINARY_RESULT: Final = {_BINARY: True}
"""Execution options of a statement whose result comes in binary form: bytes as text take three times as long."""


def open_engine(
    database_url: str,
    *,
    pool_size: int = 5,
    application: str = "mirrorgate",
    silence_seconds: float = SILENCE_SECONDS,
    bound_statements: bool = False,
) -> sa.Engine:
    """Open an engine for `postgresql://…` whose connections are closed and replaced when they are silent.

    With `bound_statements` the server, too, ends a statement, or a transaction that its client has left, after
    `silence_seconds`: an abandoned one gives its locks back by then. A migration must not be bounded so.

    Raises Misconfigured `bad_setting` for a text that is no such address.
    """
    url = _parsed(database_url).set(drivername="postgresql+psycopg")
    settings = session_settings()
    if bound_statements:
        milliseconds = str(round(1_000 * silence_seconds))
        settings |= {"statement_timeout": milliseconds, "idle_in_transaction_session_timeout": milliseconds}
    engine = sa.create_engine(
        url,
        pool_size=pool_size,
        max_overflow=5,
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


def check_database_url(database_url: str) -> None:
    """Raise Misconfigured `bad_setting` for a text that is no address of a database; connects to none."""
    _parsed(database_url)


def _parsed(database_url: str) -> sa.URL:
    try:
        return sa.make_url(database_url)
    except (sa.exc.ArgumentError, ValueError):  # their texts hold the password
        raise Misconfigured(
            Code.BAD_SETTING,
            "MIRRORGATE_DATABASE_URL is no address of a database",
            remedy="Write postgresql://user:password@host:port/database, and in a password %40 for @, %2F for /, "
            "%3A for : and %25 for %.",
        ) from None


def _choose_format(_: object, cursor: Any, __: str, ___: object, context: Any, ____: bool) -> None:
    if context.execution_options.get(_BINARY):
        cursor.format = psycopg.pq.Format.BINARY


def _replace_connections(context: sa.engine.ExceptionContext) -> None:
    if ends_session(context.original_exception):
        context.is_disconnect = True


def _bound_ping(dialect: Any) -> None:
    """Let the pool's ping of a connection take a short time only; the limit of statements is far longer."""
    ping = dialect.do_ping

    def do_ping(connection: Any) -> bool:
        with answer_within(_PING_SECONDS):
            return bool(ping(connection))

    dialect.do_ping = do_ping


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
