"""Table folders: prepared once, kept as they are, and removed only by the owner."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber
from app.landing.landed_state import LandedState, verify_landed
from app.landing.local_zone import LocalZone
from app.landing.publish import (
    make_visible,
    remove_table_folder,
    repair_file,
)
from app.landing.zone import FolderRenameUnsupported, PathKind, RenameOutcome, ScratchRevoked
from mirrorgate.errors import Code, InvariantBroken
from tests.landing.publishing import (
    INSTALLATION,
    OTHER_INSTALLATION,
    SCRATCH,
    build,
    made_durable,
    planned,
    prepare,
    read,
    table,
    zone_with_scratch,
)
from tests.support.samples.schemas import schema_of


def owns() -> None:
    """Find the epoch of a drop valid."""


@pytest.fixture
def zone(tmp_path: Path) -> LocalZone:
    return zone_with_scratch(tmp_path)


@pytest.mark.parametrize(("name", "folder"), [("orders", "orders"), ("sales.orders", "sales.schema/orders")])
def test_a_new_folder_has_its_metadata_and_its_marker(zone: LocalZone, name: str, folder: str) -> None:
    prepare(zone, table(name))
    assert zone.names(folder) == ["_gateway.json", "_metadata.json"]
    assert read(zone, f"{folder}/_metadata.json") == {"keyColumns": ["id"]}
    assert read(zone, f"{folder}/_gateway.json") == {
        "table": name,
        "generation": 1,
        "installation_id": str(INSTALLATION),
    }


def test_a_table_without_keys_has_empty_metadata(zone: LocalZone) -> None:
    prepare(zone, table("t", keyed=False))
    assert read(zone, "t/_metadata.json") == {}


def test_the_metadata_of_a_compound_key_has_its_columns_in_their_order(zone: LocalZone) -> None:
    schema = schema_of({"C2": "string", "C1": "int64", "C3": "date"}, ["C1", "C2"])
    prepare(zone, replace(table("t"), schema=schema))
    assert read(zone, "t/_metadata.json") == {"keyColumns": ["C1", "C2"]}


def test_a_folder_that_is_there_is_left_as_it_is(zone: LocalZone, tmp_path: Path) -> None:
    prepare(zone, table("t"))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("t/*")}
    prepare(zone, table("t"), published_before=True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("t/*")} == before


def test_keys_that_a_keyless_table_gained_are_written_into_its_metadata(zone: LocalZone) -> None:
    prepare(zone, table("t", keyed=False))
    prepare(zone, table("t"), published_before=True)
    assert read(zone, "t/_metadata.json") == {"keyColumns": ["id"]}
    assert zone.names(SCRATCH.folder) == []


def test_metadata_that_was_lost_is_written_again(zone: LocalZone, tmp_path: Path) -> None:
    prepare(zone, table("t"))
    (tmp_path / "t" / "_metadata.json").unlink()
    prepare(zone, table("t"), published_before=True)
    assert read(zone, "t/_metadata.json") == {"keyColumns": ["id"]}


def test_a_process_that_died_while_it_prepared_the_folder_is_carried_on(zone: LocalZone) -> None:
    zone.create_folder(SCRATCH.path("folder"))
    zone.create_file(SCRATCH.path("folder/_metadata.json"), b'{\n  "keyColumns": [\n    "id"\n  ]\n}')
    prepare(zone, table("t"))
    assert zone.names("t") == ["_gateway.json", "_metadata.json"]


FOREIGN: dict[str, Callable[[LocalZone, Path], object]] = {
    "of another gateway": lambda zone, _: prepare(zone, table("t"), installation=OTHER_INSTALLATION),
    "of another generation": lambda zone, _: prepare(zone, table("t", generation=2)),
    "without a marker": lambda zone, _: (
        zone.create_folder("t"),
        zone.create_file("t/00000000000000000001.parquet", b""),
    ),
    "a file": lambda zone, _: zone.create_file("t", b""),
    "with a damaged marker": lambda zone, root: (prepare(zone, table("t")), (root / "t/_gateway.json").write_text("{")),
}


@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_folder_of_another_table_generation_or_gateway_is_rejected_and_left_alone(
    zone: LocalZone, tmp_path: Path, foreign: str
) -> None:
    FOREIGN[foreign](zone, tmp_path)
    before = zone.names("t")
    with pytest.raises(InvariantBroken, match=Code.LANDING_FOLDER_LOST):
        prepare(zone, table("t"))
    assert zone.names("t") == before


def test_a_folder_that_is_gone_after_files_were_published_is_not_made_again(zone: LocalZone) -> None:
    with pytest.raises(InvariantBroken, match=Code.LANDING_FOLDER_LOST):
        prepare(zone, table("t"), published_before=True)
    assert zone.kind("t") is PathKind.ABSENT


def test_a_revoked_owner_makes_no_folder(zone: LocalZone) -> None:
    zone.revoke_folder(SCRATCH.folder)
    with pytest.raises(ScratchRevoked):
        prepare(zone, table("t"))
    assert zone.kind("t") is PathKind.ABSENT


def test_a_prepared_folder_that_was_lost_is_prepared_again_by_the_next_epoch(
    zone: LocalZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zone, "rename", lambda *_: RenameOutcome.SOURCE_MISSING)
    with pytest.raises(FileNotFoundError):
        prepare(zone, table("t"))
    assert zone.kind("t") is PathKind.ABSENT


def test_a_folder_that_the_last_owner_deleted_is_durably_gone_before_that_counts(
    zone: LocalZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(zone, table())
    remove_table_folder(zone, table(), INSTALLATION, SCRATCH, owns)
    durable = made_durable(monkeypatch)
    remove_table_folder(zone, table(), INSTALLATION, SCRATCH, owns)
    assert durable == ["sales.schema/orders"]


def test_a_drop_whose_scratch_was_revoked_deletes_nothing(zone: LocalZone) -> None:
    prepare(zone, table())
    zone.revoke_folder(SCRATCH.folder)
    with pytest.raises(NotADirectoryError):
        remove_table_folder(zone, table(), INSTALLATION, SCRATCH, owns)
    assert zone.names("sales.schema/orders") == ["_gateway.json", "_metadata.json"]


@pytest.mark.parametrize("generation", [1, 3])
def test_after_a_restore_a_drop_deletes_the_folder_of_another_generation_but_a_stale_owner_does_not(
    zone: LocalZone, generation: int
) -> None:
    def is_over() -> None:
        raise InvariantBroken(Code.STALE_EPOCH, "epoch 1 is over")

    prepare(zone, table(generation=generation))
    with pytest.raises(InvariantBroken, match=Code.STALE_EPOCH):
        remove_table_folder(zone, table(generation=2), INSTALLATION, SCRATCH, is_over)
    assert zone.kind("sales.schema/orders") is PathKind.FOLDER
    remove_table_folder(zone, table(generation=2), INSTALLATION, SCRATCH, owns)
    assert zone.kind("sales.schema/orders") is PathKind.ABSENT


@pytest.mark.parametrize("foreign", sorted(FOREIGN.keys() - {"of another generation"}))
def test_a_drop_leaves_the_folder_of_another_table_or_gateway_alone(
    zone: LocalZone, tmp_path: Path, foreign: str
) -> None:
    FOREIGN[foreign](zone, tmp_path)
    with pytest.raises(InvariantBroken, match=Code.LANDING_FOLDER_LOST) as stop:
        remove_table_folder(zone, table("t"), INSTALLATION, SCRATCH, owns)
    assert stop.value.remedy.startswith("Move the folder out of the landing zone")  # a release is rejected meanwhile
    assert zone.kind("t") is not PathKind.ABSENT


def test_nothing_is_repaired_in_another_gateways_folder(zone: LocalZone) -> None:
    prepare(zone, table(), installation=OTHER_INSTALLATION)
    with pytest.raises(InvariantBroken, match=Code.LANDING_FOLDER_LOST):
        repair_file(zone, table(), INSTALLATION, build(zone, planned()))
    assert zone.names("sales.schema/orders") == ["_gateway.json", "_metadata.json"]


def test_a_file_that_mirroring_has_moved_is_repaired_where_it_is(zone: LocalZone) -> None:
    prepare(zone, table())
    consumed = "sales.schema/orders/_ProcessedFiles"
    zone.create_folder(consumed)
    zone.create_file(f"{consumed}/{file_name(FileNumber(1))}", b"")
    repair_file(zone, table(), INSTALLATION, build(zone, planned()))
    assert zone.names("sales.schema/orders") == ["_ProcessedFiles", "_gateway.json", "_metadata.json"]
    assert verify_landed(zone, table().name, planned()) is LandedState.OURS


def test_a_half_written_folder_of_an_earlier_try_is_not_used(zone: LocalZone) -> None:
    zone.create_folder(SCRATCH.path("folder"))
    zone.create_file(SCRATCH.path("folder/_metadata.json"), b"")
    prepare(zone, table("t"))
    assert read(zone, "t/_metadata.json") == {"keyColumns": ["id"]}


def test_a_store_that_cannot_rename_folders_gets_the_folder_file_by_file(
    zone: LocalZone, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, renamed = LocalZone.rename, list[str]()

    def rename(self: LocalZone, source: str, destination: str) -> RenameOutcome:
        if self.kind(source) is PathKind.FOLDER:
            raise FolderRenameUnsupported(source)
        renamed.append(destination)
        return real(self, source, destination)

    monkeypatch.setattr(LocalZone, "rename", rename)
    prepare(zone, table())
    assert renamed == ["sales.schema/orders/_gateway.json", "sales.schema/orders/_metadata.json"]
    make_visible(zone, table().name, build(zone, planned()))
