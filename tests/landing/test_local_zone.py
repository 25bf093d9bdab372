"""A landing zone in a folder, and what Fabric writes beside a zone."""

import ctypes
import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from app.landing import local_zone, open_zone
from app.landing.local_zone import LocalZone
from app.landing.open_zone import ZoneAddress, read_tables_json
from app.landing.zone import PathKind, RenameOutcome
from mirrorgate_zone.emulator import OneLake, Trust, answer
from tests.support.onelake.clients import onelake_address
from tests.support.onelake.fixtures import NewOneLake
from tests.support.onelake.mirror import Mirror


def unsupported(*_: object) -> int:
    """Fail as renameat2 does on a file system that does not support RENAME_NOREPLACE."""
    ctypes.set_errno(errno.EINVAL)
    return -1


@pytest.fixture(params=["renameat2", "link and unlink", "renameat2 rejected"])
def zone(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalZone:
    """Give a zone in `tmp_path` with the folder `scratch`, once per way of renaming."""
    match request.param:
        case "link and unlink":
            monkeypatch.setattr(local_zone, "_renameat2", None)
        case "renameat2 rejected":
            monkeypatch.setattr(local_zone, "_renameat2", unsupported)
    zone = LocalZone(tmp_path / "zone")
    zone.create_folder("scratch")
    return zone


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "zone"


def test_the_root_is_created_with_its_parents_by_the_first_folder_in_it_and_by_nothing_else(tmp_path: Path) -> None:
    zone = LocalZone(tmp_path / "a" / "b")
    assert zone.names("") == []
    assert not (tmp_path / "a").exists()
    zone.create_folder("scratch")
    assert (tmp_path / "a" / "b" / "scratch").is_dir()


def test_a_folder_that_appears_while_it_is_looked_for_is_never_taken_for_a_file(
    zone: LocalZone, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        try:
            return real(path, **options)
        finally:
            with suppress(FileExistsError):
                os.mkdir(root / "scratch" / "1")  # noqa: PTH102  # Path.mkdir would come back here

    monkeypatch.setattr(Path, "stat", stat)
    assert [zone.kind("scratch/1") for _ in range(2)] == [PathKind.ABSENT, PathKind.FOLDER]


def test_what_was_written_is_synced_before_the_call_returns(
    zone: LocalZone, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(root)))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    zone.create_file("scratch/file", b"x")
    assert synced == ["scratch/file", "scratch"]
    synced.clear()
    with zone.write_file("scratch/built") as file:
        file.write(b"x")
    assert synced == ["scratch/built"], "the rename makes its name durable"
    synced.clear()
    zone.create_folder("table")
    assert zone.rename("scratch/built", "table/built") is RenameOutcome.RENAMED
    assert synced == [".", "table"]
    synced.clear()
    zone.create_folder("table")
    assert zone.rename("scratch/file", "table/file") is RenameOutcome.RENAMED
    assert synced == [".", "table"]
    synced.clear()
    zone.make_durable("table/file")
    zone.make_durable("table")
    zone.make_durable("none")
    zone.make_durable("none/none")
    assert synced == ["table", ".", "."]


def test_a_folder_that_is_made_again_while_it_is_revoked_is_taken_away_too(
    zone: LocalZone, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone.create_folder("scratch/1")
    real, again = os.rename, iter([True, True])

    def rename(source: str, target: Path) -> None:
        real(source, target)
        if next(again, False):
            (root / "scratch" / "1").mkdir()

    monkeypatch.setattr(os, "rename", rename)
    zone.revoke_folder("scratch/1")
    assert zone.kind("scratch/1") is PathKind.FILE
    assert zone.names("scratch") == ["1"]


def test_the_plain_file_of_another_revocation_is_left_where_it_is(
    zone: LocalZone, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone.create_folder("scratch/1")
    marker = root / "scratch" / "1"
    real, first, inodes = local_zone._blocks_folder, iter([True]), []

    def blocks_folder(path: Path) -> bool:
        answer = real(path)
        if next(first, False):
            LocalZone(root).revoke_folder("scratch/1")
            inodes.append(marker.stat().st_ino)
        return answer

    monkeypatch.setattr(local_zone, "_blocks_folder", blocks_folder)
    zone.revoke_folder("scratch/1")
    assert [marker.stat().st_ino] == inodes
    assert zone.names("scratch") == ["1"]


def test_beside_a_folder(tmp_path: Path) -> None:
    zone = ZoneAddress(str(tmp_path / "LandingZone"))
    assert read_tables_json(zone) is None
    (tmp_path / "Monitoring").mkdir()
    assert read_tables_json(zone) is None
    (tmp_path / "Monitoring" / "tables.json").write_bytes(b"{}")
    assert read_tables_json(zone) == b"{}"
    assert not (tmp_path / "LandingZone").exists()


def test_beside_a_landing_zone_in_onelake(onelake: OneLake, trust: Trust) -> None:
    assert read_tables_json(onelake_address(onelake, trust)) is None
    Mirror(onelake).consume()
    assert read_tables_json(onelake_address(onelake, trust)) == b'{"tables": []}'


def test_beside_a_folder_of_a_storage_account(new_onelake: NewOneLake, trust: Trust) -> None:
    account = new_onelake(account=True)
    account.tree.write_inside("landing/Monitoring/tables.json", b"[]")
    assert read_tables_json(onelake_address(account, trust)) == b"[]"


def test_one_that_may_not_be_read_is_a_fault_of_the_store(onelake: OneLake, trust: Trust) -> None:
    onelake.faults.plan("head", answer(403, "AuthorizationPermissionMismatch"))
    with pytest.raises(OSError, match="403"):
        read_tables_json(onelake_address(onelake, trust))


def test_one_that_is_too_large_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_zone, "_MAX_BYTES", 3)
    (tmp_path / "Monitoring").mkdir()
    (tmp_path / "Monitoring" / "tables.json").write_bytes(b"[   ]")
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_tables_json(ZoneAddress(str(tmp_path / "zone")))
