"""Engines for Postgres: sessions with our settings, bounded waits and a pool that replaces broken connections.

Staging's callers import `Engine` and `Connection` from here, so that SQLAlchemy remains inside staging.

A connection never waits forever for an answer. TCP detects a dead peer, but neither a proxy that acknowledges
everything and forwards nothing, nor a stopped server process. Each wait therefore has its own deadline. A connection
that misses it is closed, and the pool replaces it. As after any lost connection, it is unknown whether the server still
executes the statement.

Postgres errors are translated by SQLSTATE ("Appendix A. PostgreSQL Error Codes" of its documentation). A temporary
condition becomes TemporarilyUnavailable (503; the client retries). Data that Postgres cannot store becomes
RejectedInput (422; the same request would always fail). Every other error is a bug of ours and remains as it is (500).

All numbers of advisory locks are here, because two purposes with one number would silently block each other. The locks
of idempotency keys have no fixed number: `batches.idempotency` derives 64 bits from each key, and a key that shares a
number with another one only waits for it.
"""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Any, Final, Self
from uuid import UUID

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import make_conninfo

from mirrorgate.errors import Code, MirrorgateError, Misconfigured, RejectedInput, TemporarilyUnavailable


@dataclass(slots=True)
class _Budget:
    """The seconds that this thread may still wait for Postgres."""

    left: float


_BUDGET: ContextVar[_Budget | None] = ContextVar("budget", default=None)

CONNECT_SECONDS: Final = 5
"""Timeout of one attempt to connect."""

KEEPALIVES: Final = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Let the kernel give up a dead peer after 15 to 25 s instead of 15 minutes. Unix sockets ignore these settings."""


@contextmanager
def answer_within(seconds: float) -> Iterator[None]:
    """Limit the time that this thread waits for Postgres in the block to `seconds` in total, connecting included.

    Time between statements does not count. Inside the block this limit replaces the connections' own limit of a
    single wait; it may be shorter or longer.
    """
    token = _BUDGET.set(_Budget(seconds))
    try:
        yield
    finally:
        _BUDGET.reset(token)


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that closes itself and raises psycopg.OperationalError when an answer takes too long."""

    silence_seconds: float = 30.0
    """Seconds that one answer may take outside `answer_within`."""

    @classmethod
    def open(cls, *arguments: Any, silence_seconds: float, **parameters: Any) -> Self:
        """Connect like psycopg.connect, within the time that `answer_within` leaves."""
        budget = _BUDGET.get()
        if budget is not None:
            if budget.left <= 0:
                raise psycopg.OperationalError("no time is left to connect to Postgres")
            parameters["connect_timeout"] = max(1, min(CONNECT_SECONDS, round(budget.left)))
        started = time.monotonic()
        try:
            connection = cls.connect(*arguments, **parameters)
        finally:
            if budget is not None:
                budget.left -= time.monotonic() - started
        connection.silence_seconds = silence_seconds
        return connection

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Run one exchange with the server within the deadline; psycopg calls this for each of its waits."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        budget = _BUDGET.get()
        seconds = self.silence_seconds if budget is None else max(0.0, budget.left)
        started = time.monotonic()
        try:
            return super().wait(gen, interval, seconds)
        except psycopg.OperationalError as error:
            if error.sqlstate is not None or time.monotonic() - started < seconds:
                raise
            self.close()
            raise psycopg.OperationalError(f"Postgres has not answered for {seconds:.1f} s") from error
        finally:
            if budget is not None:
                budget.left -= time.monotonic() - started


_BUSY: Final = frozenset({"55P03", "40P01", "40001"})
"""Lock timeout, deadlock, and serialization failure."""

_READ_ONLY: Final = frozenset({"25006"})
"""The server is a standby or read-only, for example after a failover that the connection survived."""

_TEMPORARY: Final = {
    "08": "Postgres does not answer",
    "53": "Postgres has no disk space, memory or connections left",
    "57": "Postgres is stopping, starting or has canceled the statement",
    "58": "Postgres cannot read or write its files",
    "25P03": "Postgres has ended a transaction that was idle for too long (idle_in_transaction_session_timeout)",
    "25P04": "Postgres has ended a transaction that took too long (transaction_timeout)",
    "42501": "Postgres denies a right to the role, which has to own the database",
}
"""Strings for the caller, by state or by the state's class (its first two characters)."""

_LOST_SESSIONS: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
"""States after which the server has ended the session."""

_BAD_DATA: Final = frozenset({"22", "54"})
"""Classes "data exception" and "program limit exceeded"; an index row, for example, fits a third of a page at most."""

BOUNDED: Final = "_is_bounded"
"""Suffix of the CHECK constraints that bound a string of a request; the other constraints guard our own invariants."""


def translated_error(error: sa.exc.DBAPIError) -> MirrorgateError | None:
    """Return the error for the caller; None if the cause is neither a temporary condition nor the request."""
    state = _state(error)
    if state in _BUSY:
        return TemporarilyUnavailable(Code.TABLE_BUSY, "the table is locked by another transaction")
    if state in _READ_ONLY:
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres accepts no writes: it is read-only")
    never_sent = not state and isinstance(error, sa.exc.DataError)  # psycopg itself rejects U+0000
    if never_sent or state[:2] in _BAD_DATA or (state == "23514" and _constraint(error).endswith(BOUNDED)):
        return RejectedInput(Code.UNSTORABLE, "Postgres cannot store a string of this request")
    temporary = _TEMPORARY.get(state) or _TEMPORARY.get(state[:2])
    if temporary is not None:
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, temporary)
    never_answered = not state and isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
    if never_answered or error.connection_invalidated:
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres does not answer")
    return None


def ends_session(error: BaseException | None) -> bool:
    """Return true if the connection must be replaced after this error, although it may still be open.

    A connection to a server that has become read-only remains with that server; only a new one finds the new primary.
    """
    return isinstance(error, psycopg.Error) and (error.sqlstate or "") in _READ_ONLY | _LOST_SESSIONS


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate database errors of the block with `error_for_caller`, keeping the cause."""
    try:
        yield
    except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
        raise error_for_caller(error) from error


def error_for_caller(error: Exception) -> Exception:
    """Return what a database error means for the caller; any other error is returned as it is."""
    if isinstance(error, sa.exc.DBAPIError):
        return translated_error(error) or error
    if isinstance(error, sa.exc.TimeoutError):
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "no free database connection")
    return error


def _state(error: sa.exc.DBAPIError) -> str:
    return (error.orig.sqlstate or "") if isinstance(error.orig, psycopg.Error) else ""


def _constraint(error: sa.exc.DBAPIError) -> str:
    return (error.orig.diag.constraint_name or "") if isinstance(error.orig, psycopg.Error) else ""


MAX_OVERFLOW: Final = 5
"""Connections that a pool opens beyond its size while all others are in use."""


class WatchedPool(sa.pool.QueuePool):
    """SQLAlchemy's default pool, which also counts the threads that ask for a connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._asking = 0
        self._asking_lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """The number of threads that wait for a connection, for its ping or until it is open."""
        return self._asking

    @property
    def limit(self) -> int:
        """The most connections that the pool opens."""
        return self.size() + MAX_OVERFLOW

    def connect(self) -> sa.PoolProxiedConnection:
        """Return a connection, as QueuePool does."""
        with self._asking_lock:
            self._asking += 1
        try:
            return super().connect()
        finally:
            with self._asking_lock:
                self._asking -= 1


def watched_pool(engine: sa.Engine) -> WatchedPool:
    """Return the pool of an engine of `open_engine`."""
    assert isinstance(engine.pool, WatchedPool)
    return engine.pool


Engine = sa.Engine
Connection = sa.Connection
"""Names for callers outside staging, which hold a database or pass on an open transaction."""

SILENCE_SECONDS: Final = 30.0
"""Seconds for which a connection waits for one answer by default."""

_LOCK_MILLISECONDS: Final = 2_000
"""Milliseconds for which a statement waits for a lock: Postgres's `lock_timeout`."""

_TRANSACTION_MILLISECONDS: Final = 30_000
"""Milliseconds for which a transaction may be idle before Postgres ends it."""

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
    url = parse_database_url(database_url)
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
            "options": " ".join("-c {}={}".format(name, value.replace(" ", r"\ ")) for name, value in settings.items()),
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
def disposed(engine: sa.Engine) -> Iterator[sa.Engine]:
    """Yield an engine, and close its connections at the end of the block."""
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def read_snapshot(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Begin a transaction that only reads, and whose statements all see the database as it was at one moment."""
    with engine.connect() as session:
        connection = session.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connection.begin():
            yield connection


def parse_database_url(database_url: str) -> sa.URL:
    """Return a database address, without connecting. Raises Misconfigured `bad_setting` for an invalid one."""
    try:
        url = sa.make_url(_HOSTS.sub(_hosts_as_parameters, database_url, count=1)).set(drivername="postgresql+psycopg")
        if "@" in (url.host or ""):
            raise ValueError("the password has an @, and errors would show what is behind it as the host")
        make_conninfo(**url.get_dialect()().create_connect_args(url)[1])  # knows the parameters of libpq
    except (sa.exc.ArgumentError, psycopg.ProgrammingError, ValueError):  # not chained: messages have the password
        raise Misconfigured(
            Code.BAD_SETTING,
            "MIRRORGATE_DATABASE_URL is not a valid database address",
            remedy="Use postgresql://user:password@host:port/database, with parameters of libpq after `?`. Encode "
            "special characters of the password: %40 for @, %2F for /, %3A for : and %25 for %.",
        ) from None
    return url


_HOSTS: Final = re.compile(r"^([\w+]+://(?:[^/?]*@)?)([^/?@]*,[^/?@]*)(/[^?]*)?(?:\?|$)")
"""An address that names several hosts, up to its parameters."""

_HOST_PARAMETER: Final = re.compile(r"(?:[^&]*&)*(?:host|port)=")


def _hosts_as_parameters(address: re.Match[str]) -> str:
    """Name the hosts of a primary and its standbys in parameters: only libpq reads them as `host:port,host:port`."""
    if _HOST_PARAMETER.match(address.string, address.end()):
        raise ValueError("the hosts are named twice")
    hosts = [_host_and_port(host) for host in address[2].split(",")]
    names, ports = ",".join([host for host, _ in hosts]), ",".join([port for _, port in hosts])
    return f"{address[1]}{address[3] or '/'}?host={names}&port={ports}&"


def _host_and_port(text: str) -> tuple[str, str]:
    """Return a host without brackets, and its port or the default. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text, ""
    return host.strip("[]"), str(int(port or 5432))


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
        "DateStyle": "ISO, MDY",
        "extra_float_digits": "1",
        "client_encoding": "UTF8",
        "default_transaction_isolation": "read committed",
    }


def driver_url(engine: sa.Engine) -> str:
    """Return what the engine connects with, in psycopg's form. It contains the password: never log it."""
    _, parameters = engine.dialect.create_connect_args(engine.url)
    return make_conninfo(**{name: value for name, value in parameters.items() if name != "context"})


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


@contextmanager
def session_lock(engine: sa.Engine, lock: AdvisoryLock) -> Iterator[sa.Connection | None]:
    """Give one process at a time a session with the lock, and the others None, without waiting.

    The lock belongs to the session, so it ends with a process that dies. Each statement of the session is committed.
    """
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
        if not session.execute(TRY_LOCK_FOR_SESSION, {"number": lock.value}).scalar_one():
            yield None
            return
        try:
            yield session
        finally:
            if not session.invalidated:
                session.execute(UNLOCK_SESSION, {"number": lock.value})
