"""Facts about the Postgres server for the preflight checks, such as whether it keeps what it acknowledges."""

import time
from typing import Final
from uuid import UUID, uuid4

import psycopg
import sqlalchemy as sa
from psycopg import sql

from app.domain.preflight import DatabaseFacts
from app.staging.connection.database import (
    driver_url,
    installation_id,
    session_settings,
    translated_errors,
)
from app.staging.connection.schema_revision import (
    fits_this_program,
    present_revision,
    program_revision,
    require_own_sessions,
    through_pooler,
)
from mirrorgate.errors import Code, TemporarilyUnavailable

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
