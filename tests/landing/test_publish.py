"""The steps that make a built file visible: revoke, verify, rename."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import pytest

from app.domain.model.landing_file import file_name
from app.domain.model.table import Epoch, FileNumber, TableId
from app.landing.landed_state import CONSUMED_FOLDERS, LandedState, recover_visible_file, verify_landed
from app.landing.local_zone import LocalZone
from app.landing.publish import (
    Scratch,
    announce_partner,
    make_visible,
    revoke_older_epochs,
)
from app.landing.zone import PathKind
from app.settings import Settings
from mirrorgate.errors import Code, InvariantBroken, StorageError
from tests.landing.publishing import (
    INSTALLATION,
    OTHER_INSTALLATION,
    SCRATCH,
    build,
    made_durable,
    move_away,
    planned,
    prepare,
    read,
    table,
    zone_with_scratch,
)


@pytest.fixture
def zone(tmp_path: Path) -> LocalZone:
    return zone_with_scratch(tmp_path)


def test_a_built_file_becomes_visible_under_its_number(zone: LocalZone) -> None:
    prepare(zone, table())
    file = planned()
    built = build(zone, file)
    assert verify_landed(zone, table().name, file) is LandedState.ABSENT
    make_visible(zone, table().name, built)
    assert verify_landed(zone, table().name, file) is LandedState.OURS
    assert zone.names("sales.schema/orders") == [file_name(FileNumber(1)), "_gateway.json", "_metadata.json"]
    assert zone.names(SCRATCH.folder) == []


def test_a_rename_that_had_happened_already_is_success_once_it_is_durable(
    zone: LocalZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(zone, table())
    built = build(zone, planned())
    make_visible(zone, table().name, built)
    durable = made_durable(monkeypatch)
    make_visible(zone, table().name, built)
    assert durable == [f"sales.schema/orders/{file_name(FileNumber(1))}"]


@pytest.mark.parametrize("processed", CONSUMED_FOLDERS)
def test_a_file_that_mirroring_has_moved_away_is_ours_all_the_same(zone: LocalZone, processed: str) -> None:
    prepare(zone, table())
    built = build(zone, planned())
    make_visible(zone, table().name, built)
    move_away(zone, processed)
    assert verify_landed(zone, table().name, planned()) is LandedState.OURS
    assert verify_landed(zone, table().name, planned(digest="cd")) is LandedState.FOREIGN
    assert verify_landed(zone, table().name, planned(2)) is LandedState.ABSENT
    make_visible(zone, table().name, built)
    assert zone.names(table().name.folder) == [processed, "_gateway.json", "_metadata.json"]


def test_what_the_last_owner_left_standing_is_durable_before_it_counts(
    zone: LocalZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(zone, table())
    make_visible(zone, table().name, build(zone, planned()))
    durable = made_durable(monkeypatch)
    assert recover_visible_file(zone, table(), INSTALLATION, planned())
    assert durable == ["sales.schema/orders", f"sales.schema/orders/{file_name(FileNumber(1))}"]


def test_nothing_is_found_of_a_file_that_was_only_planned(zone: LocalZone) -> None:
    assert not recover_visible_file(zone, table(), INSTALLATION, None)
    assert not recover_visible_file(zone, table(), INSTALLATION, planned())
    prepare(zone, table())
    assert not recover_visible_file(zone, table(), INSTALLATION, planned())


def test_our_file_in_another_gateways_folder_does_not_count(zone: LocalZone) -> None:
    prepare(zone, table(), installation=OTHER_INSTALLATION)
    make_visible(zone, table().name, build(zone, planned()))
    with pytest.raises(InvariantBroken, match=Code.LANDING_FOLDER_LOST):
        recover_visible_file(zone, table(), INSTALLATION, planned())


def test_our_file_from_another_attempt_is_success_too(zone: LocalZone) -> None:
    prepare(zone, table())
    make_visible(zone, table().name, build(zone, planned(), "one"))
    make_visible(zone, table().name, build(zone, planned(), "other"))


@pytest.mark.parametrize("foreign", [b"", b"not ours"])
def test_a_foreign_file_under_the_number_is_rejected_and_left_alone(zone: LocalZone, foreign: bytes) -> None:
    prepare(zone, table())
    path = f"sales.schema/orders/{file_name(FileNumber(1))}"
    zone.create_file(path, foreign)
    with pytest.raises(InvariantBroken, match=Code.FOREIGN_FILE):
        make_visible(zone, table().name, build(zone, planned()))
    with zone.read_file(path) as file:
        assert file.read() == foreign


def test_a_file_of_the_table_with_other_content_is_one_that_the_ledger_lost(zone: LocalZone) -> None:
    prepare(zone, table())
    make_visible(zone, table().name, build(zone, planned(digest="ab"), "one"))
    other = planned(digest="cd")
    assert verify_landed(zone, table().name, other) is LandedState.FOREIGN
    with pytest.raises(InvariantBroken, match=Code.LEDGER_BEHIND_ZONE) as rejection:
        make_visible(zone, table().name, build(zone, other, "other"))
    assert "the ledger ends at file 0" in rejection.value.detail
    assert ": 1; the database is in an earlier state" in rejection.value.detail


def test_a_copy_of_a_file_of_the_table_under_another_number_is_foreign(zone: LocalZone, tmp_path: Path) -> None:
    prepare(zone, table())
    make_visible(zone, table().name, build(zone, planned(1)))
    folder = tmp_path / table().name.folder
    (folder / file_name(FileNumber(2))).write_bytes((folder / file_name(FileNumber(1))).read_bytes())
    with pytest.raises(InvariantBroken, match=Code.FOREIGN_FILE) as rejection:
        make_visible(zone, table().name, build(zone, planned(2), "second"))
    assert rejection.value.detail.endswith(f": {table().name.folder}/{file_name(FileNumber(2))}")


def test_a_folder_under_the_number_is_foreign(zone: LocalZone) -> None:
    prepare(zone, table())
    zone.create_folder(f"sales.schema/orders/{file_name(FileNumber(1))}")
    assert verify_landed(zone, table().name, planned()) is LandedState.FOREIGN
    with pytest.raises(InvariantBroken, match=Code.FOREIGN_FILE):
        make_visible(zone, table().name, build(zone, planned()))


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(lambda root, _: (root / SCRATCH.path("temp")).unlink(), id="a lost temp"),
        pytest.param(lambda _, zone: zone.revoke_folder(SCRATCH.folder), id="a revoked scratch"),
    ],
)
def test_an_owner_without_its_temp_is_told_so_and_makes_nothing_visible(
    zone: LocalZone, tmp_path: Path, lose: Callable[[Path, LocalZone], None]
) -> None:
    prepare(zone, table())
    built = build(zone, planned())
    lose(tmp_path, zone)
    with pytest.raises(FileNotFoundError):
        make_visible(zone, table().name, built)
    assert verify_landed(zone, table().name, planned()) is LandedState.ABSENT


def test_a_store_that_cannot_be_read_is_not_a_foreign_file(zone: LocalZone, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(zone, table())
    make_visible(zone, table().name, build(zone, planned()))

    def broken(*_: object) -> None:
        raise StorageError("read: 503 ServerBusy")

    class Unreadable(io.BytesIO):
        read = broken

    @contextmanager
    def read_file(_: object, __: str) -> Iterator[BinaryIO]:
        yield Unreadable(b"x" * 100)

    monkeypatch.setattr(LocalZone, "read_file", read_file)
    with pytest.raises(StorageError):
        verify_landed(zone, table().name, planned())


def test_claiming_turns_every_older_epoch_into_a_plain_file_and_no_newer_one(zone: LocalZone) -> None:
    for epoch in (1, 3, 4):
        zone.create_folder(Scratch(TableId(5), Epoch(epoch)).folder)
    zone.create_folder(Scratch(TableId(6), Epoch(1)).folder)
    for _ in range(2):
        revoke_older_epochs(zone, SCRATCH)
    kinds = [zone.kind(Scratch(TableId(5), Epoch(epoch)).folder) for epoch in (1, 2, 3, 4)]
    assert kinds == [PathKind.FILE, PathKind.FILE, PathKind.FOLDER, PathKind.FOLDER]
    assert zone.kind(Scratch(TableId(6), Epoch(1)).folder) is PathKind.FOLDER


def test_the_partner_is_announced_once(zone: LocalZone) -> None:
    announce_partner(zone, UUID(int=1), Settings(source_type="Oracle").partner_events)
    announce_partner(zone, UUID(int=2), Settings(partner_name="Other").partner_events)
    assert read(zone, "_partnerEvents.json") == {"partnerName": "Mirrorgate", "sourceInfo": {"sourceType": "Oracle"}}


def test_the_partner_events_name_the_version_of_the_source_and_what_else_is_given(
    zone: LocalZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORGATE_SOURCE_VERSION", "19c")
    monkeypatch.setenv("MIRRORGATE_SOURCE_INFORMATION", '{"site": "Berlin"}')
    announce_partner(zone, UUID(int=1), Settings().partner_events)
    assert read(zone, "_partnerEvents.json")["sourceInfo"] == {
        "sourceType": "Mirrorgate",
        "sourceVersion": "19c",
        "additionalInformation": {"site": "Berlin"},
    }
