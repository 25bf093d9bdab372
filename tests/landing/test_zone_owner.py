"""What a landing zone belongs to: its owner's marker and the probe of its store."""

import errno
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.domain.preflight import Outcome, ZoneCheck, judge_zone
from app.landing import local_zone
from app.landing.local_zone import LocalZone
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.probe import probe_zone
from app.landing.publish import SCRATCH, sweep_dropped, sweep_prepared
from app.landing.zone import LandingZone, RenameOutcome, ScratchRevoked
from app.landing.zone_owner import ZONE_MARKER, check_owner, claim_zone
from mirrorgate.errors import Code, Misconfigured
from mirrorgate.errors.site import with_addresses
from mirrorgate_zone.emulator import Effect, Fault, Trust, answer
from tests.landing.test_local_zone import unsupported
from tests.support.onelake.clients import FakeTime, adls_zone, onelake_address
from tests.support.onelake.fixtures import NewOneLake
from tests.support.onelake.mirror import Mirror

OURS, OTHER = UUID(int=1), UUID(int=2)


@pytest.fixture
def folder(tmp_path: Path) -> ZoneAddress:
    return ZoneAddress(str(tmp_path))


def rejection(act: Callable[[], object]) -> Misconfigured:
    with pytest.raises(Misconfigured, match=Code.LANDING_ZONE_TAKEN) as rejected:
        act()
    return rejected.value


def content(zone: LandingZone) -> bytes:
    with zone.read_file(ZONE_MARKER) as file:
        return file.read()


def test_a_zone_without_a_marker_becomes_the_claimants_whatever_is_in_it(folder: ZoneAddress, tmp_path: Path) -> None:
    (tmp_path / SCRATCH / "7" / "1").mkdir(parents=True)
    assert check_owner(folder, OURS)[0].instead is None
    zone = claim_zone(folder, OURS)
    assert json.loads((tmp_path / ZONE_MARKER).read_bytes()) == {
        "installation_id": str(OURS),
        "zone_id": str(zone.zone_id),
    }
    assert {path.name for path in (tmp_path / SCRATCH).iterdir()} == {"7", "_gateway.json"}


def test_the_same_installation_may_claim_it_again_and_changes_nothing(folder: ZoneAddress, tmp_path: Path) -> None:
    claim_zone(folder, OURS)
    before = (tmp_path / ZONE_MARKER).stat()
    claim_zone(folder, OURS)
    assert (tmp_path / ZONE_MARKER).stat() == before
    assert check_owner(folder, OURS)[0].instead is None


def test_another_installation_is_rejected_and_told_whose_it_is(folder: ZoneAddress, tmp_path: Path) -> None:
    claim_zone(folder, OTHER)
    error = rejection(lambda: claim_zone(folder, OURS))
    for told in (str(tmp_path), ZONE_MARKER, str(OURS), str(OTHER)):
        assert told in error.detail
    assert with_addresses("docs/operate/landing-zone.md") in error.remedy
    assert check_owner(folder, OURS)[0].instead == error.detail


def test_a_database_without_an_installation_is_not_the_owner(folder: ZoneAddress) -> None:
    assert check_owner(folder, None)[0].instead is None
    claim_zone(folder, OTHER)
    assert check_owner(folder, None)[0].instead is not None


@pytest.mark.parametrize("written", [b"", b"{}", b'{"installation_id":"me"}', b"\xff"])
def test_a_marker_that_names_nobody_is_nobodys_to_take(folder: ZoneAddress, tmp_path: Path, written: bytes) -> None:
    (tmp_path / SCRATCH).mkdir()
    (tmp_path / ZONE_MARKER).write_bytes(written)
    assert ZONE_MARKER in rejection(lambda: claim_zone(folder, OURS)).detail
    rejection(lambda: check_owner(folder, OURS))


def test_a_marker_from_before_zones_had_ids_gets_one_once(folder: ZoneAddress, tmp_path: Path) -> None:
    (tmp_path / SCRATCH).mkdir()
    (tmp_path / ZONE_MARKER).write_text(json.dumps({"installation_id": str(OURS)}))
    zone = claim_zone(folder, OURS)
    assert claim_zone(folder, OURS, zone) == zone
    assert json.loads((tmp_path / ZONE_MARKER).read_bytes())["zone_id"] == str(zone.zone_id)
    assert [path.name for path in (tmp_path / SCRATCH).iterdir()] == ["_gateway.json"]


def test_another_zone_than_the_known_one_is_rejected_and_left_alone(folder: ZoneAddress, tmp_path: Path) -> None:
    known = claim_zone(ZoneAddress(str(tmp_path / "known")), OURS)
    empty, other = ZoneAddress(str(tmp_path / "empty")), ZoneAddress(str(tmp_path / "other"))
    claim_zone(other, OURS)
    for zone, found in ((empty, "it has no"), (other, "names zone")):
        with pytest.raises(Misconfigured, match=Code.LANDING_ZONE_CHANGED) as rejected:
            claim_zone(zone, OURS, known)
        assert str(known) in rejected.value.detail
        assert found in rejected.value.detail
        assert check_owner(zone, OURS, known)[1].instead == rejected.value.detail
    assert not (tmp_path / "empty").exists()


def test_the_known_zone_under_another_address_is_the_known_zone(tmp_path: Path) -> None:
    known = claim_zone(ZoneAddress(str(tmp_path / "one")), OURS)
    (tmp_path / "one").rename(tmp_path / "two")
    moved = claim_zone(ZoneAddress(str(tmp_path / "two")), OURS, known)
    assert (moved.zone_id, moved.location) == (known.zone_id, str(tmp_path / "two"))


def claimed_meanwhile(monkeypatch: pytest.MonkeyPatch, folder: ZoneAddress, by: UUID) -> None:
    """Between the look of the next claim and its rename, this installation claims the zone."""
    rename = LocalZone.rename

    def late(zone: LocalZone, source: str, destination: str) -> RenameOutcome:
        monkeypatch.setattr(LocalZone, "rename", rename)
        claim_zone(folder, by)
        return rename(zone, source, destination)

    monkeypatch.setattr(LocalZone, "rename", late)


def test_of_two_installations_that_start_at_once_one_is_rejected(
    folder: ZoneAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed_meanwhile(monkeypatch, folder, OTHER)
    rejection(lambda: claim_zone(folder, OURS))
    assert str(OTHER) in (tmp_path / ZONE_MARKER).read_text()


def test_two_drains_of_one_installation_may_start_at_once(
    folder: ZoneAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed_meanwhile(monkeypatch, folder, OURS)
    claim_zone(folder, OURS)
    assert str(OURS) in (tmp_path / ZONE_MARKER).read_text()


def test_sweeping_leaves_the_marker_and_takes_what_a_dead_claimant_prepared(
    folder: ZoneAddress, tmp_path: Path
) -> None:
    claim_zone(folder, OURS)
    prepared = tmp_path / SCRATCH / "gateway-0b8f2f0e-6a5e-4a0b-9d5c-0d1f5d0c7a11"
    prepared.touch()
    later, zone = datetime.now(UTC) + timedelta(days=60), open_zone(folder)
    assert sweep_prepared(zone, now=later) == 1
    assert sweep_dropped(zone, [], now=later) == 0
    assert [path.name for path in (tmp_path / SCRATCH).iterdir()] == ["_gateway.json"]


def test_a_scratch_that_is_no_folder_cannot_be_claimed(folder: ZoneAddress, tmp_path: Path) -> None:
    (tmp_path / SCRATCH).touch()
    with pytest.raises(ScratchRevoked):
        claim_zone(folder, OURS)


@pytest.mark.parametrize("condition", ["honoured", "ignored", "rejected"])
def test_onelake_is_claimed_once_whatever_it_does_with_conditions(
    new_onelake: NewOneLake, trust: Trust, condition: str
) -> None:
    onelake = new_onelake(rename_condition=condition)
    mirror, zone = Mirror(onelake), onelake_address(onelake, trust)
    claim_zone(zone, OURS)
    claim_zone(zone, OURS)
    rejection(lambda: claim_zone(zone, OTHER))
    assert str(OURS).encode() in content(open_zone(zone))
    assert onelake.names(SCRATCH) == ["_gateway.json"]
    mirror.check()


def test_lost_answers_of_onelake_do_not_keep_it_from_being_claimed(new_onelake: NewOneLake, trust: Trust) -> None:
    onelake = new_onelake()
    onelake.faults.first_of_each = Fault(Effect.RESET_AFTER)
    claim_zone(onelake_address(onelake, trust), OURS)
    assert str(OURS).encode() in content(open_zone(onelake_address(onelake, trust)))


EVERY_ZONE = {
    ZoneCheck.WRITE,
    ZoneCheck.LIST,
    ZoneCheck.RENAME,
    ZoneCheck.REVOCATION,
    ZoneCheck.FOLDER_RENAME,
    ZoneCheck.RECURSIVE_DELETE,
    ZoneCheck.CLEAN_UP,
}
CONDITIONS = {ZoneCheck.RENAME_CONDITION, ZoneCheck.SOURCE_ETAG, ZoneCheck.CONDITIONAL_DELETE}


def wrong(zone: LandingZone) -> dict[str, Outcome]:
    return {found.check: found.outcome for found in judge_zone(probe_zone(zone)) if found.outcome is not Outcome.OK}


def left_behind(root: Path) -> list[str]:
    return [*map(str, root.glob("_scratchPad/*"))]


@pytest.mark.parametrize("rename", ["renameat2", None, unsupported])
def test_a_folder_is_well_and_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rename: Callable[..., int] | str | None
) -> None:
    if rename != "renameat2":
        monkeypatch.setattr(local_zone, "_renameat2", rename)
    seen = probe_zone(LocalZone(tmp_path))
    assert {one.check for one in seen} == EVERY_ZONE
    assert [one.instead for one in seen] == [None] * len(seen)
    assert left_behind(tmp_path) == []


def test_onelake_is_well_with_its_conditions_and_mirroring_sees_nothing(new_onelake: NewOneLake, trust: Trust) -> None:
    onelake = new_onelake()
    mirror = Mirror(onelake)
    seen = probe_zone(open_zone(onelake_address(onelake, trust)))
    assert {one.check for one in seen} == EVERY_ZONE | CONDITIONS
    assert [one.instead for one in seen] == [None] * len(seen)
    assert onelake.names("_scratchPad") == []
    mirror.check()


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({"rename_condition": "ignored"}, {"zone_rename_condition": Outcome.WARNING}),
        ({"rename_condition": "rejected"}, {"zone_rename_condition": Outcome.WARNING}),
        ({"folder_rename": False}, {"zone_folder_rename": Outcome.WARNING}),
        ({"heeds_etags": False}, {"zone_source_etag": Outcome.UNSAFE, "zone_conditional_delete": Outcome.UNSAFE}),
        ({"files_hold_files": True}, {"zone_revocation": Outcome.UNSAFE}),
    ],
)
def test_what_a_service_does_not_heed_is_found(
    new_onelake: NewOneLake, trust: Trust, switches: dict[str, Any], expected: dict[str, Outcome]
) -> None:
    onelake = new_onelake(**switches)
    assert wrong(adls_zone(onelake, trust, FakeTime())) == expected
    assert onelake.names("_scratchPad") == []


def test_a_listing_that_lags_behind_is_a_warning(new_onelake: NewOneLake, trust: Trust) -> None:
    onelake = new_onelake()
    onelake.dfs.freeze_listing()
    assert wrong(adls_zone(onelake, trust, FakeTime())) == {"zone_list_after_write": Outcome.WARNING}


@pytest.mark.parametrize("fault", [Fault(Effect.RESET_AFTER), answer(503, "ServerBusy")])
def test_faults_on_the_way_are_no_findings(new_onelake: NewOneLake, trust: Trust, fault: Fault) -> None:
    onelake = new_onelake()
    onelake.faults.first_of_each = fault
    onelake.faults.spared = frozenset({"list"})
    assert wrong(adls_zone(onelake, trust, FakeTime())) == {}


def test_a_store_that_cannot_be_written_is_unsafe_and_the_rest_is_not_tried(
    new_onelake: NewOneLake, trust: Trust
) -> None:
    onelake = new_onelake()
    onelake.faults.plan("create_folder", *[answer(403, "AuthorizationPermissionMismatch")] * 9)
    findings = judge_zone(probe_zone(adls_zone(onelake, trust, FakeTime())))
    assert [(found.check, found.outcome) for found in findings] == [
        ("zone_write", Outcome.UNSAFE),
        ("zone_clean_up", Outcome.OK),
    ]
    assert "403 AuthorizationPermissionMismatch" in findings[0].detail


class Lax(LocalZone):
    """A folder of a file system that breaks a promise."""

    broken = ""

    def rename(self, source: str, destination: str) -> RenameOutcome:
        if self.broken == "rename replaces" and (self._root / destination).is_file():
            (self._root / source).replace(self._root / destination)
            return RenameOutcome.RENAMED
        return super().rename(source, destination)

    def create_file(self, path: str, content: bytes) -> None:
        try:
            super().create_file(path, content if self.broken != "writes are lost" else b"")
        except ScratchRevoked:
            if self.broken != "files hold files":
                raise

    def remove_folder(self, path: str, aside: str, etag: str) -> None:
        if self.broken != "nothing is deleted":
            super().remove_folder(path, aside, etag)


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ("rename replaces", {"zone_rename_keeps_existing": Outcome.UNSAFE}),
        ("files hold files", {"zone_revocation": Outcome.UNSAFE}),
        ("nothing is deleted", {"zone_recursive_delete": Outcome.UNSAFE}),
    ],
)
def test_a_file_system_that_breaks_a_promise_is_unsafe(
    tmp_path: Path, broken: str, expected: dict[str, Outcome]
) -> None:
    zone = Lax(tmp_path)
    zone.broken = broken
    assert wrong(zone) == expected


def test_a_full_disk_is_unsafe_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    zone = LocalZone(tmp_path)
    monkeypatch.setattr(local_zone.os, "fsync", full)
    assert wrong(zone)["zone_write"] is Outcome.UNSAFE
    monkeypatch.undo()
    assert [*tmp_path.rglob("*.*"), *tmp_path.rglob("file")] == []


def test_an_interrupted_probe_still_tidies_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    zone = LocalZone(tmp_path)
    monkeypatch.setattr(zone, "revoke_folder", interrupt)
    with pytest.raises(KeyboardInterrupt):
        probe_zone(zone)
    assert left_behind(tmp_path) == []


def test_what_cannot_be_tidied_up_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(*_: object) -> None:
        raise PermissionError("in use")

    zone = LocalZone(tmp_path)
    monkeypatch.setattr(zone, "remove_folder", reject)
    found = {seen.check: seen.instead for seen in probe_zone(zone)}
    assert "in use" in str(found[ZoneCheck.CLEAN_UP])
    assert "_scratchPad/probe-" in str(found[ZoneCheck.CLEAN_UP])
