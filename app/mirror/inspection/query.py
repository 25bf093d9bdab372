"""Run SQL of a user over mirrored tables with DuckDB, read only.

Tables are visible as `schema.table` and as `table`, at a version or a time with Delta's forms: `t VERSION AS OF 2`,
`t TIMESTAMP AS OF '…'`, `t@v2` and `t@yyyyMMddHHmmssSSS`. DuckDB does not know these, so each becomes a name of this
module before DuckDB parses the SQL. sqlglot finds them by tokens, so texts, comments and quoted names stay.

Only tables that the SQL names are opened, as Arrow datasets, so DuckDB reads only the columns and row groups that it
needs. The SQL has to be one SELECT (or EXPLAIN, DESCRIBE, SHOW, SUMMARIZE); the engine is locked before it runs, so it
reaches no file, address or extension.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from app.mirror.inspection.history import (
    PointInTime,
    find_table,
    matching_tables,
    open_table,
    parse_point,
    reading,
    table_names,
    unknown_table,
)
from app.mirror.target import MirrorTarget, arrow_dataset, quoted
from mirrorgate.errors import Code, RejectedInput

Result = TypeVar("Result")

DEFAULT_MEMORY: Final = "1GB"
_STREAM_FAULT: Final = "reading the stream registered as"
_MAX_SPILL: Final = "20GB"
"""A query can share its disk with Postgres and the mirror. DuckDB would take 90 % of what is free."""
_BATCH_ROWS: Final = 10_000

_GONE: Final = ("FileNotFoundError", "[errno 2]")
"""Strings with which Arrow names a missing file, passed on by DuckDB: of a store in Python, and of a local folder."""


class SqlEngine:
    """One DuckDB connection. `register` and `run` are for SQL of this program, `rows` also for SQL of a user."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, pool: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._pool = pool

    def register(self, data: ds.Dataset | pa.RecordBatchReader) -> str:
        """Make Arrow data readable and return the quoted name to use in SQL, which no table of a user has."""
        name = f"mirrorgate-{uuid4().hex}"
        self._connection.register(name, data)
        return quoted(name)

    def run(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows, which have to be few."""
        return self.interruptible(lambda: self._connection.execute(sql, [*parameters]).fetchall())

    def statements(self, sql: str) -> list[duckdb.Statement]:
        """Parse SQL into its statements without running them. Raises duckdb.Error."""
        return self._connection.extract_statements(sql)

    def rows(self, sql: str) -> "tuple[list[str], Iterator[list[tuple[Any, ...]]]]":
        """Run a SELECT and return its column names and its rows, in batches, as they are computed."""
        reader = self.interruptible(lambda: self._connection.sql(sql).to_arrow_reader(_BATCH_ROWS))
        return list(reader.schema.names), self._batches(reader)

    def interruptible(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the engine's thread. Ctrl-C stops it and raises KeyboardInterrupt here.

        Raises duckdb.Error, FileNotFoundError for a data file that is gone, and OSError for another fault of the store.
        """
        future: Future[Result] = self._pool.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            self._connection.interrupt()
            wait([future])  # DuckDB rejects to close a connection that is busy
            raise
        except duckdb.Error as error:
            _raise_store_fault(str(error), error)
            raise

    def lock(self) -> None:
        """Forbid files, addresses, extensions and changes of the configuration from now on."""
        self.run("SET enable_external_access = false")
        self.run("SET lock_configuration = true")

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[list[tuple[Any, ...]]]:
        while True:
            batch = self.interruptible(lambda: next(iter(reader), None))
            if batch is None:
                return
            yield list(zip(*map(_values, batch.columns), strict=True))


@contextmanager
def open_engine(memory: str = DEFAULT_MEMORY) -> Iterator[SqlEngine]:
    """Open an engine that uses at most `memory`, such as `1GB`, and spills the rest into a folder that it removes.

    Raises duckdb.Error if `memory` is not a size.
    """
    with (
        tempfile.TemporaryDirectory(prefix="mirrorgate-sql-") as spill,
        ThreadPoolExecutor(1, thread_name_prefix="sql-engine") as pool,
    ):
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory,
            "temp_directory": spill,
            "max_temp_directory_size": _MAX_SPILL,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        }
        with duckdb.connect(":memory:", config=settings) as connection:
            engine = SqlEngine(connection, pool)
            engine.run("SET TimeZone = 'UTC'")
            yield engine


def _raise_store_fault(text: str, cause: Exception) -> None:
    """Raise the fault of a store that DuckDB met while it read Arrow data, if `text` tells of one."""
    _, is_of_a_stream, fault = text.partition(_STREAM_FAULT)
    if is_of_a_stream:
        detail = fault.partition("failed: ")[2]
        raise (FileNotFoundError if any(sign in text for sign in _GONE) else OSError)(detail) from cause


def text_literal(text: str) -> str:
    """Quote a string for SQL."""
    return "'" + text.replace("'", "''") + "'"


def _values(column: pa.Array) -> list[Any]:
    """Return the values of a column; as strings where Python has no such value, such as infinite dates."""
    if pa.types.is_interval(column.type):
        return [None if value is None else str(value) for value in column]
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError, ImportError):
        values = pc.cast(column, pa.string()).to_pylist()
    return values


_AT: Final = "mirrorgate-at-"
"""Prefix of the views that show a table at a version or time."""
_VERSION: Final = re.compile(r"[vV](\d{1,18})", re.ASCII)
_MOMENT: Final = re.compile(r"\d{17}", re.ASCII)
_NAMES: Final = frozenset({"VAR", "IDENTIFIER"})
_WORDS: Final = ("VERSION", "TIMESTAMP")
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
        return f"{quoted(self.schema or 'main')}.{quoted(self.name)}"

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


@contextmanager
def run_query(
    target: MirrorTarget, sql: str, at: PointInTime = None, *, memory: str = DEFAULT_MEMORY
) -> Iterator[QueryResult]:
    """Run one SELECT over the mirrored tables: at a point that the SQL gives for each, else as they were at `at`.

    A version needs SQL that names one table without such a point.

    Raises RejectedInput `bad_query`, `unknown_table` or `unknown_version`, also while the batches are read.
    """
    with _explained(), reading("the query"), open_engine(memory) as engine:
        sql, pinned = with_points_in_time(sql)
        statement = _only_statement(engine, sql)
        names = table_names(target)
        named = _tables_of(engine, statement.query, names)
        _open_tables(engine, target, named, names, _Points(at, pinned))
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


def with_points_in_time(sql: str) -> "tuple[str, dict[str, tuple[str, PointInTime]]]":
    """Return SQL with a name for each table at a version or time, and the table and the point by these names.

    Raises RejectedInput `bad_query` for a version or time that cannot be read.
    """
    from sqlglot import tokenize
    from sqlglot.errors import TokenError

    try:
        tokens = tokenize(sql, read="duckdb")
    except TokenError:
        return sql, {}  # DuckDB says what is wrong
    found: dict[str, tuple[str, PointInTime]] = {}
    parts: list[str] = []
    copied = at = 0
    while at < len(tokens):
        if tokens[at].token_type.name not in _NAMES:
            at += 1
            continue
        end = at + 1
        while end + 1 < len(tokens) and tokens[end].text == "." and tokens[end + 1].token_type.name in _NAMES:
            end += 2
        point, behind = _point_at(tokens, end)
        if point is not None:
            name = f"{_AT}{len(found)}"
            path = [token.text for token in tokens[at:end:2]]
            found[name] = (".".join(path), point)
            following = tokens[behind] if behind < len(tokens) else None
            has_alias = following is not None and (
                following.token_type.name in _NAMES or following.text.upper() == "AS"
            )
            alias = "" if has_alias else f" AS {quoted(path[-1])}"
            parts += [sql[copied : tokens[at].start], quoted(name), alias]
            copied, end = tokens[behind - 1].end + 1, behind
        at = end
    return "".join([*parts, sql[copied:]]), found


def _point_at(tokens: Sequence[Any], at: int) -> tuple[PointInTime, int]:
    """Return the point in time that begins at a token, and the token behind it; None if none begins there."""
    texts = [token.text.upper() for token in tokens[at : at + 4]] + [""] * 4
    if texts[0] == "@" and at + 1 < len(tokens):
        return _short_point(tokens[at + 1].text), at + 2
    if texts[0] in _WORDS and texts[1:3] == ["AS", "OF"] and texts[3]:
        return _long_point(texts[0], tokens[at + 3]), at + 4
    if texts[:2] == ["AS", "OF"] and texts[2] in _WORDS and texts[3]:
        return _long_point(texts[2], tokens[at + 3]), at + 4
    return None, at


def _short_point(text: str) -> PointInTime:
    if version := _VERSION.fullmatch(text):
        return int(version[1])
    try:
        if _MOMENT.fullmatch(text):
            return datetime.strptime(f"{text}000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        pass
    raise _bad_query("write t@v2 for a version, or t@20260701100000000 (yyyyMMddHHmmssSSS, in UTC) for a time")


def _long_point(word: str, token: Any) -> PointInTime:
    kind = token.token_type.name
    try:
        if word == "VERSION" and kind in {"NUMBER", "STRING"}:
            return int(token.text)
        if word == "TIMESTAMP" and kind == "STRING":
            point = parse_point(token.text)
            if isinstance(point, datetime):
                return point
    except ValueError:
        pass
    raise _bad_query("write VERSION AS OF 2, or TIMESTAMP AS OF '2026-07-01T10:00:00Z'")


@dataclass(frozen=True, slots=True)
class _Points:
    """Points in time at which the tables of a query are read."""

    at: PointInTime
    """For tables whose place in the SQL gives no point."""
    pinned: Mapping[str, tuple[str, PointInTime]]

    def table(self, named: _NamedTable) -> str:
        """Return the table that a name means, as the user wrote it."""
        return self.pinned[named.name][0] if named.name in self.pinned else str(named)

    def of(self, named: _NamedTable) -> PointInTime:
        """Return the point in time of a named table."""
        return self.pinned[named.name][1] if named.name in self.pinned else self.at


def _open_tables(
    engine: SqlEngine, target: MirrorTarget, named: list[_NamedTable], names: list[str], points: _Points
) -> None:
    """Make the named tables readable. Other names remain unknown: they can be common table expressions."""
    for written, _ in points.pinned.values():
        find_table(names, written)
    known = {
        table: find_table(names, points.table(table)) for table in named if matching_tables(names, points.table(table))
    }
    unpinned = {found for table, found in known.items() if table.name not in points.pinned}
    if isinstance(points.at, int) and len(unpinned) > 1:
        raise _bad_query("a version belongs to one table, and the SQL names several; give a time with --as-of")
    views: dict[str, str] = {}
    for table, found in known.items():
        if views.setdefault(table.sql.casefold(), found) != found:
            raise _bad_query(
                f"{table} names two tables that differ in letter case only, which DuckDB does not tell apart"
            )
    for table, found in known.items():
        delta = open_table(target, found, points.of(table))
        with reading(found):
            source = engine.register(arrow_dataset(delta))
        engine.run(f"CREATE SCHEMA IF NOT EXISTS {quoted(table.schema or 'main')}")
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
