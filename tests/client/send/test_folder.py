"""Which files of a folder are pending, and which of those are complete."""

import os
from pathlib import Path

import pytest

from app.client.file_paths import FileNames, FileOrder
from app.client.send.folder import PendingFiles, WatchedFolder
from app.errors import Misconfigured


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def waiting(folder: Path, pending: PendingFiles) -> list[tuple[str, bool]]:
    listing = WatchedFolder(folder, FileNames(done_marker=pending.done_marker)).list()
    return [(file.name, file.is_complete) for file in pending.waiting(listing, set())]


def test_a_file_is_complete_when_it_has_not_changed_for_long_enough(tmp_path: Path, clock: Clock) -> None:
    pending = PendingFiles(5.0, clock=clock)
    (tmp_path / "a").write_bytes(b"1")
    assert waiting(tmp_path, pending) == [("a", False)]
    clock.now += 4.9
    assert waiting(tmp_path, pending) == [("a", False)]
    (tmp_path / "a").write_bytes(b"12")
    clock.now += 1.0
    assert waiting(tmp_path, pending) == [("a", False)]
    clock.now += 5.0
    assert waiting(tmp_path, pending) == [("a", True)]


def test_a_file_that_keeps_its_size_but_was_written_again_is_not_complete(tmp_path: Path, clock: Clock) -> None:
    pending = PendingFiles(5.0, clock=clock)
    for modified in (1, 2):
        (tmp_path / "a").write_bytes(b"1")
        os.utime(tmp_path / "a", (modified, modified))
        clock.now += 5.0
        assert waiting(tmp_path, pending) == [("a", False)]
    clock.now += 5.0
    assert waiting(tmp_path, pending) == [("a", True)]


def test_a_marker_completes_a_file_at_once_and_is_no_file_of_changes(tmp_path: Path, clock: Clock) -> None:
    pending = PendingFiles(5.0, done_marker=".done", clock=clock)
    for name in ("a", "b", "b.done"):
        (tmp_path / name).touch()
    assert waiting(tmp_path, pending) == [("a", False), ("b", True)]


@pytest.mark.parametrize(
    ("order", "names"), [(FileOrder.NAME, ["10", "9", "a"]), (FileOrder.MODIFIED, ["a", "9", "10"])]
)
def test_the_order_is_that_of_names_or_times(tmp_path: Path, clock: Clock, order: FileOrder, names: list[str]) -> None:
    for modified, name in enumerate(["a", "9", "10"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (modified, modified))
    assert [name for name, _ in waiting(tmp_path, PendingFiles(0, order, clock=clock))] == names


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read: No such file or directory"):
        WatchedFolder(tmp_path / "gone").list()
