"""A landing zone in a folder: what each call promises."""

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from app.landing import local_zone
from app.landing.local_zone import LocalZone
from app.landing.zone import PathKind, RenameOutcome, ScratchRevoked


def unsupported(*_: object) -> int:
    """A renameat2 on a file system that does not know RENAME_NOREPLACE."""
    ctypes.set_errno(errno.EINVAL)
    return -1


@pytest.fixture(params=["renameat2", "link and unlink", "renameat2 refused"])
def zone(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalZone:
    """A zone in `tmp_path` with the folder `scratch`, once per way of renaming."""
    match request.param:
        case "link and unlink":
            monkeypatch.setattr(local_zone, "_renameat2", None)
        case "renameat2 refused":
            monkeypatch.setattr(local_zone, "_renameat2", unsupported)
    zone = LocalZone(tmp_path / "zone")
    zone.create_folder("scratch")
    return zone


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "zone"


def content(zone: LocalZone, path: str) -> bytes:
    with zone.read_file(path) as file:
        return file.read()


def test_the_root_is_created_with_its_parents(tmp_path: Path) -> None:
    LocalZone(tmp_path / "a" / "b")
    LocalZone(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_path_is_absent_a_file_or_a_folder(zone: LocalZone) -> None:
    zone.create_file("scratch/file", b"")
    assert [zone.kind(path) for path in ("none", "none/none", "scratch/file/none", "scratch/file", "scratch")] == [
        PathKind.ABSENT,
        PathKind.ABSENT,
        PathKind.ABSENT,
        PathKind.FILE,
        PathKind.FOLDER,
    ]


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


def test_names_are_sorted_and_a_missing_folder_has_none(zone: LocalZone) -> None:
    for name in ("b", "a", "c"):
        zone.create_file(f"scratch/{name}", b"")
    assert zone.names("scratch") == ["a", "b", "c"]
    assert zone.names("none") == []


def test_a_folder_may_be_created_twice_with_its_parents(zone: LocalZone) -> None:
    zone.create_folder("a/b/c")
    zone.create_folder("a/b/c")
    assert zone.kind("a/b/c") is PathKind.FOLDER


def test_a_file_is_created_once(zone: LocalZone) -> None:
    zone.create_file("scratch/file", b"first")
    with pytest.raises(FileExistsError):
        zone.create_file("scratch/file", b"second")
    assert content(zone, "scratch/file") == b"first"


def test_a_streamed_file_is_whole_when_its_block_ends(zone: LocalZone) -> None:
    with zone.write_file("scratch/file") as file:
        file.write(b"one")
        file.write(b"two")
    assert content(zone, "scratch/file") == b"onetwo"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_streamed_file_is_gone_when_its_block_raises(zone: LocalZone, error: type[BaseException]) -> None:
    with pytest.raises(error), zone.write_file("scratch/file") as file:
        file.write(b"half")
        raise error
    assert zone.kind("scratch/file") is PathKind.ABSENT


def test_a_block_that_raises_leaves_another_ones_file_alone(zone: LocalZone) -> None:
    zone.create_file("scratch/file", b"other")
    with pytest.raises(FileExistsError), zone.write_file("scratch/file"):
        pass
    assert content(zone, "scratch/file") == b"other"


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
    zone.create_folder("table")
    assert zone.rename("scratch/file", "table/file") is RenameOutcome.RENAMED
    assert synced == [".", "table"]
    synced.clear()
    zone.make_durable("table/file")
    zone.make_durable("table")
    zone.make_durable("none")
    zone.make_durable("none/none")
    assert synced == ["table", ".", "."]


def test_a_missing_file_cannot_be_read(zone: LocalZone) -> None:
    with pytest.raises(FileNotFoundError), zone.read_file("scratch/none"):
        pass


def test_a_rename_moves_a_file(zone: LocalZone) -> None:
    zone.create_file("scratch/file", b"x")
    assert zone.rename("scratch/file", "moved") is RenameOutcome.RENAMED
    assert zone.kind("scratch/file") is PathKind.ABSENT
    assert content(zone, "moved") == b"x"


def test_a_rename_never_replaces_a_file(zone: LocalZone) -> None:
    zone.create_file("scratch/file", b"new")
    zone.create_file("taken", b"old")
    assert zone.rename("scratch/file", "taken") is RenameOutcome.DESTINATION_EXISTS
    assert (content(zone, "taken"), content(zone, "scratch/file")) == (b"old", b"new")


@pytest.mark.parametrize("destination", ["empty", "filled"])
def test_a_rename_never_replaces_a_folder(zone: LocalZone, destination: str) -> None:
    zone.create_folder("empty")
    zone.create_folder("filled")
    zone.create_file("filled/old", b"")
    zone.create_file("scratch/file", b"")
    zone.create_folder("scratch/folder")
    for source in ("scratch/file", "scratch/folder"):
        assert zone.rename(source, destination) is RenameOutcome.DESTINATION_EXISTS
        assert zone.kind(source) is not PathKind.ABSENT


def test_a_rename_moves_a_folder_with_what_is_in_it(zone: LocalZone) -> None:
    zone.create_folder("scratch/folder")
    zone.create_file("scratch/folder/file", b"x")
    assert zone.rename("scratch/folder", "moved") is RenameOutcome.RENAMED
    assert content(zone, "moved/file") == b"x"
    assert zone.kind("scratch/folder") is PathKind.ABSENT


def test_a_rename_of_nothing_says_so(zone: LocalZone) -> None:
    zone.create_file("plain", b"")
    assert zone.rename("scratch/none", "moved") is RenameOutcome.SOURCE_MISSING
    assert zone.rename("none/none", "moved") is RenameOutcome.SOURCE_MISSING
    assert zone.rename("plain/none", "moved") is RenameOutcome.SOURCE_MISSING


def test_a_rename_into_a_folder_that_is_gone_is_a_fault_of_the_store(zone: LocalZone) -> None:
    zone.create_file("scratch/file", b"")
    with pytest.raises(OSError, match="none"):
        zone.rename("scratch/file", "none/moved")
    assert zone.kind("scratch/file") is PathKind.FILE


def test_metadata_may_be_replaced(zone: LocalZone) -> None:
    zone.create_file("scratch/new", b"new")
    zone.create_file("metadata", b"old")
    zone.replace_file("scratch/new", "metadata")
    assert content(zone, "metadata") == b"new"
    assert zone.kind("scratch/new") is PathKind.ABSENT


@pytest.mark.parametrize(
    "state", ["folder with a file", "empty folder", "nothing", "a file already", "missing parents"]
)
def test_a_revoked_folder_is_a_file_and_takes_no_more_writes(zone: LocalZone, root: Path, state: str) -> None:
    match state:
        case "folder with a file":
            zone.create_folder("scratch/1/deeper")
            zone.create_file("scratch/1/deeper/file", b"x")
        case "empty folder":
            zone.create_folder("scratch/1")
        case "a file already":
            zone.revoke_folder("scratch/1")
        case "missing parents":
            (root / "scratch").rmdir()
    zone.revoke_folder("scratch/1")
    assert zone.kind("scratch/1") is PathKind.FILE
    assert zone.names("scratch") == ["1"]
    writes: list[Callable[[], None]] = [
        lambda: zone.create_file("scratch/1/file", b""),
        lambda: zone.create_folder("scratch/1"),
        lambda: zone.create_folder("scratch/1/deeper"),
    ]
    for write in writes:
        with pytest.raises(ScratchRevoked):
            write()
    zone.create_file("other", b"x")
    assert zone.rename("scratch/1/file", "published") is RenameOutcome.SOURCE_MISSING
    with pytest.raises(OSError, match="Not a directory"):
        zone.rename("other", "scratch/1/file")


def test_a_file_that_was_being_written_when_its_folder_was_revoked_is_not_there(zone: LocalZone) -> None:
    zone.create_folder("scratch/1")
    with zone.write_file("scratch/1/file") as file:
        file.write(b"late")
        zone.revoke_folder("scratch/1")
    assert zone.kind("scratch/1/file") is PathKind.ABSENT
    assert zone.rename("scratch/1/file", "published") is RenameOutcome.SOURCE_MISSING
    assert zone.kind("published") is PathKind.ABSENT


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
    real, first, inodes = Path.is_file, iter([True]), []

    def is_file(path: Path) -> bool:
        answer = real(path)
        if next(first, False):
            LocalZone(root).revoke_folder("scratch/1")
            inodes.append(marker.stat().st_ino)
        return answer

    monkeypatch.setattr(Path, "is_file", is_file)
    zone.revoke_folder("scratch/1")
    assert [marker.stat().st_ino] == inodes
    assert zone.names("scratch") == ["1"]
