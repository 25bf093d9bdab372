"""Comparison of a zone with Delta tables: counts, keys, rows, schemas, and what cannot be compared."""

import re
import shutil
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from app.landing.local_zone import LocalZone
from mirrorgate.errors import Misconfigured
from mirrorgate_zone.verify import compare_zone as compare_zone_module
from mirrorgate_zone.verify import zone_fold
from mirrorgate_zone.verify.codes import Finding
from mirrorgate_zone.verify.compare_zone import compare_zone
from tests.support import publishers
from tests.support.delta_tables import Storage, write_fabric_table
from tests.support.publishers import NAME, parquet_name
from tests.verify.zones import Zone

ROWS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.decimal128(10, 2))])


def rows_of(*rows: tuple[int, str | None, str | None]) -> pa.Table:
    columns: dict[str, list[Any]] = {"id": [], "name": [], "amount": []}
    for key, name, amount in rows:
        columns["id"].append(key)
        columns["name"].append(name)
        columns["amount"].append(None if amount is None else Decimal(amount))
    return pa.table(columns, schema=ROWS)


FINAL = rows_of((1, "a", "1.00"), (2, "b", None), (3, "c", "3.10"))


LOADED = rows_of((1, "a", "1.00"), (2, "x", "9.99"), (4, "d", "4"))
CHANGED = rows_of((2, "b", None), (4, None, None), (3, "c", "3.10"))


def write_zone(folder: Path, *files: pa.Table, keys: tuple[str, ...] | None = ("id",)) -> Path:
    """Write a zone of one table with these files."""
    table = Zone.create(folder / "zone").table(NAME, keys)
    for number, rows in enumerate(files, 1):
        table.file(number, rows)
    return folder / "zone"


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    """A table of two files whose result is FINAL."""
    return write_zone(tmp_path, LOADED, CHANGED.append_column("__rowMarker__", pa.array([1, 2, 4], pa.int32())))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "tables"


def findings(zone: Path, target: Path, **options: Any) -> list[Finding]:
    return list(compare_zone(LocalZone(zone), str(target), **options))


def codes(found: Sequence[Finding]) -> list[str]:
    return [one.code for one in found]


@pytest.mark.parametrize("place", [NAME, f"dbo/{NAME}"])
def test_an_equal_table_has_no_findings(place: str, zone: Path, target: Path) -> None:
    write_deltalake(target / place, FINAL.take([2, 0, 1]))
    assert findings(zone, target) == []
    assert findings(zone, target / place) == []


def test_tables_of_schemas_are_found(zone: Path, target: Path) -> None:
    (zone / "sales.schema").mkdir()
    (zone / NAME).rename(zone / "sales.schema" / NAME)
    write_deltalake(target / "sales" / NAME, FINAL)
    assert findings(zone, target) == []


def test_each_kind_of_difference_names_keys_files_and_columns(zone: Path, target: Path) -> None:
    write_deltalake(target / NAME, rows_of((1, "a", "1"), (2, "b", "0"), (4, "d", "4"), (7, "q", None)))
    found = findings(zone, target)
    assert codes(found) == ["against_differs", "against_extra_row", "against_missing_row"]
    differs, extra, missing = (one.detail for one in found)
    second = parquet_name(2)
    assert differs.startswith("1 key has other rows in the Delta table")
    assert f"(last changed by {second} row 1): amount" in differs
    assert "3 rows in the zone, 4 in the Delta table" in differs
    assert extra.startswith("2 keys are in the Delta table and not in the zone")
    assert f"(last changed by {second} row 2)" in extra
    assert "(no file has it)" in extra
    assert f"(last changed by {second} row 3)" in missing
    assert [one.file for one in found] == [f"{NAME}/{second}"] * 3
    assert all(one.table == NAME for one in found)


def test_values_are_shown_only_if_wanted(zone: Path, target: Path) -> None:
    write_deltalake(target / NAME, rows_of((1, "a", "1"), (2, "secret", None), (77, "q", None)))
    hidden = " ".join(one.detail for one in findings(zone, target))
    assert "secret" not in hidden
    assert '"77"' not in hidden
    shown = " ".join(one.detail for one in findings(zone, target, show_values=True))
    assert '{"id": "2"} (last changed' in shown
    assert "name 'secret' instead of 'b'" in shown
    assert '{"id": "77"} (no file has it)' in shown
    assert '{"id": "3"}' in shown


def test_a_key_has_one_hash_on_both_sides_and_in_each_run(zone: Path, target: Path) -> None:
    write_deltalake(target / NAME, rows_of((1, "a", "1.00"), (2, "b", None)))
    first, second = (findings(zone, target)[0].detail for _ in range(2))
    assert first == second
    assert re.search(r"First: key [0-9a-f]{16} \(last changed by", first)


@pytest.mark.parametrize("storage", ["inline", "file"])
@pytest.mark.parametrize("mapped", [False, True])
def test_deletion_vectors_and_column_mapping_are_read(storage: Storage, mapped: bool, zone: Path, target: Path) -> None:
    """Fabric's own tables have both."""
    rows = pa.concat_tables([rows_of((4, "d", "4"), (2, "x", "9.99")), FINAL])
    write_fabric_table(target / "dbo" / NAME, rows, deleted=[0, 1], storage=storage, mapped=mapped)
    assert findings(zone, target) == []
    write_fabric_table(target / NAME, rows, deleted=[0, 2], storage=storage, mapped=mapped)
    assert codes(findings(zone, target)) == ["against_differs", "against_missing_row"]


def test_what_deltalake_does_not_read_is_a_finding(zone: Path, target: Path) -> None:
    write_fabric_table(target / NAME, FINAL, reader_features=["someFutureFeature"])
    (found,) = findings(zone, target)
    assert found.code == "against_unreadable"
    assert "someFutureFeature" in found.detail


@pytest.mark.parametrize("damage", ["data", "log", "vector"])
def test_a_damaged_table_is_a_finding(damage: str, zone: Path, target: Path) -> None:
    write_fabric_table(target / NAME, FINAL, deleted=[0])
    pattern = {"data": "*.parquet", "log": "_delta_log/*.json", "vector": "*.bin"}[damage]
    for path in (target / NAME).glob(pattern):
        path.write_bytes(b"damaged")
    assert codes(findings(zone, target)) == ["against_unreadable"]


def test_values_are_compared_whatever_their_types_are(tmp_path: Path, target: Path) -> None:
    landed = pa.table(
        {
            "id": pa.array([1, 2], pa.uint32()),
            "at": pa.array([1_000, None], pa.timestamp("ms", "Europe/Berlin")),
            "price": pa.array(["1.50", "100"]).cast(pa.decimal128(7, 2)),
            "ratio": pa.array([0.5, 0.1], pa.float32()),
            "text": pa.array(["a", "b"]).dictionary_encode(),
            "bytes": pa.array([b"ab", b"\x00\xff"], pa.binary(2)),
            "day": pa.array([86_400_000, None], pa.date64()),
        }
    )
    stored = landed.cast(
        pa.schema(
            [
                ("id", pa.int64()),
                ("at", pa.timestamp("us", "UTC")),
                ("price", pa.decimal128(38, 18)),
                ("ratio", pa.float64()),
                ("text", pa.string()),
                ("bytes", pa.binary()),
                ("day", pa.date32()),
            ]
        )
    )
    write_deltalake(target / NAME, stored)
    assert findings(write_zone(tmp_path, landed), target) == []


def test_a_column_that_was_added_later_is_null_before(tmp_path: Path, target: Path) -> None:
    zone = write_zone(tmp_path, pa.table({"id": [1], "old": ["x"]}), pa.table({"ID": [2], "New": ["y"]}))
    write_deltalake(target / NAME, pa.table({"id": [1, 2], "old": ["x", None], "New": [None, "y"]}))
    assert findings(zone, target) == []


def test_other_columns_are_a_finding_and_the_common_ones_are_compared(zone: Path, target: Path) -> None:
    other = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "amount": ["1", None, "3"], "more": [1, 2, 3]})
    write_deltalake(target / NAME, other)
    (found,) = findings(zone, target)
    assert found.code == "against_schema_differs"
    assert "column more is only in the Delta table" in found.detail
    assert "column amount holds text instead of whole or decimal numbers" in found.detail
    write_deltalake(target / NAME, pa.table({"name": ["a", "b", "c"]}), mode="overwrite", schema_mode="overwrite")
    assert codes(findings(zone, target)) == ["against_schema_differs"]


def test_a_table_that_has_only_files_without_rows_has_their_columns(tmp_path: Path, target: Path) -> None:
    write_deltalake(target / NAME, ROWS.empty_table())
    assert findings(write_zone(tmp_path, ROWS.empty_table()), target) == []


def test_a_table_of_many_columns_is_compared(tmp_path: Path, target: Path) -> None:
    rows = pa.table({"id": [1], **{f"c{number}": [number] for number in range(2_000)}})
    zone = write_zone(tmp_path, rows)
    write_deltalake(target / NAME, rows)
    assert findings(zone, target) == []
    write_deltalake(target / NAME, rows.set_column(2_000, "c1999", pa.array([0])), mode="overwrite")
    assert codes(findings(zone, target)) == ["against_differs"]


def test_the_two_zeros_of_floating_point_are_one_key(tmp_path: Path, target: Path) -> None:
    def rows(*keys: float) -> pa.Table:
        return pa.table({"id": [*keys], "name": ["a"] * len(keys)})

    upserts = rows(-0.0, 0.0).append_column("__rowMarker__", pa.array([4, 4], pa.int32()))
    zone = write_zone(tmp_path, rows(1.5, -0.0), upserts)
    write_deltalake(target / NAME, rows(1.5, 0.0))
    assert findings(zone, target) == []


def test_appended_duplicates_are_rows_of_their_own(tmp_path: Path, target: Path) -> None:
    row = rows_of((1, "a", "1"))
    zone = write_zone(tmp_path, row, row)
    write_deltalake(target / NAME, rows_of((1, "a", "1"), (1, "a", "1")))
    assert findings(zone, target) == []
    write_deltalake(target / NAME, row, mode="overwrite")
    (found,) = findings(zone, target)
    assert found.code == "against_differs"
    assert "1 row instead of 2" in found.detail


def test_tables_without_keys_are_compared_as_bags_of_rows(tmp_path: Path, target: Path) -> None:
    zone = write_zone(tmp_path, *(rows_of((1, "a", "1"), (number, None, None)) for number in (1, 2)), keys=None)
    same = rows_of((2, None, None), (1, "a", "1"), (1, None, None), (1, "a", "1"))
    write_deltalake(target / NAME, same)
    assert findings(zone, target) == []
    write_deltalake(target / NAME, rows_of((1, "a", "1"), (1, None, None), (5, None, None)), mode="overwrite")
    extra, missing = findings(zone, target, show_values=True)
    assert extra.detail.startswith("1 row is in the Delta table and not in the zone")
    assert '"id": "5"' in extra.detail
    assert missing.detail.startswith("2 rows are in the zone and not in the Delta table")


def test_a_table_without_its_delta_table_is_a_finding(zone: Path, target: Path) -> None:
    write_deltalake(target / "other", FINAL)
    (found,) = findings(zone, target)
    assert found.code == "against_table_missing"
    assert found.detail == f"no Delta table at {target}/{NAME}"


def test_only_chosen_tables_are_compared(zone: Path, target: Path) -> None:
    (zone / "other").mkdir()
    write_deltalake(target / NAME, FINAL)
    assert findings(zone, target, tables=[NAME]) == []
    assert findings(zone, target / NAME, tables=[NAME]) == []
    with pytest.raises(Misconfigured, match="the zone has 2 tables"):
        findings(zone, target / NAME)


def test_an_address_that_is_nothing_cannot_be_compared_with(zone: Path, target: Path) -> None:
    with pytest.raises(Misconfigured, match="is not a folder"):
        findings(zone, target / "nothing")


def test_a_mirror_is_compared_at_the_file_that_it_has_applied(zone: Path, target: Path) -> None:
    transactions = [Transaction("mirrorgate", 1), Transaction("mirrorgate.generation", 1)]
    write_deltalake(target / NAME, LOADED, commit_properties=CommitProperties(app_transactions=transactions))
    (found,) = findings(zone, target)
    assert found.code == "against_behind"
    assert found.detail.startswith("the mirror has applied file 1 of 2")


@pytest.mark.parametrize(
    ("damaged", "why"), [(False, "file 2 is missing, if"), (True, "00000000000000000002.parquet: ")]
)
def test_a_mirror_is_not_compared_with_a_zone_that_lost_what_it_has_applied(
    damaged: bool, why: str, zone: Path, target: Path
) -> None:
    transactions = [Transaction("mirrorgate", 2), Transaction("mirrorgate.generation", 1)]
    write_deltalake(target / NAME, FINAL, commit_properties=CommitProperties(app_transactions=transactions))
    assert findings(zone, target) == []
    (zone / NAME / parquet_name(2)).write_bytes(b"") if damaged else (zone / NAME / parquet_name(2)).unlink()
    (found,) = findings(zone, target)
    assert found.code == "against_not_compared"
    assert f"the mirror has applied file 2, but {why}" in found.detail


def test_files_after_a_gap_or_a_changed_type_are_not_compared(zone: Path, target: Path) -> None:
    write_deltalake(target / NAME, FINAL)
    flipped = pa.table({"id": ["1"], "name": ["a"]})
    pq.write_table(flipped, zone / NAME / parquet_name(3))
    pq.write_table(FINAL, zone / NAME / parquet_name(5))
    found = findings(zone, target)
    assert codes(found) == ["against_stopped", "against_stopped"]
    assert "file 4 is missing" in found[0].detail
    assert "SchemaMergeFailure: column id has type string instead of int64" in found[1].detail


def test_only_touched_keys_are_compared_if_the_first_files_are_gone(zone: Path, target: Path) -> None:
    (zone / NAME / parquet_name(1)).unlink()
    write_deltalake(target / NAME, rows_of((1, "a", "1.00"), (2, "b", None), (3, "c", "3.10"), (99, "old", None)))
    assert codes(findings(zone, target)) == ["against_incomplete"]
    write_deltalake(target / NAME, rows_of((4, "deleted", None), (2, "b", None), (3, "c", None)), mode="overwrite")
    assert codes(findings(zone, target)) == ["against_incomplete", "against_differs", "against_extra_row"]


@pytest.mark.parametrize("name", ["_metadata.json", parquet_name(2)])
def test_what_cannot_be_read_in_the_zone_is_a_finding(name: str, zone: Path, target: Path) -> None:
    write_deltalake(target / NAME, LOADED)
    (zone / NAME / name).write_bytes(b"damaged")
    (found,) = findings(zone, target)
    assert found.code == ("against_not_compared" if name == "_metadata.json" else "against_stopped")


@pytest.mark.parametrize("group_rows", [1, 1_000_000])
def test_groups_of_files_change_no_result(
    group_rows: int, tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zone_fold, "GROUP_ROWS", group_rows)
    publishers.clean_zone(tmp_path / "zone")
    third, fourth = (
        pq.read_table(tmp_path / "zone" / NAME / parquet_name(number)).drop_columns("__rowMarker__")
        for number in (3, 4)
    )
    write_deltalake(target / NAME, pa.concat_tables([third.slice(0, 2), fourth.slice(0, 1), fourth.slice(2)]))
    assert findings(tmp_path / "zone", target) == []


def test_publishers_by_time_and_of_text_are_compared(tmp_path: Path, target: Path) -> None:
    publishers.camel_case_csv(tmp_path / "text")
    write_deltalake(target / NAME, pa.table({"Id": ["1"], "Name": pa.array([None], pa.string())}))
    assert findings(tmp_path / "text", target) == []
    publishers.ordered_by_time(tmp_path / "time")
    (found,) = [one for one in findings(tmp_path / "time", target) if one.code == "against_schema_differs"]
    assert "column id holds text" in found.detail


@pytest.fixture
def two_tables(zone: Path, target: Path) -> Path:
    """Return a zone with two tables, which differ from their Delta tables."""
    shutil.copytree(zone / NAME, zone / "another")
    for name in (NAME, "another"):
        write_deltalake(target / name, rows_of((1, "a", "1.00")))
    return zone


def test_a_file_that_vanishes_does_not_end_the_comparison_of_other_tables(
    two_tables: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_all = compare_zone_module.list_files

    def list_and_lose(*args: Any) -> Any:
        listed = list_all(*args)
        (two_tables / "another" / parquet_name(2)).unlink(missing_ok=True)
        return listed

    monkeypatch.setattr(compare_zone_module, "list_files", list_and_lose)
    found = findings(two_tables, target)
    assert (found[0].table, found[0].code) == ("another", "against_not_compared")
    assert {one.table for one in found[1:]} == {NAME}


def test_an_error_in_the_comparison_of_a_table_is_told_of_it_and_does_not_end_that_of_others(
    two_tables: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = compare_zone_module.read_metadata

    def fail_once(zone: Any, table: Any) -> Any:
        if str(table) == "another":
            raise AssertionError("a value of a row")
        return read(zone, table)

    monkeypatch.setattr(compare_zone_module, "read_metadata", fail_once)
    found = findings(two_tables, target)
    assert (found[0].table, found[0].code, found[0].detail) == ("another", "check_failed", "comparison: AssertionError")
    assert {one.table for one in found[1:]} == {NAME}
