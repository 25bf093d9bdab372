"""The roles and the database of the private Postgres, and the URLs under which they are reached."""

from pathlib import Path
from typing import Final
from urllib.parse import quote

from app.local.embedded.postgres_programs import run_program

NAME: Final = "mirrorgate"
"""Name of the database, and of the superuser of the cluster, which only creates what the gateway owns."""

_ROLE: Final = "gateway"
"""The role of the gateway: owner of its database and no superuser. As a superuser, SQL could read the machine's files
with the capability of Postgres (decision 0004)."""

_CREATE_DATABASE: Final = f"""
SELECT 'CREATE ROLE {_ROLE} LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{_ROLE}') \\gexec
SELECT 'CREATE DATABASE {NAME} OWNER {_ROLE}' WHERE NOT EXISTS
    (SELECT FROM pg_database WHERE datname = '{NAME}') \\gexec
ALTER DATABASE {NAME} OWNER TO {_ROLE};
\\connect {NAME}
"""  # noqa: S608  # constant text
"""Create the role and the database. psql runs each step only where it is missing."""

_HAND_OVER: Final = f"""
DO $$
DECLARE
    act text;
BEGIN
    FOR act IN
        SELECT format('ALTER SCHEMA %I OWNER TO {_ROLE}', nspname) FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' AND nspowner = '{NAME}'::regrole
        UNION ALL
        SELECT format('ALTER TABLE %s OWNER TO {_ROLE}', c.oid::regclass) FROM pg_class c
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S') AND c.relowner = '{NAME}'::regrole
          AND c.relnamespace::regnamespace::text !~ '^(pg_|information_schema)'
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
              AND d.deptype IN ('a', 'i') AND c.relkind = 'S')
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO {_ROLE}', p.oid::regprocedure) FROM pg_proc p
        WHERE p.proowner = '{NAME}'::regrole AND p.pronamespace::regnamespace::text !~ '^(pg_|information_schema)'
    LOOP
        EXECUTE act;
    END LOOP;
END $$;
"""  # noqa: S608  # constant text
"""Give the gateway's role what the superuser owns in data directories of earlier versions, in one transaction.
Sequences that belong to a column follow their table."""

_CREATE_WITHIN: Final = 60.0


def gateway_url(socket_folder: Path) -> str:
    """Return the URL of the database for the gateway's own role."""
    # The port is explicit because a PGPORT in a client's environment would replace the default.
    return f"postgresql://{_ROLE}@/{NAME}?host={quote(str(socket_folder))}&port=5432"


def superuser_url(socket_folder: Path) -> str:
    """Return the URL of the database for the superuser, which the gateway never uses."""
    return gateway_url(socket_folder).replace(f"//{_ROLE}@", f"//{NAME}@", 1)


def create_database(programs: Path, socket_folder: Path) -> None:
    """Create role and database if they are missing, and give the role what it owns.

    After a crash here, the next start does the remaining steps.
    """
    administration = superuser_url(socket_folder).replace(f"/{NAME}?", "/postgres?")
    command = [str(programs / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", administration]
    run_program(command, timeout=_CREATE_WITHIN, given=_CREATE_DATABASE + _HAND_OVER)
