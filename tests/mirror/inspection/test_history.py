"""`mirror history` explains every version; tables and points in time are found with errors that help."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.mirror.inspection.difference import between, of_file
from app.mirror.inspection.history import find_table, open_table, parse_point, read_history, table_names
from app.mirror.target import MirrorTarget
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, RejectedInput
from tests.mirror.inspection.mirrored import Mirrored


def test_each_version_says_what_it_applied(table: Mirrored) -> None:
    table.commit([(1, "a"), (2, "b")])
    table.commit([(3, "c")], deleted=[(1,)], files=4)
    newest, first = read_history(table.target, table.delta())
    assert (first.version, first.operation, first.files, first.generation) == (0, "mirror", (1, 1), 1)
    assert (newest.files, newest.deleted_keys, newest.appended_rows) == ((2, 5), 1, 1)
    assert newest.rows == {"0": 1, "1": 0, "2": 1, "4": 0}
    assert newest.to_json()["files"] == [2, 5]
    assert abs(newest.time - datetime.now(UTC)) < timedelta(minutes=1)


def test_maintenance_and_restore_are_named(table: Mirrored) -> None:
    table.commit([(1, "a")])
    table.commit([(2, "b")])
    table.delta().optimize.compact()
    table.delta().restore(0)
    table.delta().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    named = [entry.operation for entry in read_history(table.target, table.delta())]
    assert named == ["vacuum", "vacuum", "restore", "optimize", "mirror", "mirror"]


def test_a_table_is_found_by_its_name_alone_and_in_any_letter_case() -> None:
    names = ["A.t", "b.T2", "b.orders", "c.orders", "plain"]
    assert [find_table(names, name) for name in ("A.t", "a.T", "t2", "PLAIN")] == ["A.t", "A.t", "b.T2", "plain"]
    with pytest.raises(RejectedInput, match=r"b\.orders, c\.orders"):
        find_table(names, "orders")
    assert find_table(["t", "T"], "T") == "T"


def test_an_unknown_table_names_what_there_is() -> None:
    with pytest.raises(RejectedInput) as caught:
        find_table([f"s.table{number}" for number in range(20)], "s.tabel3")
    assert "s.table3" in caught.value.detail
    assert "and 12 more" in caught.value.remedy


@pytest.mark.parametrize("folder", ["missing", "not_a_mirror"])
def test_a_target_without_tables_is_no_mirror(tmp_path: Path, folder: str) -> None:
    (tmp_path / "not_a_mirror" / "sub").mkdir(parents=True)
    with pytest.raises(Misconfigured, match="no Delta table") as caught:
        table_names(MirrorTarget(str(tmp_path / folder)))
    assert "mirrorgate mirror run" in caught.value.remedy


def test_a_time_means_the_version_that_was_there_then(table: Mirrored) -> None:
    for number in range(3):
        table.commit([(number, "a")])
    assert [entry.version for entry in read_history(table.target, table.delta(1))] == [1, 0]
    assert [entry.version for entry in read_history(table.target, table.delta(), 2)] == [2, 1]
    for entry in read_history(table.target, table.delta()):
        assert open_table(table.target, table.name, entry.time).version() == entry.version
    later = datetime.now(UTC) + timedelta(days=1)
    assert open_table(table.target, table.name, later).version() == 2


def test_points_in_time_are_versions_or_times() -> None:
    assert parse_point("17") == 17
    assert parse_point("2026-11-22T15:00:00+02:00") == datetime(2026, 11, 22, 13, tzinfo=UTC)
    assert parse_point("2026-11-22") == datetime(2026, 11, 22, tzinfo=UTC)
    for wrong in ("", "-1", "yesterday", "v2"):
        with pytest.raises(ValueError, match=r".+"):
            parse_point(wrong)


def test_the_version_of_a_file_is_found_behind_maintenance(table: Mirrored) -> None:
    table.commit([(1, "a")])
    table.commit([(2, "b")], files=3)
    table.delta().optimize.compact()
    table.commit([(3, "c")])
    for file, version in ((1, 0), (2, 1), (4, 1), (5, 3)):
        assert of_file(table.target, "t", file).after.version() == version
    assert of_file(table.target, "t", 1).before is None
    with of_file(table.target, "t", 3).compared("1GB") as found:
        assert found.counts == {"insert": 1, "update": 0, "delete": 0}
    with pytest.raises(RejectedInput, match="its last file is 5"):
        of_file(table.target, "t", 6)


def test_a_version_whose_files_a_vacuum_removed_is_answered_so(table: Mirrored) -> None:
    table.commit([(1, "a")])
    table.commit([(1, "b")], deleted=[(1,)])
    table.delta().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    pair = between(table.target, "t", 0, 1)
    with pytest.raises(RejectedInput, match=Code.UNKNOWN_VERSION) as caught, pair.compared("1GB") as found:
        list(found.changes())
    assert "vacuum" in caught.value.detail


def test_a_log_that_cannot_be_read_is_tried_again_later(table: Mirrored) -> None:
    table.commit([(1, "a")])
    log = Path(table.uri) / "_delta_log" / f"{0:020}.json"
    log.write_text("{ this is no action")
    with pytest.raises(MirrorgateError, match=Code.MIRROR_AWAY):
        open_table(table.target, table.name)
