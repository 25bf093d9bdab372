"""`mirror health` measures the files of tables and compares them with Direct Lake's guard rails."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import WriterProperties, write_deltalake

from app.mirror.inspection.health import (
    GUARD_RAILS,
    TableHealth,
    examine_table,
    find_problems,
    measure_columns,
    smallest_sku,
)
from app.mirror.inspection.maintenance import optimize_table
from tests.mirror.inspection.mirrored import Mirrored

HEALTHY = TableHealth(
    table="s.t",
    version=1,
    rows=10_000_000,
    bytes=1 << 30,
    files=2,
    small_files=0,
    row_groups=10,
    deleted_rows=0,
    old_files=1,
    old_bytes=1,
    log_commits=1,
    checkpoint_age_seconds=1.0,
    smallest_sku="F2",
)
MILLION = 1_000_000


def found(table: TableHealth, sku: str = "F2") -> list[tuple[str, str]]:
    return [(one.severity, one.code) for one in find_problems([table], GUARD_RAILS[sku])]


def test_a_table_is_measured_by_its_files_and_footers(table: Mirrored) -> None:
    for number in range(3):
        table.commit([(number, "a"), (number, "b")])
    table.commit([(0, "c")], deleted=[(0,)])
    rows = pa.table({"id": list(range(100)), "v": ["x"] * 100}, schema=table.schema)
    write_deltalake(table.uri, rows, mode="append", writer_properties=WriterProperties(max_row_group_size=10))
    seen: list[tuple[int, int]] = []
    measured = examine_table(table.target, "s.t", lambda *progress: seen.append(progress))
    assert (measured.rows, measured.files, measured.row_groups) == (105, 4, 13)
    assert (measured.old_files, measured.log_commits, measured.checkpoint_age_seconds) == (1, 5, None)
    assert measured.old_bytes > 0
    assert seen[-1] == (4, 4)
    optimize_table(table.target, "s.t")
    after = examine_table(table.target, "s.t")
    assert (after.rows, after.files, after.row_groups, after.old_files, after.log_commits) == (105, 1, 1, 5, 0)
    assert after.checkpoint_age_seconds is not None


def test_an_empty_table_is_healthy(table: Mirrored) -> None:
    table.commit([])
    measured = examine_table(table.target, "s.t")
    assert (measured.rows, measured.rows_per_row_group, measured.deleted_share) == (0, 0, 0.0)
    assert found(measured) == []


def test_a_table_within_the_guard_rails_has_no_finding() -> None:
    assert found(HEALTHY) == []


@pytest.mark.parametrize(
    ("sku", "change", "codes"),
    [
        ("F2", {"files": 1001}, ["files"]),
        ("F64", {"files": 1001}, []),
        ("F64", {"files": 5001, "row_groups": 5001, "rows": 6000 * MILLION}, ["files", "row_groups", "rows"]),
        ("F2", {"rows": 300 * MILLION + 1}, ["rows"]),
        ("F2", {"bytes": (10 << 30) + 1}, ["model_size"]),
        ("F16", {"bytes": (10 << 30) + 1}, []),
        ("F64", {"bytes": 1 << 50}, []),
        ("F2048", {"rows": 24_000 * MILLION + 1}, ["rows"]),
    ],
)
def test_an_exceeded_guard_rail_is_an_error_of_its_capacity(sku: str, change: dict[str, int], codes: list[str]) -> None:
    assert [code for severity, code in found(replace(HEALTHY, **change), sku) if severity == "error"] == codes


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("small_row_groups", {"row_groups": 100}),
        ("small_files", {"small_files": 16, "files": 16}),
        ("deleted_rows", {"deleted_rows": 2_000_000}),
        ("old_files", {"old_bytes": 2 << 30}),
        ("long_log", {"log_commits": 201}),
    ],
)
def test_a_layout_that_costs_time_or_storage_is_advised_on(code: str, change: dict[str, int]) -> None:
    (problem,) = find_problems([replace(HEALTHY, **change)], GUARD_RAILS["F2"])
    assert (problem.code, problem.severity, problem.table) == (code, "advice", "s.t")
    assert "mirrorgate mirror" in problem.remedy


def test_the_size_of_all_tables_counts_together() -> None:
    tables = [replace(HEALTHY, bytes=6 << 30), replace(HEALTHY, bytes=6 << 30)]
    (problem,) = find_problems(tables, GUARD_RAILS["F8"])
    assert (problem.code, problem.table) == ("model_size", None)


def test_errors_are_listed_first() -> None:
    assert [severity for severity, _ in found(replace(HEALTHY, row_groups=2000))] == ["error", "advice"]


def test_the_smallest_capacity_is_found() -> None:
    assert smallest_sku(1000, 1000, 1, 1) == "F2"
    assert smallest_sku(1, 1, 1, 15 << 30) == "F16"
    assert smallest_sku(1001, 1, 1, 1) == "F64"
    assert smallest_sku(10_001, 1, 1, 1) is None


def test_the_columns_that_cost_most_in_a_model_are_listed_with_their_cardinality(tmp_path: Path) -> None:
    """delta-19: "Strive to reduce cardinality (the number of unique values) in every column of each Delta table." and
    "When you use approximate numeric data types (like float and real), consider rounding values".
    """
    rows = 20_000
    schema = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("ratio", pa.float64()), ("paid", pa.bool_())])
    table = Mirrored(tmp_path, schema=schema)
    kinds = ["open", "closed", None, "open"]
    table.commit([(number, kinds[number % 4], number / 7, number % 2 == 0) for number in range(rows)])
    found = {one.column: one for one in measure_columns(table.target, "s.t")}
    assert [*found][2:] == ["kind", "paid"]
    assert {name: (one.distinct, one.nulls) for name, one in found.items()} == {
        "id": (rows, 0),
        "ratio": (rows, 0),
        "kind": (2, rows // 4),
        "paid": (2, 0),
    }
    assert (found["id"].dictionary_bytes, found["kind"].dictionary_bytes) == (8 * rows, len("open") + len("closed"))
    assert found["kind"].reference_bytes == rows * 2 // 8
    assert "round it" in str(found["ratio"].advice)
    assert found["kind"].advice is None
    assert all(one.file_bytes > 0 for one in found.values())


def test_the_columns_of_an_empty_table_cost_nothing(table: Mirrored) -> None:
    table.commit([])
    assert [one.model_bytes for one in measure_columns(table.target, "s.t")] == [0, 0]
