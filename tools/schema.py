"""Write migrations/schema.sql, the whole database schema with its comments, from a migrated database: `make schema`.

Until the first release the baseline revision reads this file, so that `make schema` brings an edit into pg_dump's form.

The text is pg_dump's, sorted by table. What pg_dump writes as separate statements (keys, foreign keys, identities,
comments) is moved into its table, and what depends on the version or the owner is left out.
"""

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import sqlalchemy as sa

from app.local.embedded import PrivatePostgres, find_programs
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import migrate

SCHEMA: Final = Path(__file__).resolve().parents[1] / "migrations" / "schema.sql"

HEADER: Final = """\
-- The database schema, with the purpose of each table and column in the line above it. Until the first release, edit
-- this file and run `make schema`, which writes it again from a database that it made; a test compares the two.
-- Alembic makes alembic_version; app/staging/retention/payload_partitions.py makes the partitions of block_payloads.
"""

TABLES: Final = sa.text("""
    SELECT relname FROM pg_class
    WHERE relnamespace = 'mirrorgate'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        AND relname <> 'alembic_version'
    ORDER BY oid""")
"""List the tables without Alembic's and the payload partitions, in the order of their creation."""


@dataclass(slots=True)
class _Table:
    """The statements of a table, before they are put together."""

    create: str = ""
    constraints: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def render_schema(database_url: str) -> str:
    """Return the schema of a database as readable SQL, with the purpose of each table and column above it."""
    engine = open_engine(database_url)
    with engine.connect() as connection:
        tables = {str(name): _Table() for name in connection.execute(TABLES).scalars()}
    engine.dispose()
    purposes: defaultdict[str, str] = defaultdict(lambda: "Without a comment.")
    functions: list[str] = []
    views: list[str] = []
    for kind, statement in _entries(_dump(database_url)):
        if kind in ("SCHEMA", "FUNCTION"):
            functions.append(statement)
        elif kind == "VIEW":
            views.append(statement)
        elif kind == "COMMENT":
            purposes |= _purpose(statement)
        else:
            _add(tables, statement)
    first, last = ([_with_purpose(statement, purposes) for statement in found] for found in (functions, views))
    parts = [HEADER, *first, *(_render(name, table, purposes) for name, table in tables.items()), *last]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def main() -> None:
    """Write the file from a new database."""
    with TemporaryDirectory() as folder, PrivatePostgres(Path(folder)) as server:
        migrate(server.url)
        SCHEMA.write_text(render_schema(server.url), encoding="utf-8")


def _dump(database_url: str) -> str:
    options = ["--schema-only", "--no-owner", "--no-privileges", "--schema=mirrorgate"]
    program = str(find_programs() / "pg_dump")
    left_out = ["--exclude-table=mirrorgate.block_payloads_*", "--exclude-table=mirrorgate.alembic_version"]
    command = [program, *options, *left_out, database_url]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def _entries(dump: str) -> Iterator[tuple[str, str]]:
    """Split a dump into its entries: their types and statements, without what differs between versions of pg_dump."""
    dump = dump.partition("\n--\n-- PostgreSQL database dump complete")[0]
    _, *parts = re.split(r"^--\n-- Name: .+; Type: (.+); Schema: .+\n--\n", dump, flags=re.MULTILINE)
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        text = re.sub(r"^SET .+;\n", "", text, flags=re.MULTILINE)
        yield kind, re.sub(r" CONSTRAINT \w+_not_null\d* NOT NULL", " NOT NULL", text).strip()


def _purpose(statement: str) -> dict[str, str]:
    """Return the comment of a COMMENT statement, by what it is about: `tables`, `tables.name`, `current_bucket()`."""
    found = re.fullmatch(r"COMMENT ON \w+ mirrorgate\.(\S+) IS '(.+)';", statement)
    assert found is not None, statement
    return {found[1]: found[2].replace("''", "'")}


def _with_purpose(statement: str, purposes: dict[str, str]) -> str:
    about = re.match(r"CREATE (?:FUNCTION|VIEW) mirrorgate\.(\S+)", statement)
    return f"-- {purposes[about[1]]}\n{statement}" if about else statement


def _add(tables: dict[str, _Table], statement: str) -> None:
    """Put a statement to its table."""
    found = re.search(r"(?:CREATE TABLE|ALTER TABLE(?: ONLY)?|INDEX \w+ ON|TRIGGER .+ ON) mirrorgate\.(\w+)", statement)
    assert found is not None, statement
    table = tables[found[1]]
    if statement.startswith("CREATE TABLE"):
        table.create = re.sub(r"\n(?:    )?(CASE|WHEN|ELSE|END)\b", r" \1", statement).replace("( CASE", "(CASE")
    elif identity := re.search(r"ALTER COLUMN (\w+) ADD (GENERATED .+? AS IDENTITY)", statement):
        table.create = re.sub(rf"^    {identity[1]} (\w+)", rf"\g<0> {identity[2]}", table.create, flags=re.MULTILINE)
    elif (constraint := re.search(r"ADD (CONSTRAINT .+);", statement)) and "NOT VALID" not in statement:
        table.constraints.append(f"    {constraint[1]}")
    else:
        table.after.append(re.sub(r"\n +", " ", statement))


def _render(name: str, table: _Table, purposes: dict[str, str]) -> str:
    create, *after = table.create.split(";\n")
    opening, *lines, closing = re.split(r"\n(?=    |\))", create)
    lines = [line.removesuffix(",") for line in lines]
    columns = [line for line in lines if not line.startswith("    CONSTRAINT ")]
    others = [line for line in lines if line.startswith("    CONSTRAINT ")]
    body = ",\n".join(f"    -- {purposes[f'{name}.{line.split()[0]}']}\n{line}" for line in columns)
    body = ",\n".join([body, *table.constraints, *others])
    created = f"-- {purposes[name]}\n{opening}\n{body}\n{closing.rstrip(';')};"
    return "\n".join([created, *(f"{statement.rstrip(';')};" for statement in (*after, *table.after))])


if __name__ == "__main__":
    main()
