"""The revision of the database schema: migrate to it, and check that it and the server fit this program.

A program works with the revision that it was written for, and with each newer one that the database declares compatible
with that program (`installation.oldest_program`). So programs of two versions can run side by side during an upgrade.

No program starts behind a connection pooler in transaction mode: prepared statements and settings of one session would
meet statements of another, so wrong statements could run with parameters that fit them. A pooler in session mode is
fine.

`database_facts` reads what preflight judges, such as whether the server keeps what it acknowledges.
"""

import random
import re
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import alembic.command
import psycopg
import sqlalchemy as sa
import structlog
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import sql

from app.domain.preflight import DatabaseFacts
from app.staging.connection.database import (
    AdvisoryLock,
    answer_within,
    disposed,
    driver_url,
    installation_id,
    lock_for_transaction,
    open_engine,
    session_settings,
    translated_errors,
)
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable

log = structlog.get_logger()


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
    give_up = time.monotonic() + retry_seconds
    with disposed(open_engine(database_url, silence_seconds=_STATEMENT_SECONDS)) as engine:
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
    with disposed(open_engine(database_url)) as engine:
        require_migrated(engine)
        with translated_errors(), engine.connect() as connection:
            found, oldest = present_revision(connection), connection.execute(SELECT_OLDEST_PROGRAM).scalar_one()
    return f"this program needs {program_revision()}; the database has {found}, which fits programs since {oldest}"


def _migrate(engine: sa.Engine, revision: str) -> tuple[str | None, str]:
    with translated_errors(), engine.begin() as connection:
        connection.execute(SET_LOCK_TIMEOUT, {"milliseconds": str(_LOCK_MILLISECONDS)})
        lock_for_transaction(connection, AdvisoryLock.MIGRATION)
        connection.execute(CREATE_SCHEMA)
        found = present_revision(connection)
        encoding = connection.execute(SELECT_SETTINGS, {"names": ["server_encoding"]}).one().setting
        if found is None and encoding != "UTF8":
            remedy = "Create the database with ENCODING 'UTF8' TEMPLATE template0."
            raise Misconfigured(Code.BAD_SETTING, f"the database has the encoding {encoding}, not UTF8", remedy=remedy)
        if found is not None and found not in _known_revisions():
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


SELECT_SETTINGS = sa.text("SELECT name, setting FROM pg_settings WHERE name = ANY(:names)")
"""Read settings of the session."""

SELECT_SERVER = sa.text("""
    SELECT pg_is_in_recovery() AS in_recovery, extract(epoch FROM clock_timestamp())::float8 AS now""")
"""Read the server's role and its clock."""

COUNT_FUTURE_BLOCKS = sa.text("""
    SELECT count(*) FROM mirrorgate.table_counters c
    JOIN mirrorgate.tables t ON t.table_id = c.table_id
    JOIN mirrorgate.staged_blocks b ON b.table_id = t.table_id AND b.generation = t.generation
      AND b.first_sequence > c.published_through AND b.staged_at > clock_timestamp() + interval '1 second'
    WHERE c.last_sequence > c.published_through""")
"""Count pending blocks from the future, which a server clock that went back leaves behind."""

COUNT_STANDBYS = sa.text("SELECT count(*) FROM pg_stat_replication")
"""Count the connections that replicate the server. Their states are visible to `pg_read_all_stats` only."""

LISTEN: Final = sql.SQL("LISTEN {}")
"""Receive the notifications of a channel on this connection."""

NOTIFY: Final = "SELECT pg_notify(%s, '')"
"""Send a notification to a channel."""

_SERVER_SETTINGS: Final = (
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "transaction_read_only",
    "synchronous_standby_names",
    "server_version",
    "server_version_num",
)
_NOTIFICATION_SECONDS: Final = 0.5
"""Seconds that a notification may take to arrive."""


def database_facts(engine: sa.Engine) -> DatabaseFacts:
    """Read the facts over connections like those that stage and publish.

    Raises TemporarilyUnavailable, and Misconfigured for a pooler that mixes sessions.
    """
    require_own_sessions(engine)
    with translated_errors(), engine.connect() as connection:
        names = [*_SERVER_SETTINGS, *session_settings()]
        rows = connection.execute(SELECT_SETTINGS, {"names": names})
        settings: dict[str, str] = dict(map(tuple, rows))
        before = time.time()
        server = connection.execute(SELECT_SERVER).one()
        clock_behind = server.now - (before + time.time()) / 2
        standbys = connection.execute(COUNT_STANDBYS).scalar_one()
        revision = present_revision(connection)
        fits = revision is not None and fits_this_program(connection, revision)
        future = connection.execute(COUNT_FUTURE_BLOCKS).scalar_one() if fits else 0
    return DatabaseFacts(
        version=int(settings["server_version_num"]),
        version_text=settings["server_version"],
        fsync=settings["fsync"],
        full_page_writes=settings["full_page_writes"],
        synchronous_commit=settings["synchronous_commit"],
        in_recovery=server.in_recovery,
        read_only=settings["transaction_read_only"],
        session_settings={name: (asked, settings[name]) for name, asked in session_settings().items()},
        heard_itself=_hears_itself(driver_url(engine)),
        through_pooler=through_pooler(engine),
        revision=revision,
        wanted_revision=program_revision(),
        revision_fits=fits,
        clock_behind_seconds=clock_behind,
        future_batches=future,
        standbys=standbys,
        synchronous_standby_names=settings["synchronous_standby_names"],
    )


def present_installation(engine: sa.Engine) -> UUID | None:
    """Return the database's installation id, or None without our schema. Raises TemporarilyUnavailable."""
    with translated_errors(), engine.connect() as connection:
        return installation_id(connection) if present_revision(connection) is not None else None


def _hears_itself(database_url: str) -> bool:
    """Return True if a notification reaches another connection."""
    channel = f"mirrorgate_probe_{uuid4().hex}"
    try:
        with (
            psycopg.connect(database_url, autocommit=True, connect_timeout=5) as listener,
            psycopg.connect(database_url, autocommit=True, connect_timeout=5) as sender,
        ):
            listener.execute(LISTEN.format(sql.Identifier(channel)))
            sender.execute(NOTIFY, [channel])
            return bool([*listener.notifies(timeout=_NOTIFICATION_SECONDS, stop_after=1)])
    except psycopg.Error as error:
        raise TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres does not answer") from error
