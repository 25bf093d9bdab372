"""Databases in the tests' own Postgres: create, address, empty."""

import sqlalchemy as sa

from app.errors import Misconfigured
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import require_migrated

_KEPT = frozenset({"alembic_version", "installation", "payload_buckets"})


def create_database(server_url: str, name: str, template: str = "template1") -> None:
    engine = open_engine(server_url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
    engine.dispose()


def database_in(server_url: str, name: str) -> str:
    url = sa.make_url(server_url).set(database=name)
    return url.render_as_string(hide_password=False)


def emptied(database_url: str) -> bool:
    """Empty a database; return whether it is like new.

    It is not while others are connected to it, when its revision is not the program's, or when a payload partition is
    closed.
    """
    engine = open_engine(database_url)
    try:
        require_migrated(engine)
        with engine.begin() as connection:
            others = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            closed = "SELECT count(*) FROM mirrorgate.payload_buckets WHERE state = 'closed'"
            if connection.execute(sa.text(others)).scalar_one() or connection.execute(sa.text(closed)).scalar_one():
                return False
            clear(connection, restart_ids=True)
            connection.execute(
                sa.text("UPDATE mirrorgate.installation SET marker_first = NULL, mask_fingerprint = NULL")
            )
            return True
    except Misconfigured:
        return False
    finally:
        engine.dispose()


def clear(connection: sa.Connection, *, restart_ids: bool) -> None:
    """Delete every row of ours; the ids go on where a running program may remember them."""
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'mirrorgate'"
    sequences = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'mirrorgate'"
    statements = ["SET LOCAL session_replication_role = replica"]  # foreign keys need no order
    names = {*connection.execute(sa.text(tables)).scalars()} - _KEPT
    statements += [f"DELETE FROM mirrorgate.{name}" for name in sorted(names)]
    if restart_ids:
        names = {*connection.execute(sa.text(sequences)).scalars()}
        statements += [f"ALTER SEQUENCE mirrorgate.{name} RESTART" for name in sorted(names)]
    connection.execute(sa.text("; ".join(statements)))


def clone_database(database_url: str, name: str) -> str:
    """Make a database that is what this one is now, as a restored backup would be; its address."""
    url = sa.make_url(database_url)
    server = open_engine(database_in(database_url, "postgres"))
    with server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        others = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = :name AND backend_type = 'client backend'"
        )
        connection.execute(sa.text(others), {"name": url.database})
    server.dispose()
    create_database(database_in(database_url, "postgres"), name, template=str(url.database))
    return database_in(database_url, name)
