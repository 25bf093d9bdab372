"""Maintenance changes no row and no position, and deletes nothing that a reader within the retention needs."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError

from app.mirror.inspection import maintenance
from app.mirror.inspection.health import (
    GUARD_RAILS,
    TableHealth,
    examine_table,
    find_problems,
    measure_columns,
    smallest_sku,
)
from app.mirror.inspection.history import read_history
from app.mirror.inspection.maintenance import (
    Pin,
    list_pins,
    optimize_table,
    pin_version,
    unpin_version,
    vacuum_table,
)
from app.mirror.target import MirrorTarget
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.mirror.inspection.mirrored import Mirrored
from tests.support.rejections import rejected


def content(uri: str, version: int | None = None) -> list[tuple[int, str]]:
    rows = DeltaTable(uri, version=version).to_pyarrow_table().to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


def filled(root: Path, files: int = 6) -> Mirrored:
    table = Mirrored(root)
    for number in range(files):
        table.commit([(files - number, "a"), (files - number, "a")])
    return table


@pytest.mark.parametrize("cluster", [False, True])
def test_optimizing_keeps_rows_and_position_and_is_safe_to_repeat(tmp_path: Path, cluster: bool) -> None:
    table = filled(tmp_path)
    before = content(table.uri)
    done = optimize_table(table.target, "s.t", cluster=cluster)
    assert (done.files_before, done.files, done.version) == (6, 1, 6)
    assert content(table.uri) == before
    assert table.delta().transaction_version("mirrorgate") == 6
    again = optimize_table(table.target, "s.t", cluster=cluster)
    assert (again.version_before, again.version) == (6, 6)
    assert (Path(table.uri) / "_delta_log" / f"{6:020}.checkpoint.parquet").exists()


def test_clustering_sorts_by_the_key_and_starts_again_after_a_change(tmp_path: Path) -> None:
    table = filled(tmp_path)
    assert optimize_table(table.target, "s.t", cluster=True).clustered_by == ("id",)
    (file,) = table.delta().file_uris()
    ids = pq.read_table(file.removeprefix("file://")).column("id").to_pylist()
    assert ids == sorted(ids)
    assert read_history(table.target, table.delta())[0].clustered_by == ("id",)
    table.commit([(0, "z")])
    assert optimize_table(table.target, "s.t", cluster=True).version == 8


def test_odd_key_names_are_clustered(tmp_path: Path) -> None:
    schema = pa.schema([('se"lect, x', pa.string()), ("from", pa.int32())])
    table = Mirrored(tmp_path, schema=schema, keys=('se"lect, x', "from"))
    table.commit([("b", 1)])
    table.commit([("a", 2)])
    assert optimize_table(table.target, "s.t", cluster=True).clustered_by == ('se"lect, x', "from")


def test_a_table_without_a_key_is_compacted(tmp_path: Path) -> None:
    table = Mirrored(tmp_path, keys=())
    table.commit([(1, "a")])
    table.commit([(1, "a")])
    done = optimize_table(table.target, "s.t", cluster=True)
    assert (done.files, done.clustered_by) == (1, ())


def test_an_empty_table_is_left_as_it_is(table: Mirrored) -> None:
    table.commit([])
    assert optimize_table(table.target, "s.t", cluster=True).version in (0, 1)
    assert content(table.uri) == []


def test_optimizing_starts_again_if_the_mirror_commits_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(tmp_path)
    real, commits = maintenance._compact, iter(range(2))

    def slowly(opened: DeltaTable, row_group_rows: int) -> None:
        if next(commits, None) is not None:
            table.commit([(1, "new")], deleted=[(1,)])
        real(opened, row_group_rows)

    monkeypatch.setattr(maintenance, "_compact", slowly)
    done = optimize_table(table.target, "s.t")
    assert (done.files, table.delta().transaction_version("mirrorgate")) == (1, 8)
    assert content(table.uri)[0] == (1, "new")


def test_optimizing_gives_up_beside_a_mirror_that_always_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(opened: DeltaTable, _rows: int) -> None:
        raise CommitFailedError("a concurrent transaction deleted data this operation read")

    monkeypatch.setattr(maintenance, "_compact", fails)
    with pytest.raises(TemporarilyUnavailable, match="during each of 5 tries") as caught:
        optimize_table(filled(tmp_path).target, "s.t")
    assert caught.value.code is Code.MIRROR_AWAY


def age(path: Path, days: float) -> None:
    moment = (datetime.now(UTC) - timedelta(days=days)).timestamp()
    os.utime(path, (moment, moment))


def vacuumed(target: MirrorTarget, hours: int, names: tuple[str, ...] = ("s.t",), **more: bool) -> tuple[str, ...]:
    return vacuum_table(target, [*names], "s.t", retention_hours=hours, **more).files


def test_a_vacuum_keeps_every_version_within_the_retention(tmp_path: Path) -> None:
    table = filled(tmp_path)
    optimize_table(table.target, "s.t")
    for file in Path(table.uri).glob("*.parquet"):
        age(file, 30)  # old files, removed from the table just now
    versions = [content(table.uri, version) for version in range(7)]
    assert vacuumed(table.target, 168) == ()
    assert [content(table.uri, version) for version in range(7)] == versions


def test_a_vacuum_deletes_what_is_older_and_is_safe_to_repeat(tmp_path: Path) -> None:
    table = filled(tmp_path)
    optimize_table(table.target, "s.t")
    before = content(table.uri)
    assert len(vacuumed(table.target, 0, dry_run=True)) == 6
    assert table.delta().version() == 6
    assert len(vacuumed(table.target, 0)) == 6
    assert content(table.uri) == before
    version = table.delta().version()
    assert vacuumed(table.target, 0) == ()
    assert (table.delta().version(), table.delta().transaction_version("mirrorgate")) == (version, 6)


def test_files_that_a_killed_writer_left_are_deleted_when_they_are_old(tmp_path: Path) -> None:
    table = filled(tmp_path, files=1)
    young, old = (Path(table.uri) / f"part-{name}.parquet" for name in ("young", "old"))
    for file in (young, old):
        file.write_bytes(b"half a file")
    age(old, 8)
    assert vacuumed(table.target, 168) == ("part-old.parquet",)
    assert (young.exists(), old.exists()) == (True, False)


@pytest.mark.parametrize("hours", [0, 23, 169, 10_000])
def test_files_without_a_version_stay_where_they_can_be_needed(tmp_path: Path, hours: int) -> None:
    table = filled(tmp_path, files=1)
    orphan = Path(table.uri) / "part-orphan.parquet"
    orphan.write_bytes(b"half a file")
    age(orphan, 1000)
    assert vacuumed(table.target, hours) == ()
    assert orphan.exists()


def test_a_vacuum_leaves_a_table_in_its_folder_alone(tmp_path: Path) -> None:
    inner = filled(tmp_path)
    outer = Mirrored(tmp_path, "s")
    outer.commit([(1, "a")])
    for file in Path(inner.uri).glob("*.parquet"):
        age(file, 30)
    assert vacuum_table(outer.target, ["s", "s.t"], "s", retention_hours=168).files == ()
    assert len(content(inner.uri)) == 12


def test_the_source_keeps_a_pinned_version_until_framing_of_a_new_version_is_completed(table: Mirrored) -> None:
    """delta-10: "Because a framed semantic model references a particular Delta table version, the source must ensure it
    keeps that Delta table version until framing of a new version is completed."
    """
    table.commit([(1, "a")])
    table.commit([(2, "b")], deleted=[(1,)])
    framed = content(table.uri, 1)
    assert pin_version(table.target, "s.t", "dataset", 1) == Pin("s.t", "dataset", 1)
    table.commit([(3, "c")], deleted=[(2,)])
    vacuum_table(table.target, ["s.t"], "s.t", retention_hours=0)
    assert content(table.uri, 1) == framed
    with rejected(Code.UNKNOWN_VERSION):
        pin_version(table.target, "s.t", "dataset", 0)
    newest = table.delta().version()
    assert pin_version(table.target, "s.t", "dataset").version == newest
    assert list_pins(table.target, "s.t") == [Pin("s.t", "dataset", newest)]
    vacuum_table(table.target, ["s.t"], "s.t", retention_hours=0)
    assert content(table.uri, newest) == content(table.uri) == [(3, "c")]
    with pytest.raises(FileNotFoundError):
        content(table.uri, 1)


@pytest.mark.parametrize("is_pinned", [True, False])
def test_the_log_of_a_pinned_version_outlives_the_cleanup_of_the_log(tmp_path: Path, is_pinned: bool) -> None:
    table = filled(tmp_path)
    short = {"delta.logRetentionDuration": "interval 0 days", "delta.checkpointInterval": "1"}
    pin_version(table.target, "s.t", "a", 2)
    pin_version(table.target, "s.t", "b", 3)
    assert unpin_version(table.target, "s.t", "b")
    if not is_pinned:
        assert unpin_version(table.target, "s.t", "a")
        assert not unpin_version(table.target, "s.t", "a")
    assert list_pins(table.target, "s.t") == ([Pin("s.t", "a", 2)] if is_pinned else [])
    table.delta().alter.set_table_properties(short)
    table.commit([(9, "z")])
    log = Path(table.uri) / "_delta_log"
    assert (log / f"{2:020}.json").exists() is is_pinned
    if is_pinned:
        assert len(content(table.uri, 2)) == 6


def test_a_pin_changes_no_row_and_no_position_and_its_name_is_checked(tmp_path: Path) -> None:
    table = filled(tmp_path, 2)
    before = content(table.uri)
    pin_version(table.target, "s.t", "model-1.v2")
    assert content(table.uri) == before
    assert table.delta().transaction_version("mirrorgate") == 2
    assert read_history(table.target, table.delta())[0].keeps_content
    with rejected(Code.BAD_NAME):
        pin_version(table.target, "s.t", "a b")


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
