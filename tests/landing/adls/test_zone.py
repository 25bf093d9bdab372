"""A landing zone in OneLake: behavior of remote zones only. test_zone_behaviour.py covers every zone."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from app.landing.adls.retries import StorageRejected
from app.landing.adls.zone import AdlsZone
from app.landing.publish import Scratch, revoke_older_epochs
from app.landing.zone import FolderRenameUnsupported, PathKind, RenameOutcome, ScratchRevoked
from mirrorgate_zone.emulator import Effect, Fault, OneLake, Trust, answer
from tests.support.onelake.clients import FakeTime, adls_zone
from tests.support.onelake.fixtures import NewOneLake


def operations(onelake: OneLake) -> list[str]:
    return [request.operation for request in onelake.seen]


def test_a_file_is_sent_block_by_block_and_shown_at_the_end(onelake: OneLake, zone: AdlsZone) -> None:
    with zone.write_file("scratch/f") as file:
        file.write(b"12345")
        file.write(memoryview(b"67890abcdefghij"))
        assert onelake.file("scratch/f") == b""
    sent = [(request.query["position"], request.body) for request in onelake.seen if request.operation == "append"]
    assert sent == [("0", b"1234567890abc"), ("13", b"defghij")]
    assert operations(onelake) == ["create", "append", "append", "flush"]


def test_no_more_than_a_block_and_a_write_is_held(onelake: OneLake, zone: AdlsZone) -> None:
    with zone.write_file("scratch/f") as file:
        file.write(bytes(100))
    assert max(len(request.body) for request in onelake.seen) == 8
    assert onelake.file("scratch/f") == bytes(100)


def test_an_empty_file_takes_one_request(onelake: OneLake, zone: AdlsZone) -> None:
    zone.create_file("scratch/f", b"")
    assert operations(onelake) == ["create"]


def test_a_rename_tells_which_file_it_means_and_that_it_must_not_replace(onelake: OneLake, zone: AdlsZone) -> None:
    zone.create_file("scratch/f", b"x")
    assert zone.rename("scratch/f", "t") is RenameOutcome.RENAMED
    (request,) = (request for request in onelake.seen if request.operation == "rename")
    assert request.headers["if-none-match"] == "*"
    assert request.headers["x-ms-source-if-match"].strip('"') == onelake.tree.find(f"{onelake.landing_zone}/t").etag


@pytest.mark.parametrize("effect", [Effect.SILENT_BEFORE, Effect.SILENT_AFTER])
@pytest.mark.parametrize("operation", ["create", "append", "flush", "rename", "delete", "head", "read"])
def test_a_call_that_times_out_is_settled_by_looking(
    onelake: OneLake, zone: AdlsZone, operation: str, effect: Effect
) -> None:
    zone.create_folder("scratch/1/d")
    onelake.faults.plan(operation, Fault(effect))
    zone.create_file("scratch/f", b"0123456789")
    assert zone.rename("scratch/f", "t") is RenameOutcome.RENAMED
    zone.revoke_folder("scratch/1")
    with zone.read_file("t") as file:
        assert file.read() == b"0123456789"
    assert (onelake.names(""), onelake.names("scratch")) == (["scratch", "t"], ["1"])
    assert onelake.faults.left == 0


def test_a_creation_whose_answer_is_lost_is_not_taken_for_another_ones(
    new_onelake: NewOneLake, trust: Trust, time: FakeTime
) -> None:
    """Without metadata the outcome is unknown: the attempt fails, and another name is tried later."""
    onelake = new_onelake(user_metadata="forgotten")
    zone = adls_zone(onelake, trust, time)
    onelake.faults.plan("create", Fault(Effect.RESET_AFTER))
    with pytest.raises(FileExistsError):
        zone.create_file("f", b"x")
    zone.create_file("g", b"x")


def test_a_file_made_by_another_while_the_answer_was_lost_is_left_alone(onelake: OneLake, zone: AdlsZone) -> None:
    zone.create_file("scratch/f", b"other")
    onelake.faults.plan("create", Fault(Effect.RESET_BEFORE))
    with pytest.raises(FileExistsError):
        zone.create_file("scratch/f", b"mine")
    assert onelake.file("scratch/f") == b"other"


def test_a_lost_rename_beside_another_ones_file_is_not_taken_for_ours(onelake: OneLake, zone: AdlsZone) -> None:
    zone.create_file("scratch/f", b"mine")
    onelake.faults.plan("rename", Fault(Effect.RESET_BEFORE))
    onelake.faults.plan("head", answer(503, "ServerBusy"), skip=2)
    original = onelake.answer

    def other_comes_between(request: Any) -> Any:
        if request.operation == "head" and "rename" in [operation for operation, _ in onelake.faults.used]:
            onelake.tree.write_inside(f"{onelake.landing_zone}/t", b"other")
        return original(request)

    onelake.answer = other_comes_between
    assert zone.rename("scratch/f", "t") is RenameOutcome.DESTINATION_EXISTS
    assert (onelake.file("t"), onelake.file("scratch/f")) == (b"other", b"mine")


def test_a_renamed_file_that_mirroring_took_before_the_answer_came_is_missing_at_both_ends(
    onelake: OneLake, zone: AdlsZone
) -> None:
    zone.create_file("scratch/f", b"x")

    def take() -> None:
        if onelake.tree.get(f"{onelake.landing_zone}/t") is not None:
            onelake.tree.remove_inside(f"{onelake.landing_zone}/t")

    onelake.tree.on_change = take
    onelake.faults.plan("rename", Fault(Effect.RESET_AFTER))
    assert zone.rename("scratch/f", "t") is RenameOutcome.SOURCE_MISSING


def test_a_source_that_changes_under_a_rename_is_not_moved(onelake: OneLake, zone: AdlsZone) -> None:
    zone.create_file("scratch/f", b"x")
    onelake.faults.plan("rename", answer(412, "SourceConditionNotMet"))
    with pytest.raises(StorageRejected, match="412"):
        zone.rename("scratch/f", "t")
    assert onelake.names("") == ["scratch"]


def test_folders_that_cannot_be_renamed_are_told_and_files_still_never_replace(
    new_onelake: NewOneLake, trust: Trust, time: FakeTime
) -> None:
    onelake = new_onelake(folder_rename=False)
    zone = adls_zone(onelake, trust, time)
    zone.create_folder("scratch/d")
    with pytest.raises(FolderRenameUnsupported):
        zone.rename("scratch/d", "t")
    zone.create_file("scratch/f", b"x")
    zone.rename("scratch/f", "t")
    assert onelake.seen[-1].headers["if-none-match"] == "*"


def test_a_stale_listing_changes_no_answer_but_the_listing(onelake: OneLake, zone: AdlsZone) -> None:
    onelake.dfs.freeze_listing()
    zone.create_file("scratch/f", b"x")
    zone.rename("scratch/f", "t")
    assert zone.names("") == ["scratch"]
    assert (zone.kind("t"), zone.kind("scratch/f")) == (PathKind.FILE, PathKind.ABSENT)
    zone.revoke_folder("scratch")
    assert zone.kind("scratch") is PathKind.FILE


def noted_deletes(onelake: OneLake) -> Callable[[], None]:
    """Return a call that lets each deletion from now on arrive once more."""
    late: list[Any] = []
    original = onelake.answer

    def note(request: Any) -> Any:
        if request.operation == "delete":
            late.append(request)
        return original(request)

    def arrive_again() -> None:
        for request in late:
            original(request)

    onelake.answer = note
    return arrive_again


def test_a_delete_that_arrives_late_does_not_take_the_mark_of_a_revoked_folder_away(
    onelake: OneLake, zone: AdlsZone
) -> None:
    zone.create_file("scratch/1/f", b"x")
    arrive_again = noted_deletes(onelake)
    onelake.faults.plan("delete", Fault(Effect.RESET_AFTER))
    zone.revoke_folder("scratch/1")
    arrive_again()
    assert zone.kind("scratch/1") is PathKind.FILE


def test_a_removal_that_arrives_late_does_not_take_a_new_folder_away(onelake: OneLake, zone: AdlsZone) -> None:
    zone.create_file("table/f", b"old")
    arrive_again = noted_deletes(onelake)
    zone.remove_folder("table", "scratch/dropped", zone.etag("table"))
    zone.create_file("table/f", b"new")
    arrive_again()
    assert onelake.file("table/f") == b"new"


def test_a_folder_that_came_after_the_one_that_was_looked_at_is_not_removed(onelake: OneLake, zone: AdlsZone) -> None:
    zone.create_file("table/f", b"old")
    etag = zone.etag("table")
    zone.remove_folder("table", "scratch/dropped", etag)
    zone.create_file("table/f", b"new")
    with pytest.raises(OSError, match="another folder is at table"):
        zone.remove_folder("table", "scratch/dropped", etag)
    assert onelake.file("table/f") == b"new"


def test_a_removal_that_waits_for_a_folder_in_use_leaves_its_successor_alone(onelake: OneLake, zone: AdlsZone) -> None:
    zone.create_file("table/f", b"old")
    onelake.switches.folder_in_use = 1
    original, first = onelake.answer, iter([True])

    def replace_after(request: Any) -> Any:
        answered = original(request)
        if request.operation == "delete" and next(first, False):
            onelake.tree.delete(f"{onelake.landing_zone}/table", recursive=True, etag=None, lease=None)
            onelake.tree.write_inside(f"{onelake.landing_zone}/table/f", b"new")
        return answered

    onelake.answer = replace_after
    with pytest.raises(OSError, match="another folder is at table"):
        zone.remove_folder("table", "scratch/dropped", zone.etag("table"))
    assert onelake.file("table/f") == b"new"


def test_a_folder_that_stays_in_use_is_told(onelake: OneLake, zone: AdlsZone, time: FakeTime) -> None:
    zone.create_file("table/f", b"x")
    onelake.switches.folder_in_use = 1_000
    with pytest.raises(OSError, match="409 PathInUse"):
        zone.remove_folder("table", "scratch/dropped", zone.etag("table"))
    assert onelake.file("table/f") == b"x"
    assert time.now > 30


def test_a_folder_that_is_made_again_while_it_is_revoked_is_taken_away_too(onelake: OneLake, zone: AdlsZone) -> None:
    zone.create_file("scratch/1/f", b"x")
    stubborn = iter([True, True])

    def make_again() -> None:
        gone = onelake.tree.get(f"{onelake.landing_zone}/scratch/1") is None
        if gone and next(stubborn, False):
            onelake.tree.write_inside(f"{onelake.landing_zone}/scratch/1/late", b"x")

    onelake.tree.on_change = make_again
    zone.revoke_folder("scratch/1")
    assert zone.kind("scratch/1") is PathKind.FILE


def test_a_writer_whose_folder_is_revoked_is_told_so(onelake: OneLake, zone: AdlsZone) -> None:
    with pytest.raises(ScratchRevoked), zone.write_file("scratch/1/f") as file:
        zone.revoke_folder("scratch/1")
        file.write(b"longer than one block")


def test_a_file_that_changes_while_it_is_read_is_not_read_on(onelake: OneLake, zone: AdlsZone) -> None:
    onelake.tree.write_inside(f"{onelake.landing_zone}/scratch/f", b"0123456789" * 20_000)
    with zone.read_file("scratch/f") as file:
        assert file.read(1) == b"0"
        onelake.tree.put(f"{onelake.landing_zone}/scratch/f", b"x" * 200_000, new_only=False, metadata={})
        file.seek(150_000)
        with pytest.raises(StorageRejected, match="412"):
            file.read(1)
    with zone.read_file("scratch/f") as file:
        onelake.tree.remove_inside(f"{onelake.landing_zone}/scratch/f")
        with pytest.raises(FileNotFoundError):
            file.read(1)


def test_threads_share_a_zone(onelake: OneLake, zone: AdlsZone) -> None:
    def publish(number: int) -> None:
        for step in range(5):
            zone.create_file(f"scratch/{number}-{step}", b"0123456789")
            outcomes[zone.rename(f"scratch/{number}-{step}", f"{number}-{step}")] += 1

    outcomes: Counter[RenameOutcome] = Counter()
    threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {RenameOutcome.RENAMED: 20}


def test_a_takeover_revokes_what_older_epochs_left(onelake: OneLake, zone: AdlsZone) -> None:
    old, new = Scratch(5, 1), Scratch(5, 3)
    zone.create_file(old.path("temp"), b"x")
    revoke_older_epochs(zone, new)
    assert zone.rename(old.path("temp"), "t") is RenameOutcome.SOURCE_MISSING
    with pytest.raises(ScratchRevoked):
        zone.create_file(old.path("temp"), b"x")
    assert onelake.names("_scratchPad/5") == ["1", "2"]


def test_a_takeover_after_many_epochs_takes_one_request_and_a_stale_listing_hides_none(
    onelake: OneLake, zone: AdlsZone
) -> None:
    revoke_older_epochs(zone, Scratch(5, 40))
    onelake.seen.clear()
    revoke_older_epochs(zone, Scratch(5, 40))
    assert operations(onelake) == ["list"]
    onelake.dfs.freeze_listing()
    zone.create_file("_scratchPad/5/40/temp", b"x")
    revoke_older_epochs(zone, Scratch(5, 41))
    assert zone.kind("_scratchPad/5/40") is PathKind.FILE
