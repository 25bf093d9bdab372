"""`mirror query` reads mirrored tables by SQL, and nothing else in the world."""

import os
import signal
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from app.mirror.inspection.history import PointInTime
from app.mirror.inspection.query import run_query
from app.mirror.target import MirrorTarget
from mirrorgate.errors import Code, RejectedInput
from tests.mirror.inspection.mirrored import Mirrored


def rows(target: MirrorTarget, sql: str, at: PointInTime = None) -> list[tuple[Any, ...]]:
    with run_query(target, sql, at) as result:
        return [row for batch in result.batches for row in batch]


def rejected(target: MirrorTarget, sql: str, at: PointInTime = None) -> RejectedInput:
    with pytest.raises(RejectedInput) as caught:
        rows(target, sql, at)
    return caught.value


@pytest.fixture
def target(tmp_path: Path) -> MirrorTarget:
    root = tmp_path / "mirror"
    orders = Mirrored(root, "sales.orders")
    orders.commit([(1, "a"), (2, "b")])
    orders.commit([(3, "c")])
    Mirrored(root, "plain").commit([(1, "p")])
    odd = pa.schema([("select", pa.int64()), ('a "b", c', pa.string())])
    Mirrored(root, "odd schema.from", schema=odd, keys=("select",)).commit([(7, "x")])
    Mirrored(root, "empty").commit([])
    return orders.target


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM sales.orders",
        "SELECT count(*) FROM orders",
        "select count(*) from SALES.Orders",
        "WITH orders AS (SELECT * FROM orders) SELECT count(*) FROM orders",
        "FROM (SELECT count(*) FROM orders JOIN plain USING (id) FULL JOIN orders o USING (id))",
        "SELECT count(*) FROM orders; -- a comment",
    ],
)
def test_a_table_is_visible_with_and_without_its_schema(target: MirrorTarget, sql: str) -> None:
    assert rows(target, sql) == [(3,)]


def test_odd_names_and_empty_tables_are_read(target: MirrorTarget) -> None:
    assert rows(target, 'SELECT "select", "a ""b"", c" FROM "odd schema"."from"') == [(7, "x")]
    assert rows(target, "SELECT * FROM empty") == []
    assert rows(target, "SELECT * FROM (PIVOT orders ON v IN ('a', 'b') USING count(*)) ORDER BY id LIMIT 1") == [
        (1, 1, 0)
    ]


@pytest.mark.parametrize("name", ["range", "main.orders", "v1.duckdb_tables", "a.b.c", "mirrorgate_0"])
def test_names_that_duckdb_uses_are_tables_of_the_mirror(tmp_path: Path, name: str) -> None:
    table = Mirrored(tmp_path, name)
    table.commit([(1, name)])
    Mirrored(tmp_path, "first").commit([(1, "other")])
    schema, dot, rest = name.partition(".")
    named = f'"{schema}"."{rest}"' if dot else f'"{name}"'
    assert rows(table.target, f"SELECT t.v FROM first JOIN {named} AS t USING (id)") == [(name,)]


def test_describe_show_and_explain_read(target: MirrorTarget) -> None:
    assert [row[0] for row in rows(target, "DESCRIBE orders")] == ["id", "v"]
    assert {row[0] for row in rows(target, "SHOW TABLES")} >= {"plain", "empty"}
    assert len(rows(target, "SUMMARIZE orders")) == 2
    assert "PYTHON_ARROW_SCAN" in rows(target, "EXPLAIN SELECT id FROM orders")[0][0].upper().replace(" ", "_")


def test_only_the_tables_in_the_sql_are_opened(target: MirrorTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    real = MirrorTarget.open
    monkeypatch.setattr(
        MirrorTarget, "open", lambda self, name, **more: opened.append(name) or real(self, name, **more)
    )
    rows(target, "SELECT * FROM plain")
    assert opened == ["plain"]


def test_predicates_and_columns_are_pushed_into_the_scan(target: MirrorTarget) -> None:
    (plan,) = rows(target, "EXPLAIN SELECT v FROM orders WHERE id = 2")[0]
    assert "Projections: v" in plan
    assert 'Filters: "id" = 2' in plan


def test_a_query_travels_by_version_and_by_time(target: MirrorTarget) -> None:
    assert rows(target, "SELECT count(*) FROM orders", 0) == [(2,)]
    assert rows(target, "SELECT count(*) FROM orders", datetime.now(UTC)) == [(3,)]
    assert rejected(target, "SELECT * FROM orders", 9).code is Code.UNKNOWN_VERSION
    early = rejected(target, "SELECT * FROM orders", datetime.now(UTC) - timedelta(days=9))
    assert "first version" in early.detail
    assert "--as-of" in rejected(target, "SELECT * FROM orders, plain", 0).detail


def test_the_sql_forms_of_time_travel_name_a_version_or_a_time_for_each_table(target: MirrorTarget) -> None:
    """delta-7: `TIMESTAMP AS OF`, `AS OF VERSION 2`, and the `@` shorthand with a version or yyyyMMddHHmmssSSS."""
    delta = target.open("sales.orders")
    assert delta is not None
    second, first = (datetime.fromtimestamp(entry["timestamp"] / 1_000, UTC) for entry in delta.history())
    between = first + (second - first) / 2
    short = f"{between:%Y%m%d%H%M%S}{between.microsecond // 1_000:03}"
    for form in (
        "orders VERSION AS OF 0",
        "orders version as of '0'",
        "sales.orders AS OF VERSION 0",
        "sales.orders@v0",
        '"sales"."orders"@V0',
        f"orders TIMESTAMP AS OF '{between.isoformat()}'",
        f"orders AS OF TIMESTAMP '{between.isoformat()}'",
        f"sales.orders@{short}",
    ):
        assert rows(target, f"SELECT max(orders.id) FROM {form}") == [(2,)], form
    assert rows(target, "SELECT orders.v FROM orders@v1 WHERE id = 3 -- orders@v0") == [("c",)]
    assert rows(target, "SELECT count(*), 'orders@v0' FROM orders@v1 JOIN plain USING (id)") == [(1, "orders@v0")]


def test_one_query_reads_several_versions_of_a_table(target: MirrorTarget) -> None:
    added = "SELECT n.id FROM orders n ANTI JOIN orders VERSION AS OF 0 AS o USING (id)"
    assert rows(target, added) == [(3,)]
    both = "SELECT (SELECT count(*) FROM orders@v0), (SELECT count(*) FROM sales.orders@v1 o), count(*) FROM plain"
    assert rows(target, both) == [(2, 3, 1)]
    assert rows(target, "SELECT count(*) FROM orders@v0, orders", 1) == [(6,)]


@pytest.mark.parametrize(
    ("sql", "code", "detail"),
    [
        ("FROM orders@v7", Code.UNKNOWN_VERSION, "its newest version is 1"),
        ("FROM orders@latest", Code.BAD_QUERY, "yyyyMMddHHmmssSSS"),
        ("FROM orders@20261301000000000", Code.BAD_QUERY, "yyyyMMddHHmmssSSS"),
        ("FROM orders TIMESTAMP AS OF 'yesterday'", Code.BAD_QUERY, "TIMESTAMP AS OF"),
        ("FROM orders VERSION AS OF x", Code.BAD_QUERY, "VERSION AS OF 2"),
        ("FROM orderz@v0", Code.UNKNOWN_TABLE, "the nearest: sales.orders"),
        ("FROM orders TIMESTAMP AS OF '1999-01-01'", Code.UNKNOWN_VERSION, "no version as old as"),
    ],
)
def test_a_wrong_point_in_time_is_answered_with_the_forms(
    target: MirrorTarget, sql: str, code: Code, detail: str
) -> None:
    found = rejected(target, sql)
    assert (found.code, detail in found.detail) == (code, True), found.detail


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM read_parquet('http://localhost/x')",
        "SELECT * FROM read_json_auto('{file}')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM sniff_csv('{file}')",
        "SELECT * FROM parquet_metadata('{file}')",
        "SELECT * FROM orders, read_csv('{file}')",
        "SELECT (SELECT count(*) FROM read_text('{file}'))",
        "SELECT * FROM query('FROM read_text(''{file}'')')",
        "FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{file}'')'))",
        "SELECT * FROM enable_logging(storage_path='{out}')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT getenv('HOME')",
        "COPY orders TO '{out}'",
        "COPY (SELECT 1) TO '{out}'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}'",
        "EXPORT DATABASE '{out}'",
        "IMPORT DATABASE '{out}'",
        "ATTACH '{out}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA enable_profiling",
        "PRAGMA database_list",
        "SET memory_limit = '9GB'",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "CALL enable_logging()",
        "CREATE TABLE z AS SELECT 1",
        "CREATE MACRO m() AS 1",
        "DELETE FROM orders",
        "INSERT INTO orders VALUES (1, 'x')",
        "DROP VIEW orders",
        "CHECKPOINT",
        "CREATE SECRET s (TYPE s3)",
        "SELECT 1; COPY (SELECT 1) TO '{out}'",
        "SELECT 1; SELECT 2",
        "",
    ],
)
def test_a_query_reaches_nothing_but_mirrored_tables(target: MirrorTarget, tmp_path: Path, sql: str) -> None:
    file, out = tmp_path / "secret.csv", tmp_path / "out"
    file.write_text("word\nmagic\n")
    error = rejected(target, sql.format(file=file, out=out))
    assert error.code in (Code.BAD_QUERY, Code.UNKNOWN_TABLE)
    assert error.remedy
    assert "magic" not in error.detail
    assert not out.exists()


def test_a_variable_of_the_program_is_no_table(target: MirrorTarget) -> None:
    names = pa.table({"x": [1]})
    assert rejected(target, "SELECT * FROM names").code is Code.UNKNOWN_TABLE
    assert names.num_rows == 1


def test_an_unknown_table_or_column_is_answered_with_the_nearest_names(target: MirrorTarget) -> None:
    error = rejected(target, "SELECT * FROM ordrs")
    assert (error.code, error.detail) == (
        Code.UNKNOWN_TABLE,
        "the mirror has no table ordrs; the nearest: sales.orders",
    )
    assert "plain" in error.remedy
    of_column = rejected(target, "SELECT idd FROM orders")
    assert (of_column.code, "id" in of_column.detail) == (Code.BAD_QUERY, True)


def test_wrong_sql_is_answered_with_its_position(target: MirrorTarget) -> None:
    assert 'syntax error at or near "FROM"' in rejected(target, "SELECT FROM FROM orders").detail


def test_a_name_in_two_schemas_needs_its_schema(target: MirrorTarget, tmp_path: Path) -> None:
    Mirrored(tmp_path / "mirror", "other.orders").commit([(1, "a")])
    assert "other.orders, sales.orders" in rejected(target, "SELECT * FROM orders").detail
    assert rows(target, "SELECT count(*) FROM other.orders") == [(1,)]


def test_a_result_is_read_as_it_is_computed(target: MirrorTarget) -> None:
    with run_query(target, "SELECT * FROM range(1000000000000)") as result:
        assert next(result.batches)[:2] == [(0,), (1,)]


def test_a_result_larger_than_the_memory_is_rejected(target: MirrorTarget) -> None:
    with (
        pytest.raises(RejectedInput, match="memory") as caught,
        run_query(target, "SELECT list(i) FROM range(100000000) r(i)", memory="50MB") as result,
    ):
        list(result.batches)
    assert "--memory" in caught.value.remedy


def test_ctrl_c_ends_a_query(target: MirrorTarget) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            rows(target, "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
