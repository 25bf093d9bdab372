"""Row checks: markers, keys, and changes that do not fit the rows before them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.landing.local_zone import LocalZone
from app.published.table_files import PublishedTable, list_files
from app.published.table_metadata import BY_UPDATE_TIME, TableMetadata
from mirrorgate_zone.verify import row_check
from mirrorgate_zone.verify.codes import Finding
from mirrorgate_zone.verify.file_reading import CheckedFile
from mirrorgate_zone.verify.row_check import RowCheck
from tests.support import publishers
from tests.verify.zones import TableFolder

TABLE = PublishedTable(None, publishers.NAME, publishers.NAME)
KEYED = TableMetadata(("id",))

Rows = Sequence[tuple[int | None, int | None]]
"""Pairs of a marker and a key."""


def file_of(rows: Rows, **columns: pa.Array) -> pa.Table:
    keys = pa.array([key for _, key in rows], pa.int64())
    values = columns or {"a": pa.array([1] * len(rows)), "b": pa.array(["x"] * len(rows))}
    return pa.table({"id": keys, **values, "__rowMarker__": pa.array([marker for marker, _ in rows], pa.int32())})


def write(root: Path, number: int, rows: pa.Table) -> Path:
    return TableFolder(root / TABLE.folder).file(number, rows)


@contextmanager
def checking(root: Path, metadata: TableMetadata | None = KEYED) -> Iterator[RowCheck]:
    check = RowCheck(LocalZone(root), TABLE, metadata)
    try:
        yield check
    finally:
        check.close()


def checked_files(root: Path) -> list[CheckedFile]:
    listed = list_files(LocalZone(root), TABLE)
    return [CheckedFile(file, 1, None, (), None) for file in (*listed.numbered.values(), *listed.unnumbered)]


def findings(root: Path, metadata: TableMetadata | None = KEYED) -> list[Finding]:
    with checking(root, metadata) as check:
        found = [finding for file in checked_files(root) for finding in check.add_file(file)]
        return found + list(check.finish())


def brief(found: Sequence[Finding]) -> list[tuple[str, int | None, str]]:
    return [(one.code, int(Path(one.file).stem) if one.file else None, one.detail) for one in found]


@pytest.mark.parametrize(
    ("rows", "code", "detail"),
    [
        ([(None, 1), (0, 2), (None, 3)], "marker_null", "2 rows: rows 1, 3"),
        ([(0, 1), (3, 2), (-1, 3)], "marker_unknown", "2 rows: rows 2-3"),
        ([(0, None), (4, 2), (2, None)], "key_null", "2 rows: rows 1, 3"),
        ([(0, 1), (0, 2), (0, 1)], "duplicate_in_file", "1 row: row 3"),
        ([(4, 1), (0, 1)], "duplicate_in_file", "1 row: row 2"),
        ([(0, 1), (1, 2)], "update_of_missing_row", "1 row: row 2"),
        ([(0, 1), (2, 2)], "delete_of_missing_row", "1 row: row 2"),
        ([(0, 1), (2, 1), (2, 1)], "delete_of_missing_row", "1 row: row 3"),
        ([(0, 1), (2, 1), (1, 1)], "update_of_missing_row", "1 row: row 3"),
    ],
)
def test_a_fault_within_a_file_is_found(rows: Rows, code: str, detail: str, tmp_path: Path) -> None:
    write(tmp_path, 1, file_of(rows))
    assert brief(findings(tmp_path)) == [(code, 1, detail)]


@pytest.mark.parametrize(
    ("rows", "codes"),
    [
        ([(0, 1)], [("duplicate_insert", 2, "1 row: row 1")]),
        ([(2, 1), (0, 1)], []),
        ([(0, 1), (0, 1)], [("duplicate_in_file", 2, "1 row: row 2"), ("duplicate_insert", 2, "1 row: row 1")]),
        ([(1, 2)], [("update_of_missing_row", 2, "1 row: row 1")]),
        ([(4, 1), (4, 2), (2, 2), (1, 1)], []),
    ],
)
def test_a_file_is_compared_with_the_files_before(
    rows: Rows, codes: list[tuple[str, int, str]], tmp_path: Path
) -> None:
    write(tmp_path, 1, file_of([(0, 1), (0, 2), (2, 2)]))
    write(tmp_path, 2, file_of(rows))
    assert brief(findings(tmp_path)) == codes


@pytest.mark.parametrize("group_rows", [1, 1_000_000])
def test_groups_of_files_change_no_finding(group_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_check, "GROUP_ROWS", group_rows)
    for number, rows in enumerate(([(0, 1)], [(2, 1), (1, 2)], [(0, 1), (0, 1)], [(2, 1)], [(1, 1)]), 1):
        write(tmp_path, number, file_of(rows))
    assert [(code, file) for code, file, _ in brief(findings(tmp_path))] == [
        ("update_of_missing_row", 2),
        ("duplicate_in_file", 3),
        ("update_of_missing_row", 5),
    ]


def test_rows_are_told_as_ranges(tmp_path: Path) -> None:
    rows: Rows = [(0, key) for key in range(1, 5_001)]
    write(tmp_path, 1, file_of(rows))
    write(tmp_path, 2, file_of([*rows[:3], (4, 9_001), *rows[3:6], (4, 9_002), rows[10], (4, 9_003), rows[11]]))
    assert brief(findings(tmp_path)) == [("duplicate_insert", 2, "8 rows: rows 1-3, 5-7, 9 and more")]


def test_rows_of_a_table_without_keys_are_inserts_only(tmp_path: Path) -> None:
    write(tmp_path, 1, file_of([(0, 1), (0, 1), (1, 1), (2, 1), (4, 1)]))
    assert brief(findings(tmp_path, TableMetadata(()))) == [("marker_without_keys", 1, "3 rows: rows 3-5")]


def test_missing_metadata_is_no_finding_about_rows(tmp_path: Path) -> None:
    publishers.clean_zone(tmp_path)
    assert findings(tmp_path, None) == []


def test_compound_keys_are_compared_as_a_whole(tmp_path: Path) -> None:
    rows = pa.table({"a": ["x", "xy"], "b": ["yz", "z"], "c": [1, 2]})
    write(tmp_path, 1, rows)
    assert findings(tmp_path, TableMetadata(("a", "b"))) == []
    assert brief(findings(tmp_path, TableMetadata(("C", "A")))) == []
    write(tmp_path, 2, rows.slice(1))
    assert brief(findings(tmp_path, TableMetadata(("A", "b")))) == [("duplicate_insert", 2, "1 row: row 1")]


def test_rows_without_marker_are_upserts_if_the_metadata_says_so(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path, number, file_of([(0, 1)]).drop_columns("__rowMarker__"))
    assert findings(tmp_path, TableMetadata(("id",), upsert_by_default=True)) == []
    assert brief(findings(tmp_path)) == [("duplicate_insert", 2, "1 row: row 1")]


def test_updates_of_nulls_only_are_probably_partial(tmp_path: Path) -> None:
    nulls = {"a": pa.array([1, None, None, 1]), "b": pa.array(["x", None, None, None])}
    write(tmp_path, 1, file_of([(0, 1), (1, 1), (2, 1), (4, 2)], **nulls))
    assert brief(findings(tmp_path)) == [("update_without_values", 1, "1 row: row 2")]


def test_one_column_of_nulls_is_no_suspicion(tmp_path: Path) -> None:
    write(tmp_path, 1, file_of([(0, 1), (1, 1)], a=pa.array([1, None])))
    assert findings(tmp_path) == []


def test_missing_rows_are_unknown_after_files_that_are_gone(tmp_path: Path) -> None:
    write(tmp_path, 5, file_of([(1, 1), (2, 2), (0, 3)]))
    write(tmp_path, 6, file_of([(0, 3)]))
    assert brief(findings(tmp_path)) == [("duplicate_insert", 6, "1 row: row 1")]


def test_keys_are_not_compared_across_a_gap(tmp_path: Path) -> None:
    for number, rows in ((1, [(0, 1)]), (3, [(0, 1), (1, 2), (None, 3)])):
        write(tmp_path, number, file_of(rows))
    assert brief(findings(tmp_path)) == [("marker_null", 3, "1 row: row 3")]


def test_files_without_a_number_are_followed_only_if_they_are_ordered_by_time(tmp_path: Path) -> None:
    folder = publishers.guid_names(tmp_path)
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(file_of([(0, 99)]), folder / name)
    assert findings(tmp_path) == []
    found = findings(tmp_path, TableMetadata(("id",), detection=BY_UPDATE_TIME))
    assert ("duplicate_insert", f"{TABLE.folder}/b.parquet") in [(one.code, one.file) for one in found]


def test_damaged_rows_are_a_finding_and_stop_the_comparison(tmp_path: Path) -> None:
    write(tmp_path, 1, file_of([(0, 1)]))
    path = write(tmp_path, 2, file_of([(0, key) for key in range(2, 2_000)]))
    write(tmp_path, 3, file_of([(0, 1)]))
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)
    path.write_bytes(content)
    found = findings(tmp_path)
    assert [(one.code, Path(one.file or "").stem[-1]) for one in found] == [("rows_unreadable", "2")]


def test_many_files_with_one_fault_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_check, "MAX_FILES_PER_CODE", 2)
    for number in range(1, 6):
        write(tmp_path, number, file_of([(0, 1)]))
    assert brief(findings(tmp_path))[2:] == [("duplicate_insert", None, "2 more files have such rows")]


def test_checks_continue_after_they_were_finished(tmp_path: Path) -> None:
    write(tmp_path, 1, file_of([(0, 1)]))
    write(tmp_path, 2, file_of([(0, 1)]))
    with checking(tmp_path) as check:
        first, second = checked_files(tmp_path)
        assert [*check.add_file(first), *check.finish()] == []
        assert [*check.finish()] == []
        assert brief([*check.add_file(second), *check.finish()]) == [("duplicate_insert", 2, "1 row: row 1")]
        assert brief([*check.finish()]) == [("duplicate_insert", 2, "1 row: row 1")]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([1.5, 2.5], pa.float16()),
        pa.array([b"\x00\xff", b"\xff"]),
        pa.array([1_000, 2_000], pa.timestamp("ns", "Europe/Berlin")),
        pa.array([1, 2], pa.uint64()),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array(["1.5", "2.5"]).cast(pa.decimal256(60, 2)),
        pa.array([[1], [2]]),
        pa.array([{"x": 1}, {"x": 2}]),
        pa.array([True, False]),
        pa.array([1_000, 2_000], pa.time64("ns")),
    ],
    ids=lambda keys: str(keys.type),
)
def test_keys_of_every_type_are_compared(keys: pa.Array, tmp_path: Path) -> None:
    write(tmp_path, 1, pa.table({"id": keys, "__rowMarker__": pa.array([0, 0], pa.int32())}))
    write(tmp_path, 2, pa.table({"id": keys.slice(1), "__rowMarker__": pa.array([0], pa.int32())}))
    assert brief(findings(tmp_path)) == [("duplicate_insert", 2, "1 row: row 1")]


def test_names_of_columns_are_not_taken_for_those_of_the_check(tmp_path: Path) -> None:
    names = ("__position__", "__effect__", "position", "row", "file", "key", "marker", "fault")
    write(tmp_path, 1, file_of([(0, 1), (4, 2)], **{name: pa.array([2, 2]) for name in names}))
    write(tmp_path, 2, file_of([(0, 1)], **{name: pa.array([7]) for name in names}))
    assert brief(findings(tmp_path)) == [("duplicate_insert", 2, "1 row: row 1")]


def test_rows_of_a_file_with_the_marker_alone_have_no_key(tmp_path: Path) -> None:
    write(tmp_path, 1, pa.table({"__rowMarker__": pa.array([0], pa.int32())}))
    assert findings(tmp_path) == []
