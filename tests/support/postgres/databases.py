"""Databases in the tests' own Postgres: create, address, empty."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import sqlalchemy as sa

from app.local.embedded import PrivatePostgres
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import migrate, program_revision
from tests.support.waiting import wait_until

_KEPT = frozenset({"alembic_version", "installation", "payload_buckets"})
_TABLES = """
    ARRAY(SELECT relname::text FROM pg_class WHERE relnamespace = 'mirrorgate'::regnamespace AND relkind = 'r')"""
"""The tables that hold rows, which partitioned ones do not."""

_RESTART_IDS = """
    SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid
    WHERE relnamespace = 'mirrorgate'::regnamespace"""
"""Takes a tenth of the time of ALTER SEQUENCE, which makes new files."""

_LEFT_BY_A_TEST = """
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()),
    (SELECT version_num FROM mirrorgate.alembic_version),
    (SELECT count(*) FROM mirrorgate.payload_buckets WHERE state = 'closed')"""
"""The connections of others, the revision, and the closed payload partitions."""

_DISCONNECT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = :name AND backend_type = 'client backend'"""


@contextmanager
def private_database(folder: Path) -> Iterator[tuple[str, sa.Engine]]:
    """Run a Postgres in the folder; yield the address of its migrated database, and an engine."""
    with PrivatePostgres(folder) as server:
        migrate(server.url)
        engine = open_engine(server.url)
        try:
            yield server.url, engine
        finally:
            engine.dispose()


def create_database(server_url: str, name: str, template: str = "template1") -> str:
    """Create a database as a copy of the template; return its address."""
    engine = open_engine(server_url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
    engine.dispose()
    return database_in(server_url, name)


def database_in(server_url: str, name: str) -> str:
    url = sa.make_url(server_url).set(database=name)
    return url.render_as_string(hide_password=False)


def emptied(database_url: str) -> bool:
    """Empty a database; return whether it is like new.

    It is not while others are connected to it, when its revision is not the program's, or when a payload partition is
    closed. This runs before most tests, so it uses one plain connection: an engine takes three times as long.
    """
    with psycopg.connect(database_url) as connection:
        try:
            found = connection.execute(f"SELECT {_LEFT_BY_A_TEST}, {_TABLES}").fetchone()
        except (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedTable):
            return False
        assert found is not None
        *left, tables = found
        if left != [0, program_revision(), 0]:
            return False
        connection.execute(_deletions(tables).encode())
        connection.execute(_RESTART_IDS)
        connection.execute("UPDATE mirrorgate.installation SET marker_first = NULL, mask_fingerprint = NULL")
        return True


def clear(connection: sa.Connection, *, restart_ids: bool) -> None:
    """Delete every row of ours; the ids go on where a running program may remember them."""
    tables = connection.execute(sa.text(f"SELECT {_TABLES}")).scalar_one()
    connection.execute(sa.text(_deletions(tables)))
    if restart_ids:
        connection.execute(sa.text(_RESTART_IDS))


def _deletions(tables: list[str]) -> str:
    statements = ["SET LOCAL session_replication_role = replica"]  # foreign keys need no order
    return "; ".join(statements + [f"DELETE FROM mirrorgate.{name}" for name in sorted({*tables} - _KEPT)])


def clone_database(database_url: str, name: str) -> str:
    """Make a database that is what this one is now, as a restored backup would be; its address."""
    url = sa.make_url(database_url)
    _run_on_server(database_url, _DISCONNECT, name=url.database)
    return create_database(database_in(database_url, "postgres"), name, template=str(url.database))


def put_back(database_url: str, backup_url: str) -> None:
    """Let the backup take the place of the database, under programs that are connected to it."""
    name, backup = sa.make_url(database_url).database, sa.make_url(backup_url).database
    wait_until(lambda: _is_dropped(database_url, name), within=60, what="the database is dropped")
    _run_on_server(database_url, f'ALTER DATABASE "{backup}" RENAME TO "{name}"')


def _is_dropped(database_url: str, name: str | None) -> bool:
    """Drop the database; return false while it is vacuumed by Postgres itself, which only a superuser can end."""
    try:
        _run_on_server(database_url, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    except sa.exc.ProgrammingError as error:
        if isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
            return False
        raise
    return True


def _run_on_server(database_url: str, statement: str, **parameters: object) -> None:
    server = open_engine(database_in(database_url, "postgres"))
    try:
        with server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text(statement), parameters)
    finally:
        server.dispose()
