"""migrations/schema.sql is the result of all migrations, with a purpose for everything. `make schema` writes it."""

import re

import psycopg
import pytest
import sqlalchemy as sa

from app.local.embedded import PrivatePostgres
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database
from tools.schema import SCHEMA, render_schema

UNEXPLAINED = """
    SELECT c.relname, coalesce(a.attname, '') FROM pg_class c
    JOIN (SELECT attrelid, attname, attnum FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped
          UNION ALL SELECT oid, NULL, 0 FROM pg_class) a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'mirrorgate'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND NOT EXISTS (
        SELECT FROM pg_description d
        WHERE d.classoid = 'pg_class'::regclass AND d.objoid = c.oid AND d.objsubid = a.attnum)"""


def test_every_table_and_column_has_a_comment(engine: sa.Engine) -> None:
    assert sql.rows(engine, UNEXPLAINED) == []


@pytest.fixture(scope="module")
def migrated(postgres: PrivatePostgres, template_database: str) -> str:
    return create_database(postgres.url, "schema_as_migrated", template=template_database)


def test_the_committed_schema_is_the_one_of_the_migrations(migrated: str) -> None:
    assert SCHEMA.read_text(encoding="utf-8") == render_schema(migrated), "run `make schema` and commit the result"


def test_the_committed_schema_is_sql_that_makes_the_same_tables(postgres: PrivatePostgres) -> None:
    url = create_database(postgres.url, "schema_as_written")
    comments = re.compile(r"^ *-- .*\n", re.MULTILINE)
    text = SCHEMA.read_text(encoding="utf-8")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(text.encode())
    made = render_schema(url)
    assert comments.sub("", made) == comments.sub("", text)
