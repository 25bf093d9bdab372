"""Guarantees of every landing zone: the same tests with folders and OneLake, under any failure.

With a fault, the first request of every operation on every path meets it; with a switch, the service is one of
those that OneLake may turn out to be.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from app.landing import local_zone
from app.landing.local_zone import LocalZone
from app.landing.zone import LandingZone, PathKind, RenameOutcome, ScratchRevoked
from mirrorgate_zone.emulator import Effect, Fault, Faults, OneLake, Switches, Trust, answer, served
from tests.landing.test_local_zone import unsupported
from tests.support.onelake.clients import FakeTime, adls_zone

_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Kind:
    """One kind of store that the claims are checked over."""

    switches: dict[str, object] | None = None
    """None: a folder."""
    fault: Fault | None = None
    rename: Callable[..., int] | str | None = "renameat2"


KINDS = {
    "folder": Kind(),
    "folder without renameat2": Kind(rename=None),
    "folder whose renameat2 is rejected": Kind(rename=unsupported),
    "onelake": Kind({}),
    "rename condition and metadata rejected": Kind({"rename_condition": "rejected", "user_metadata": "rejected"}),
    "rename condition ignored, answers lost": Kind({"rename_condition": "ignored"}, Fault(Effect.RESET_AFTER)),
    "etags change, answers lost": Kind({"rename_keeps_etag": False}, Fault(Effect.RESET_AFTER)),
    "no metadata, small pages, folders in use": Kind(
        {"user_metadata": "forgotten", "page_size": 1, "delete_pages": 3, "listing_changes": True, "folder_in_use": 9}
    ),
    "throttled": Kind({}, answer(429, "TooManyRequests", retry_after="7")),
    "busy": Kind({}, answer(503, "ServerBusy")),
    "failing after it was done": Kind({}, Fault(Effect.ERROR_AFTER, 500, "OperationTimedOut")),
    "reset before": Kind({}, Fault(Effect.RESET_BEFORE)),
    "done late": Kind({}, Fault(Effect.LATE)),
    "token rejected": Kind({}, answer(401, "InvalidAuthenticationInfo")),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def endpoint(kind: Kind, trust: Trust) -> Iterator[OneLake | None]:
    if kind.switches is None:
        yield None
        return
    faults = Faults(first_of_each=kind.fault)
    with served(OneLake(switches=Switches(**kind.switches), faults=faults), trust) as endpoint:
        yield endpoint


@pytest.fixture
def zone(
    kind: Kind,
    endpoint: OneLake | None,
    trust: Trust,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> LandingZone:
    """Return an unused zone with the folder `scratch`."""
    if endpoint is None:
        if kind.rename != "renameat2":
            monkeypatch.setattr(local_zone, "_renameat2", kind.rename)
        zone: LandingZone = LocalZone(tmp_path_factory.mktemp("zone"))
    else:
        monkeypatch.setattr("azure.storage.blob._download.time.sleep", lambda _: None)
        zone = adls_zone(endpoint, trust, FakeTime(), below=f"/{next(_NUMBERS)}", block_bytes=4)
    zone.create_folder("scratch")
    return zone


def content(zone: LandingZone, path: str) -> bytes:
    with zone.read_file(path) as file:
        return file.read()


def test_a_path_is_absent_a_file_or_a_folder(zone: LandingZone) -> None:
    zone.create_file("scratch/file", b"")
    assert [zone.kind(path) for path in ("none", "none/none", "scratch/file/none", "scratch/file", "scratch")] == [
        PathKind.ABSENT,
        PathKind.ABSENT,
        PathKind.ABSENT,
        PathKind.FILE,
        PathKind.FOLDER,
    ]


def test_names_are_sorted_and_a_missing_folder_has_none(zone: LandingZone) -> None:
    for name in ("b", "a", "ü ö"):
        zone.create_file(f"scratch/{name}", b"")
    zone.create_folder("scratch/folder/deeper")
    assert zone.names("scratch") == ["a", "b", "folder", "ü ö"]
    assert zone.kinds("scratch") == dict.fromkeys(["a", "b", "ü ö"], PathKind.FILE) | {"folder": PathKind.FOLDER}
    assert (zone.names("none"), zone.kinds("none"), zone.kinds("scratch/a/none")) == ([], {}, {})


def test_what_is_removed_is_gone_with_all_in_it_and_may_be_removed_again(zone: LandingZone) -> None:
    for path in ("scratch/folder/deeper/file", "scratch/file", "scratch/kept"):
        zone.create_folder(path.rpartition("/")[0])
        zone.create_file(path, b"1")
    for path in ("scratch/folder", "scratch/file", "scratch/file", "none/none"):
        zone.remove(path)
    assert zone.names("scratch") == ["kept"]


def test_files_and_folders_say_when_they_were_changed(zone: LandingZone) -> None:
    zone.create_file("scratch/file", b"1")
    assert zone.modified_at("none") is None
    for path in ("scratch/file", "scratch"):
        modified = zone.modified_at(path)
        assert modified is not None
        assert abs(datetime.now(UTC) - modified) < timedelta(minutes=5)


def test_a_listing_says_kind_size_and_last_change(zone: LandingZone) -> None:
    zone.create_file("scratch/file", b"123")
    zone.create_folder("scratch/folder")
    entries = zone.entries("scratch")
    assert {name: (entry.kind, entry.size) for name, entry in entries.items()} == {
        "file": (PathKind.FILE, 3),
        "folder": (PathKind.FOLDER, 0),
    }
    for entry in entries.values():
        assert entry.modified is not None
        assert abs(datetime.now(UTC) - entry.modified) < timedelta(minutes=5)
    assert zone.entries("none") == zone.entries("scratch/file/none") == {}


def test_a_folder_may_be_created_twice_with_its_parents(zone: LandingZone) -> None:
    zone.create_folder("a/b/c")
    zone.create_folder("a/b/c")
    assert zone.kind("a/b/c") is PathKind.FOLDER


def test_a_file_is_created_once(zone: LandingZone, endpoint: OneLake | None) -> None:
    zone.create_file("scratch/file", b"first")
    with pytest.raises(FileExistsError):
        zone.create_file("scratch/file", b"second")
    assert content(zone, "scratch/file") == b"first"


def test_a_streamed_file_is_whole_when_its_block_ends(zone: LandingZone) -> None:
    with zone.write_file("scratch/file") as file:
        file.write(b"one")
        file.write(b"")
        file.write(b"two and more than a block")
    assert content(zone, "scratch/file") == b"onetwo and more than a block"


def test_an_empty_file_may_be_written_and_read(zone: LandingZone) -> None:
    zone.create_file("scratch/file", b"")
    assert content(zone, "scratch/file") == b""


@pytest.mark.parametrize(("error", "written"), [(ValueError, b"h"), (KeyboardInterrupt, b"half of it")])
def test_a_streamed_file_is_gone_when_its_block_raises(
    zone: LandingZone, kind: Kind, error: type[BaseException], written: bytes
) -> None:
    with pytest.raises(error), zone.write_file("scratch/file") as file:
        file.write(written)
        raise error
    if kind.fault is None:  # else taking it back was tried once, in vain: it is hidden, and of no use to anybody
        assert zone.kind("scratch/file") is PathKind.ABSENT


def test_a_block_that_raises_leaves_another_ones_file_alone(zone: LandingZone) -> None:
    zone.create_file("scratch/file", b"other")
    with pytest.raises(FileExistsError), zone.write_file("scratch/file"):
        pass
    assert content(zone, "scratch/file") == b"other"


def test_a_file_is_read_at_any_place(zone: LandingZone) -> None:
    zone.create_file("scratch/file", b"0123456789")
    with zone.read_file("scratch/file") as file:
        assert file.seek(-3, 2) == 7
        assert file.read(2) == b"78"
        assert (file.tell(), file.seek(1)) == (9, 1)
        assert file.read() == b"123456789"
        assert file.read(1) == b""


def test_a_missing_file_and_a_folder_cannot_be_read(zone: LandingZone) -> None:
    with pytest.raises(FileNotFoundError), zone.read_file("scratch/none"):
        pass
    with pytest.raises(IsADirectoryError), zone.read_file("scratch"):
        pass


def test_a_rename_moves_a_file(zone: LandingZone) -> None:
    zone.create_file("scratch/file", b"x")
    assert zone.rename("scratch/file", "moved") is RenameOutcome.RENAMED
    assert zone.kind("scratch/file") is PathKind.ABSENT
    assert content(zone, "moved") == b"x"


def test_a_rename_never_replaces_a_file(zone: LandingZone) -> None:
    zone.create_file("scratch/file", b"new")
    zone.create_file("taken", b"old")
    for _ in range(2):
        assert zone.rename("scratch/file", "taken") is RenameOutcome.DESTINATION_EXISTS
    assert (content(zone, "taken"), content(zone, "scratch/file")) == (b"old", b"new")


def test_a_rename_never_replaces_a_folder(zone: LandingZone) -> None:
    zone.create_folder("empty")
    zone.create_folder("filled/deep")
    zone.create_file("scratch/file", b"")
    zone.create_folder("scratch/folder")
    for source, destination in itertools.product(("scratch/file", "scratch/folder"), ("empty", "filled")):
        assert zone.rename(source, destination) is RenameOutcome.DESTINATION_EXISTS
        assert zone.kind(source) is not PathKind.ABSENT


def test_a_rename_moves_a_folder_with_what_is_in_it(zone: LandingZone) -> None:
    zone.create_folder("scratch/folder")
    zone.create_file("scratch/folder/file", b"x")
    outcome = zone.rename("scratch/folder", "moved")
    assert outcome in (RenameOutcome.RENAMED, RenameOutcome.DESTINATION_EXISTS)
    assert content(zone, "moved/file") == b"x"
    assert zone.kind("scratch/folder") is PathKind.ABSENT


def test_a_rename_of_nothing_says_so(zone: LandingZone) -> None:
    zone.create_file("plain", b"")
    assert zone.rename("scratch/none", "moved") is RenameOutcome.SOURCE_MISSING
    assert zone.rename("none/none", "moved") is RenameOutcome.SOURCE_MISSING
    assert zone.rename("plain/none", "moved") is RenameOutcome.SOURCE_MISSING
    assert zone.kind("moved") is PathKind.ABSENT


def test_a_rename_into_a_folder_that_is_gone_is_a_fault_of_the_store(zone: LandingZone) -> None:
    zone.create_file("scratch/file", b"")
    with pytest.raises(OSError, match="none"):
        zone.rename("scratch/file", "none/moved")
    assert zone.kind("scratch/file") is PathKind.FILE


def test_metadata_may_be_replaced(zone: LandingZone) -> None:
    zone.create_file("scratch/new", b"new")
    zone.create_file("metadata", b"old")
    zone.replace_file("scratch/new", "metadata")
    assert content(zone, "metadata") == b"new"
    assert zone.kind("scratch/new") is PathKind.ABSENT
    with pytest.raises(FileNotFoundError):
        zone.replace_file("scratch/new", "metadata")


def test_a_removed_folder_is_gone_with_all_that_was_in_it_and_may_be_made_again(zone: LandingZone) -> None:
    zone.create_folder("table/deeper")
    zone.create_file("table/deeper/file", b"old")
    zone.remove_folder("table", "scratch/dropped", zone.etag("table"))
    assert (zone.kind("table"), zone.names("scratch")) == (PathKind.ABSENT, [])
    with pytest.raises(FileNotFoundError):
        zone.remove_folder("table", "scratch/dropped", zone.etag("table"))
    zone.create_folder("table")
    assert zone.names("table") == []


@pytest.mark.parametrize("before", [PathKind.FOLDER, PathKind.ABSENT, PathKind.FILE])
def test_a_revoked_folder_is_a_file_and_stays_one(zone: LandingZone, before: PathKind) -> None:
    if before is PathKind.FOLDER:
        zone.create_folder("scratch/1/deeper")
        zone.create_file("scratch/1/deeper/file", b"x")
    for _ in range(2 if before is PathKind.FILE else 1):
        zone.revoke_folder("scratch/1")
    assert zone.kind("scratch/1") is PathKind.FILE
    assert zone.names("scratch") == ["1"]


def test_nothing_can_be_written_into_or_renamed_out_of_a_revoked_folder(zone: LandingZone) -> None:
    zone.revoke_folder("scratch/1")
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


def test_a_folder_is_revoked_with_its_parents_missing(zone: LandingZone) -> None:
    zone.revoke_folder("elsewhere/deep/1")
    assert zone.kind("elsewhere/deep/1") is PathKind.FILE


def test_a_file_that_was_being_written_when_its_folder_was_revoked_is_not_there(zone: LandingZone) -> None:
    zone.create_folder("scratch/1")
    with suppress(ScratchRevoked), zone.write_file("scratch/1/file") as file:
        file.write(b"late and longer than a block")
        zone.revoke_folder("scratch/1")
    assert zone.kind("scratch/1/file") is PathKind.ABSENT
    assert zone.kind("scratch/1") is PathKind.FILE
    assert zone.rename("scratch/1/file", "published") is RenameOutcome.SOURCE_MISSING
    assert zone.kind("published") is PathKind.ABSENT
