"""The commands on mirrored tables: what they print, their exit statuses, and how they fail."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from app.cli.mirror.rows import print_rows
from app.mirror.inspection import health
from mirrorgate.cli.console import interruptible
from mirrorgate.cli.main import app
from mirrorgate.errors import Code, MirrorgateError
from tests.mirror.inspection.mirrored import Mirrored
from tests.project.facts import REPOSITORY
from tests.support.cli_output import first_json

RUNNER = CliRunner()


def run(*arguments: str) -> Result:
    return RUNNER.invoke(app, ["mirror", *arguments])


def printed(*arguments: str) -> Any:
    answer = run(*arguments)
    assert answer.exit_code == 0, answer.output + repr(answer.exception)
    return first_json(answer.stdout)


def failed(*arguments: str) -> MirrorgateError:
    answer = run(*arguments)
    assert isinstance(answer.exception, MirrorgateError), answer.output
    return answer.exception


@pytest.fixture
def root(tmp_path: Path) -> str:
    table = Mirrored(tmp_path, "sales.orders")
    table.commit([(1, "a"), (2, "b")])
    table.commit([(2, "B"), (3, "c\x1b[31m")], deleted=[(2,)])
    return str(tmp_path)


def test_the_target_is_an_option_a_variable_or_the_one_of_a_local_gateway(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("history", "orders", "--json")
    assert len(printed(*command, "--to", root)) == 2
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mirror").symlink_to(root)
    assert len(printed(*command, "--data-dir", str(tmp_path / "data"))) == 2
    error = failed(*command, "--data-dir", str(tmp_path / "elsewhere"))
    assert error.code is Code.MIRROR_MISSING
    monkeypatch.setenv("MIRRORGATE_MIRROR_TARGET", root)
    assert len(printed(*command, "--data-dir", str(tmp_path / "elsewhere"))) == 2


def test_history_is_printed_for_people_and_for_scripts(root: str) -> None:
    newest, first = printed("history", "orders", "--to", root, "--json")
    assert newest["files"] == [2, 2]
    assert first["rows"] == {"0": 2, "1": 0, "2": 0, "4": 0}
    text = run("history", "sales.orders", "--to", root).stdout
    assert "0:2 2:1" in text
    assert len(printed("history", "orders", "--to", root, "--limit", "1", "--json")) == 1
    assert [entry["version"] for entry in printed("history", "orders", "--to", root, "--version", "0", "--json")] == [0]


def test_a_difference_has_the_shape_that_scripts_rely_on(root: str) -> None:
    expected = [
        {"key": {"id": 2}, "change": "update", "columns": ["v"]},
        {"key": {"id": 3}, "change": "insert", "columns": []},
    ]
    assert printed("diff", "orders", "0", "1", "--to", root, "--json") == expected
    assert printed("diff", "orders", "--file", "2", "--to", root, "--json") == expected
    assert printed("diff", "orders", "0", "1", "--to", root, "--json", "--limit", "1") == expected[:1]
    with_values = printed("diff", "orders", "--file", "2", "--to", root, "--json", "--show-values")
    assert (with_values[0]["before"], with_values[0]["after"]) == ({"v": "b"}, {"v": "B"})
    assert printed("diff", "orders", "1", "1", "--to", root, "--json") == []


def test_a_difference_is_printed_for_people(root: str) -> None:
    text = run("diff", "orders", "--file", "2", "--to", root, "--show-values").stdout
    assert text.splitlines() == [
        "sales.orders: version 1, file 2",
        "update  id=2  v",
        "    v: b -> B",
        "insert  id=3",
        "    v: c\\x1b[31m",
        "1 insert, 1 update, 0 deletes",
    ]
    assert "1 more change;" in run("diff", "orders", "0", "1", "--limit", "1", "--to", root).stdout


@pytest.mark.parametrize("arguments", [[], ["0"], ["0", "1", "2"], ["0", "1", "--file", "2"], ["0", "soon"]])
def test_a_difference_needs_two_versions_or_a_file(root: str, arguments: list[str]) -> None:
    assert run("diff", "orders", *arguments, "--to", root).exit_code == 2


def test_a_query_is_printed_as_a_grid_json_and_csv(root: str) -> None:
    sql = "SELECT *, id > 1 AS big, NULL AS n, '' AS e FROM sales.orders ORDER BY id"
    text = run("query", sql, "--to", root).stdout
    assert text.splitlines()[0].split() == ["id", "v", "big", "n", "e"]
    assert "\x1b" not in text
    assert "(3 rows)" in text
    rows = printed("query", sql, "--to", root, "--json")
    assert rows[2] == {"id": 3, "v": "c\x1b[31m", "big": True, "n": None, "e": ""}
    table = run("query", sql, "--to", root, "--csv").stdout
    assert table.splitlines()[:2] == ["id,v,big,n,e", '1,a,false,,""']
    assert len(list(csv.reader(io.StringIO(table)))) == 4
    assert "read more" in run("query", sql, "--limit", "2", "--to", root).stdout


def test_values_keep_their_digits_and_columns_their_names(root: str) -> None:
    sql = "SELECT 1 AS a, 2 AS a, 12345678901234567.89::DECIMAL(38, 2) AS d, 'x'::BLOB AS b, 'nan'::FLOAT AS f, "
    sql += "TIMESTAMPTZ '2026-01-01 00:00:00Z' AS t, 'infinity'::DATE AS i, INTERVAL 1 DAY AS v, [1, NULL] AS l"
    answer = run("query", sql, "--to", root, "--json")
    assert "12345678901234567.89" in answer.stdout
    (row,) = first_json(answer.stdout)
    assert list(row)[:2] == ["a", "a_1"]
    assert (row["b"], row["f"], row["t"], row["l"]) == ("eA==", None, "2026-01-01T00:00:00Z", [1, None])
    assert run("query", sql, "--to", root, "--csv").exit_code == run("query", sql, "--to", root).exit_code == 0


def test_an_empty_result_is_an_empty_list(root: str) -> None:
    assert printed("query", "SELECT * FROM orders WHERE false", "--to", root, "--json") == []
    assert "(0 rows)" in run("query", "SELECT * FROM orders WHERE false", "--to", root).stdout


def test_a_query_travels_in_time(root: str) -> None:
    sql = "SELECT count(*) AS n FROM orders"
    assert printed("query", sql, "--version", "0", "--to", root, "--json") == [{"n": 2}]
    assert printed("query", sql, "--as-of", "2999-01-01", "--to", root, "--json") == [{"n": 3}]
    assert failed("query", sql, "--as-of", "2001-01-01", "--to", root).code is Code.UNKNOWN_VERSION
    assert run("query", sql, "--as-of", "soon", "--to", root).exit_code == 2
    assert run("query", sql, "--as-of", "2001-01-01", "--version", "1", "--to", root).exit_code == 2


def test_a_plan_is_printed_as_it_is(root: str) -> None:
    assert (
        "orders" in run("query", "EXPLAIN SELECT * FROM orders", "--to", root).stdout
        or "Scan" in run("query", "EXPLAIN SELECT * FROM orders", "--to", root).stdout
    )


def test_odd_names_are_shown(tmp_path: Path) -> None:
    odd = pa.schema([("from", pa.int64()), ('a, "b" = c\n', pa.string())])
    table = Mirrored(tmp_path, "my [schema] 50%.select", schema=odd, keys=("from",))
    for number in range(2):
        table.commit([(number, "x")])
    to = ("--to", str(tmp_path))
    assert printed("diff", "select", "--file", "1", *to, "--json")[0]["key"] == {"from": 0}
    assert len(printed("history", "my [schema] 50%.select", *to, "--json")) == 2
    assert printed("query", 'SELECT * FROM "my [schema] 50%"."select" WHERE "from" = 1', *to, "--json") == [
        {"from": 1, 'a, "b" = c\n': "x"}
    ]
    assert len(run("query", 'FROM "select"', *to).stdout.splitlines()) == 4


def test_the_commands_say_what_does_not_exist(root: str, tmp_path: Path) -> None:
    for command in (["history", "ordrs"], ["diff", "ordrs", "0", "1"], ["query", "FROM ordrs"]):
        error = failed(*command, "--to", root)
        assert error.code is Code.UNKNOWN_TABLE
        assert "sales.orders" in error.detail
        assert failed(*command, "--to", str(tmp_path / "nowhere")).code is Code.MIRROR_MISSING


def test_maintenance_is_printed_for_people_and_for_scripts(root: str) -> None:
    to = ("--to", root)
    assert printed("optimize", *to, "--json")[0]["files"] == 1
    assert "nothing to do (1 file)" in run("optimize", "orders", *to).stdout
    assert "clustered by id" in run("optimize", "orders", "--cluster", *to).stdout
    assert run("vacuum", *to).stdout == "sales.orders: 0 files deleted\n"
    assert run("vacuum", "--retention", "1", *to).exit_code == 2
    listed = run("vacuum", "--retention", "0", "--force", "--dry-run", *to).stdout.splitlines()
    assert listed[0].endswith("files to delete")
    assert len(listed) > 1
    deleted = printed("vacuum", "orders", "--retention", "0", "--force", *to, "--json")[0]
    assert [f"  {path}" for path in deleted["files"]] == listed[1:]
    assert printed("query", "SELECT count(*) AS n FROM orders", *to, "--json") == [{"n": 3}]
    assert "vacuum" in failed("diff", "orders", "0", "1", *to).detail


@pytest.mark.parametrize("command", ["optimize", "vacuum"])
def test_maintenance_of_an_unknown_table_changes_nothing(root: str, command: str) -> None:
    assert failed(command, "orders", "ordrs", "--to", root).code is Code.UNKNOWN_TABLE
    assert len(printed("history", "orders", "--to", root, "--json")) == 2


def test_health_is_printed_for_people_and_for_scripts(root: str) -> None:
    shown = printed("health", "--to", root, "--json")
    assert (shown["sku"], shown["tables"][0]["files"], shown["findings"]) == ("F2", 1, [])
    assert "sales.orders" in run("health", "orders", "--sku", "f64", "--to", root).stdout
    [table] = printed("health", "orders", "--columns", "--to", root, "--json")["tables"]
    assert {column["column"] for column in table["columns"]} >= {"id"}
    assert "columns of sales.orders" in run("health", "orders", "--columns", "--to", root).stdout
    assert run("health", "--sku", "F3", "--to", root).exit_code == 2


def test_an_exceeded_guard_rail_is_the_exit_status(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(health.GUARD_RAILS, "F2", health.GuardRails("F2", 0, 0, 0, 0))
    answer = run("health", "--to", root)
    assert answer.exit_code == 1
    assert "error files  sales.orders: 1 Parquet files; F2 reads at most 0 per table" in answer.stdout
    assert "remedy: Run `mirrorgate mirror optimize sales.orders`." in answer.stdout


def test_ctrl_c_ends_maintenance_at_once() -> None:
    released, before = threading.Event(), signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(lambda: released.wait(60))
    finally:
        released.set()
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_a_wide_result_is_shown_a_value_a_line_in_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=40, color_system=None)
    print_rows(["id", "a long name"], [(1, "x" * 40), (2, None)], console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "row 1",
        "  id           1",
        f"  a long name  {'x' * 40}",
        "row 2",
        "  id           2",
        "  a long name  NULL",
    ]


def test_a_reader_that_has_enough_is_no_error(root: str) -> None:
    command = [sys.executable, "-m", "mirrorgate.cli", "mirror", "query", "FROM range(1000000)", "--csv", "--to", root]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"range\r\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


def test_a_difference_travels_by_time(root: str) -> None:
    newest, first = printed("history", "orders", "--to", root, "--json")
    by_time = printed("diff", "orders", first["time"], newest["time"], "--to", root, "--json")
    assert by_time == printed("diff", "orders", "0", "1", "--to", root, "--json")


def test_a_table_with_deletion_vectors_is_measured_and_not_queried(root: str, tmp_path: Path) -> None:
    log = tmp_path / "sales" / "orders" / "_delta_log" / f"{2:020}.json"
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    log.write_text(json.dumps({"protocol": protocol}) + "\n")
    error = failed("query", "FROM orders", "--to", root)
    assert (error.code, "deletionVectors" in error.detail) == (Code.BAD_QUERY, True)
    assert failed("diff", "orders", "0", "2", "--to", root).code is Code.BAD_QUERY
    assert printed("health", "--to", root, "--json")["tables"][0]["deleted_share"] == 0.0
    assert printed("history", "orders", "--to", root, "--json")[0]["operation"] == "unknown"
