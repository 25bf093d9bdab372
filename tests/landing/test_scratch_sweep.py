"""The sweep removes unneeded scratch files and nothing else."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.domain.model.table import Epoch, FileNumber, TableId
from app.landing.local_zone import LocalZone
from app.landing.publish import (
    RevocationMarkers,
    Scratch,
    find_markers,
    newest_epoch,
    remove_markers,
    revoke_older_epochs,
    sweep_dropped,
    sweep_prepared,
    sweep_scratch,
)

TABLE = TableId(7)
OWN = Scratch(TABLE, Epoch(4))
HEX = "0123456789abcdef" * 2
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "zone"


@pytest.fixture
def zone(root: Path) -> LocalZone:
    return LocalZone(root)


def made(root: Path, path: str, *, age: timedelta) -> Path:
    """Create a file whose last change was so long ago."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    moment = (NOW - age).timestamp()
    os.utime(file, (moment, moment))
    return file


def temp(number: int) -> str:
    return OWN.path(f"{number:020d}-{HEX}.parquet")


def test_old_temps_of_published_files_go_and_all_others_stay(root: Path, zone: LocalZone) -> None:
    old, young = timedelta(hours=2), timedelta(minutes=5)
    gone = made(root, temp(1), age=old)
    kept = [
        made(root, temp(2), age=young),
        made(root, temp(3), age=old),
        made(root, OWN.path("_metadata.json"), age=old),
        made(root, OWN.path(f"{1:020d}.parquet"), age=old),
        made(root, Scratch(TABLE, Epoch(5)).path(f"{1:020d}-{HEX}.parquet"), age=old),
        made(root, Scratch(TableId(8), Epoch(4)).path(f"{1:020d}-{HEX}.parquet"), age=old),
    ]
    assert sweep_scratch(zone, OWN, recorded=FileNumber(2), now=NOW) == 1
    assert not gone.exists()
    assert all(file.exists() for file in kept)


def test_what_a_revocation_took_away_and_did_not_delete_goes(root: Path, zone: LocalZone) -> None:
    left = made(root, f"_scratchPad/{TABLE}/revoked-2-{HEX}/temp.parquet", age=timedelta(0))
    other = made(root, f"_scratchPad/{TABLE}/revoked", age=timedelta(days=400))
    assert sweep_scratch(zone, OWN, recorded=FileNumber(0), now=NOW) == 1
    assert not left.parent.exists()
    assert other.exists()


def test_nothing_outside_the_scratch_is_ever_looked_at(root: Path, zone: LocalZone, tmp_path: Path) -> None:
    age = timedelta(days=400)
    outside = [
        made(root, f"{TABLE}/revoked-1-{HEX}", age=age),
        made(root, f"t/{1:020d}-{HEX}.parquet", age=age),
        made(root, f"t/_ProcessedFiles/{1:020d}.parquet", age=age),
        made(root, f"t/_FilesReadyToDelete/{1:020d}.parquet", age=age),
        made(root, f"partner-{HEX}", age=age),
    ]
    elsewhere = made(tmp_path, "elsewhere/precious", age=age)
    link = root / "_scratchPad" / str(TABLE) / f"revoked-1-{HEX}"
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere.parent)
    sweep_scratch(zone, OWN, recorded=FileNumber(9), now=NOW)
    sweep_prepared(zone, now=NOW)
    remove_markers(zone, TABLE, Epoch(99))
    assert all(file.exists() for file in [*outside, elsewhere])
    assert not link.is_symlink()


def test_what_was_prepared_and_not_used_goes_after_a_day(root: Path, zone: LocalZone) -> None:
    old, young = (
        made(root, f"_scratchPad/partner-{n * 8}", age=timedelta(hours=h)) for n, h in (("0a1b", 25), ("1", 2))
    )
    for probe in (f"probe-{HEX}", f"probe-{HEX}-removed"):
        left = made(root, f"_scratchPad/{probe}/file", age=timedelta(days=2))
        os.utime(left.parent, ((NOW - timedelta(days=2)).timestamp(),) * 2)
    assert sweep_prepared(zone, now=NOW) == 3
    assert not old.exists()
    assert zone.names("_scratchPad") == [young.name]


def test_markers_are_counted_and_are_old_after_thirty_days_from_the_first_on(root: Path, zone: LocalZone) -> None:
    for epoch, days in ((1, 90), (2, 31), (3, 29)):
        made(root, Scratch(TABLE, Epoch(epoch)).folder, age=timedelta(days=days))
    zone.create_folder(OWN.folder)
    assert find_markers(zone, OWN, now=NOW) == RevocationMarkers(3, Epoch(2))
    made(root, Scratch(TABLE, Epoch(1)).folder, age=timedelta(days=1))
    assert find_markers(zone, OWN, now=NOW) == RevocationMarkers(3, Epoch(0))


def test_swept_markers_are_not_made_again(root: Path, zone: LocalZone) -> None:
    revoke_older_epochs(zone, OWN)
    assert remove_markers(zone, TABLE, Epoch(2)) == 2
    next_owner = Scratch(TABLE, Epoch(5))
    revoke_older_epochs(zone, next_owner, after=Epoch(2))
    assert zone.names(f"_scratchPad/{TABLE}") == ["3", "4"]


def test_the_newest_epoch_is_that_of_any_marker_or_folder(zone: LocalZone) -> None:
    assert newest_epoch(zone, TABLE) == 0
    zone.create_folder(f"_scratchPad/{TABLE}/12")
    revoke_older_epochs(zone, OWN)
    assert newest_epoch(zone, TABLE) == 12


def test_the_scratch_of_a_dropped_table_goes_once_all_of_it_is_old(root: Path, zone: LocalZone) -> None:
    old, young = timedelta(days=31), timedelta(days=29)
    gone = [made(root, f"_scratchPad/7/{epoch}", age=old) for epoch in (1, 2)]
    kept = [
        made(root, "_scratchPad/8/1", age=old),
        made(root, "_scratchPad/8/2", age=young),
        made(root, "_scratchPad/9/1", age=old),
        made(root, "_scratchPad/others/1", age=old),
    ]
    assert sweep_dropped(zone, {TableId(7), TableId(8)}, now=NOW) == 1
    assert not any(marker.parent.exists() for marker in gone)
    assert all(marker.exists() for marker in kept)
