"""Maintenance changes no row and no position, and deletes nothing that a reader within the retention needs."""

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from app.mirror.inspection import maintenance
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

DAYS = 24 * 3600


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


def test_a_mirror_beside_maintenance_loses_no_row(tmp_path: Path) -> None:
    table, stop = filled(tmp_path), threading.Event()

    def maintain() -> None:
        while not stop.is_set():
            optimize_table(table.target, "s.t")
            vacuum_table(table.target, ["s.t"], "s.t", retention_hours=168)

    thread = threading.Thread(target=maintain)
    thread.start()
    try:
        for number in range(100, 130):
            for _ in range(50):
                try:
                    table.commit([(number, "a")], deleted=[(number - 1,)])
                except CommitFailedError:
                    table.file -= 1
                    continue
                break
    finally:
        stop.set()
        thread.join()
    assert [row for row in content(table.uri) if row[0] >= 100] == [(129, "a")]
    assert table.delta().transaction_version("mirrorgate") == 36


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
