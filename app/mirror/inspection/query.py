"""Runs SQL of a user over mirrored tables with DuckDB, read only.

Tables are visible as `schema.table` and as `table`. Only those that the SQL names are opened, as Arrow datasets, so
DuckDB reads only the columns and row groups that it needs. The SQL has to be one SELECT (or EXPLAIN, DESCRIBE, SHOW,
SUMMARIZE); the engine is locked before it runs, so it reaches no file, address or extension.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from app.errors import Code, RejectedInput
from app.mirror.inspection.opening import (
    PointInTime,
    find_table,
    matching_tables,
    open_table,
    reading,
    table_names,
    unknown_table,
)
from app.mirror.inspection.sql_engine import DEFAULT_MEMORY, SqlEngine, identifier, open_engine
from app.mirror.target import MirrorTarget, arrow_dataset

_EXPLAIN: Final = re.compile(r"\s*explain(\s+analyze)?\b", re.IGNORECASE)
_MISSED_TABLE: Final = re.compile(r"Table with name (.+) does not exist")
_READS: Final = frozenset({"SELECT", "EXPLAIN"})


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The columns of a result, and its rows in batches, which are computed as they are read."""

    columns: list[str]
    batches: Iterator[list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class _NamedTable:
    """A table as the SQL names it: an empty schema is none."""

    schema: str
    name: str

    @property
    def sql(self) -> str:
        return f"{identifier(self.schema or 'main')}.{identifier(self.name)}"

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


@contextmanager
def run_query(
    target: MirrorTarget, sql: str, at: PointInTime = None, *, memory: str = DEFAULT_MEMORY
) -> Iterator[QueryResult]:
    """Run one SELECT over the mirrored tables as they were at `at`. A version needs SQL that names one table.

    Raises RejectedInput `bad_query`, `unknown_table` or `unknown_version`, also while the batches are read.
    """
    with _explained(), reading("the query"), open_engine(memory) as engine:
        statement = _only_statement(engine, sql)
        names = table_names(target)
        named = _tables_of(engine, statement.query, names)
        _open_tables(engine, target, named, names, at)
        engine.lock()
        with _unknown_tables(named, names):
            result = _result(engine, statement)
        yield result


def _result(engine: SqlEngine, statement: duckdb.Statement) -> QueryResult:
    if statement.type.name == "EXPLAIN":
        return QueryResult(["plan"], iter([[(row[-1],) for row in engine.run(statement.query)]]))
    return QueryResult(*engine.rows(statement.query))


def _only_statement(engine: SqlEngine, sql: str) -> duckdb.Statement:
    statements = engine.statements(sql)
    if len(statements) != 1:
        raise _bad_query(f"the SQL has {len(statements)} statements; a query is exactly one SELECT")
    (statement,) = statements
    if statement.type.name == "MULTI":
        raise _bad_query("write PIVOT inside a SELECT, with its values: SELECT * FROM (PIVOT t ON a IN (1, 2) USING …)")
    if statement.type.name not in _READS:
        raise _bad_query(f"{statement.type.name} is not allowed; a query only reads, by SELECT")
    return statement


def _tables_of(engine: SqlEngine, sql: str, names: list[str]) -> list[_NamedTable]:
    """List the tables that the SQL names, common table expressions included. SHOW TABLES names all."""
    ((text,),) = engine.run("SELECT json_serialize_sql(?)", [_EXPLAIN.sub("", sql, count=1)])
    found: dict[_NamedTable, None] = {}
    for node in _nodes(json.loads(text)):
        if node.get("type") == "BASE_TABLE":
            found[
                _NamedTable(".".join(filter(None, (node["catalog_name"], node["schema_name"]))), node["table_name"])
            ] = None
        elif node.get("type") == "SHOW_REF" and not node.get("query"):
            found.update(dict.fromkeys(_NamedTable(*_split(name)) for name in names))
    return list(found)


def _split(name: str) -> tuple[str, str]:
    schema, dot, table = name.partition(".")
    return (schema, table) if dot else ("", name)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _open_tables(
    engine: SqlEngine, target: MirrorTarget, named: list[_NamedTable], names: list[str], at: PointInTime
) -> None:
    """Make the named tables readable. A name that is no table stays unknown: it can be a common table expression."""
    known = {table: find_table(names, str(table)) for table in named if matching_tables(names, str(table))}
    if isinstance(at, int) and len(set(known.values())) > 1:
        raise _bad_query("a version belongs to one table, and the SQL names several; give a time with --as-of")
    views: dict[str, str] = {}
    for table, found in known.items():
        if views.setdefault(table.sql.casefold(), found) != found:
            raise _bad_query(
                f"{table} names two tables that differ in letter case only, which DuckDB does not tell apart"
            )
    for table, found in known.items():
        delta = open_table(target, found, at)
        with reading(found):
            source = engine.register(arrow_dataset(delta))
        engine.run(f"CREATE SCHEMA IF NOT EXISTS {identifier(table.schema or 'main')}")
        engine.run(f"CREATE OR REPLACE VIEW {table.sql} AS SELECT * FROM {source}")  # noqa: S608  # quoted names


@contextmanager
def _unknown_tables(named: list[_NamedTable], names: list[str]) -> Iterator[None]:
    """Name the nearest tables of the mirror where DuckDB misses a table."""
    try:
        yield
    except duckdb.CatalogException as error:
        missed = _MISSED_TABLE.search(str(error))
        for table in named:
            if missed is not None and table.name.casefold() == missed[1].casefold():
                raise unknown_table(names, str(table)) from error
        raise


@contextmanager
def _explained() -> Iterator[None]:
    """Translate DuckDB's errors. Raises RejectedInput `bad_query`."""
    try:
        yield
    except duckdb.PermissionException as error:
        raise _bad_query(f"a query reads mirrored tables, no files, addresses or extensions: {error}") from error
    except duckdb.OutOfMemoryException as error:
        raise RejectedInput(
            Code.BAD_QUERY, str(error), remedy="Select fewer columns or rows, or raise --memory."
        ) from error
    except duckdb.Error as error:
        raise _bad_query(str(error)) from error


def _bad_query(detail: str) -> RejectedInput:
    return RejectedInput(Code.BAD_QUERY, detail)
