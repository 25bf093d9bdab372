"""The probe finds landing zones without the guarantees that publication needs, and cleans up after itself."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.domain.preflight import Outcome, ZoneCheck, judge_zone
from app.landing import local_zone
from app.landing.local_zone import LocalZone
from app.landing.open_zone import open_zone
from app.landing.probe import probe_zone
from app.landing.zone import LandingZone, RenameOutcome, ScratchRevoked
from mirrorgate_zone.emulator import Effect, Fault, Trust, answer
from tests.landing.test_local_zone import unsupported
from tests.support.onelake.clients import FakeTime, adls_zone, onelake_address
from tests.support.onelake.fixtures import NewOneLake
from tests.support.onelake.mirror import Mirror

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
