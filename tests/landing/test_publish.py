"""The steps that make files visible: revoke, verify, folder, rename."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import pytest

from app.domain.model.landing_file import BuiltFile, FileIdentity, PlannedFile, file_name
from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, Epoch, FileNumber, Generation, Table, TableId, TableState
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.landing_rows import landing_rows
from app.errors import Code, InvariantBroken
from app.landing.landed_state import CONSUMED_FOLDERS, LandedState, recover_visible_file, verify_landed
from app.landing.local_zone import LocalZone
from app.landing.parquet_file import FileLayout, write_parquet
from app.landing.publish import (
    Scratch,
    announce_partner,
    make_visible,
    prepare_folder,
    remove_table_folder,
    repair_file,
    revoke_older_epochs,
)
from app.landing.zone import FolderRenameUnsupported, PathKind, RenameOutcome, ScratchRevoked, StorageError
from tests.support.gateway_parts import inserts
from tests.support.samples.schemas import schema_of

INSTALLATION, OTHER_INSTALLATION = UUID(int=1), UUID(int=2)
KEYLESS = schema_of({"id": "int64"})
KEYED = schema_of({"id": "int64"}, ["id"])
EPOCH = Epoch(3)
SCRATCH = Scratch(TableId(5), EPOCH)


@pytest.fixture
def zone(tmp_path: Path) -> LocalZone:
    zone = LocalZone(tmp_path)
    zone.create_folder(SCRATCH.folder)
    return zone


def table(name: str = "sales.orders", *, generation: int = 1, keyed: bool = True) -> Table:
    schema = KEYED if keyed else KEYLESS
    return Table(TableId(5), TableName.parse(name), Generation(generation), TableState.ACTIVE, SchemaVersion(1), schema)


def planned(number: int = 1, digest: str = "ab") -> PlannedFile:
    sequence = BatchSequence(number)
    identity = FileIdentity("sales.orders", Generation(1), FileNumber(number), sequence, sequence, 1, digest)
    return PlannedFile(TableId(5), SchemaVersion(1), identity)


def build(zone: LocalZone, file: PlannedFile, temp_name: str = "temp") -> BuiltFile:
    """Write the planned file into scratch."""
    batch = landing_rows(inserts([{"id": 1}]), KEYED).batch
    with zone.write_file(SCRATCH.path(temp_name)) as sink:
        facts = write_parquet(sink, KEYED, [batch], file.identity, FileLayout(False, "zstd"))
    return BuiltFile(file, EPOCH, temp_name, facts.file_bytes, facts.file_sha256)


def prepare(zone: LocalZone, of: Table, *, published_before: bool = False, installation: UUID = INSTALLATION) -> None:
    prepare_folder(zone, of, installation, SCRATCH, published_before=published_before)


def move_away(zone: LocalZone, processed: str, number: int = 1) -> None:
    """What mirroring does with a file that it has consumed."""
    folder, file = table().name.folder, file_name(FileNumber(number))
    zone.create_folder(f"{folder}/{processed}")
    zone.rename(f"{folder}/{file}", f"{folder}/{processed}/{file}")


def made_durable(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are made durable from now on."""
    paths: list[str] = []
    monkeypatch.setattr(LocalZone, "make_durable", lambda _, path: paths.append(path))
    return paths


def read(zone: LocalZone, path: str) -> object:
    with zone.read_file(path) as file:
        return json.loads(file.read())


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


def foreign_marker(zone: LocalZone, tmp_path: Path) -> None:
    prepare(zone, table("t"), installation=OTHER_INSTALLATION)


def older_generation(zone: LocalZone, tmp_path: Path) -> None:
    prepare(zone, table("t", generation=2))


def no_marker(zone: LocalZone, tmp_path: Path) -> None:
    zone.create_folder("t")
    zone.create_file("t/00000000000000000001.parquet", b"")


def a_file(zone: LocalZone, tmp_path: Path) -> None:
    zone.create_file("t", b"")


def broken_marker(zone: LocalZone, tmp_path: Path) -> None:
    prepare(zone, table("t"))
    (tmp_path / "t" / "_gateway.json").write_text("{")


@pytest.mark.parametrize("foreign", [foreign_marker, older_generation, no_marker, a_file, broken_marker])
def test_a_folder_of_another_table_generation_or_gateway_is_rejected_and_left_alone(
    zone: LocalZone, tmp_path: Path, foreign: Callable[[LocalZone, Path], None]
) -> None:
    foreign(zone, tmp_path)
    before = zone.names("t")
    with pytest.raises(InvariantBroken) as rejection:
        prepare(zone, table("t"))
    assert rejection.value.code == Code.LANDING_FOLDER_LOST
    assert zone.names("t") == before


def test_a_folder_that_is_gone_after_files_were_published_is_not_made_again(zone: LocalZone) -> None:
    with pytest.raises(InvariantBroken) as rejection:
        prepare(zone, table("t"), published_before=True)
    assert rejection.value.code == Code.LANDING_FOLDER_LOST
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
    remove_table_folder(zone, table(), INSTALLATION, SCRATCH)
    durable = made_durable(monkeypatch)
    remove_table_folder(zone, table(), INSTALLATION, SCRATCH)
    assert durable == ["sales.schema/orders"]


def test_a_drop_whose_scratch_was_revoked_deletes_nothing(zone: LocalZone) -> None:
    prepare(zone, table())
    zone.revoke_folder(SCRATCH.folder)
    with pytest.raises(NotADirectoryError):
        remove_table_folder(zone, table(), INSTALLATION, SCRATCH)
    assert zone.names("sales.schema/orders") == ["_gateway.json", "_metadata.json"]


def test_nothing_is_repaired_in_another_gateways_folder(zone: LocalZone) -> None:
    prepare(zone, table(), installation=OTHER_INSTALLATION)
    with pytest.raises(InvariantBroken) as rejection:
        repair_file(zone, table(), INSTALLATION, build(zone, planned()))
    assert rejection.value.code == Code.LANDING_FOLDER_LOST
    assert zone.names("sales.schema/orders") == ["_gateway.json", "_metadata.json"]


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
    with pytest.raises(InvariantBroken) as rejection:
        recover_visible_file(zone, table(), INSTALLATION, planned())
    assert rejection.value.code == Code.LANDING_FOLDER_LOST


def test_our_file_from_another_attempt_is_success_too(zone: LocalZone) -> None:
    prepare(zone, table())
    make_visible(zone, table().name, build(zone, planned(), "one"))
    make_visible(zone, table().name, build(zone, planned(), "other"))


@pytest.mark.parametrize("foreign", [b"", b"not ours"])
def test_a_foreign_file_under_the_number_is_rejected_and_left_alone(zone: LocalZone, foreign: bytes) -> None:
    prepare(zone, table())
    path = f"sales.schema/orders/{file_name(FileNumber(1))}"
    zone.create_file(path, foreign)
    with pytest.raises(InvariantBroken) as rejection:
        make_visible(zone, table().name, build(zone, planned()))
    assert rejection.value.code == Code.FOREIGN_FILE
    with zone.read_file(path) as file:
        assert file.read() == foreign


def test_a_file_of_ours_with_other_content_is_foreign(zone: LocalZone) -> None:
    prepare(zone, table())
    make_visible(zone, table().name, build(zone, planned(digest="ab"), "one"))
    other = planned(digest="cd")
    assert verify_landed(zone, table().name, other) is LandedState.FOREIGN
    with pytest.raises(InvariantBroken):
        make_visible(zone, table().name, build(zone, other, "other"))


def test_a_folder_under_the_number_is_foreign(zone: LocalZone) -> None:
    prepare(zone, table())
    zone.create_folder(f"sales.schema/orders/{file_name(FileNumber(1))}")
    assert verify_landed(zone, table().name, planned()) is LandedState.FOREIGN
    with pytest.raises(InvariantBroken) as rejection:
        make_visible(zone, table().name, build(zone, planned()))
    assert rejection.value.code == Code.FOREIGN_FILE


def test_a_lost_temp_is_told_and_nothing_becomes_visible(zone: LocalZone, tmp_path: Path) -> None:
    prepare(zone, table())
    built = build(zone, planned())
    (tmp_path / SCRATCH.path("temp")).unlink()
    with pytest.raises(FileNotFoundError):
        make_visible(zone, table().name, built)
    assert verify_landed(zone, table().name, planned()) is LandedState.ABSENT


@pytest.mark.parametrize("moved_to", ["_ProcessedFiles", "_FilesReadyToDelete"])
def test_a_file_that_mirroring_has_consumed_and_moved_is_seen_as_ours(
    zone: LocalZone, tmp_path: Path, moved_to: str
) -> None:
    prepare(zone, table())
    built = build(zone, planned())
    make_visible(zone, table().name, built)
    folder = tmp_path / table().name.folder
    (folder / moved_to).mkdir()
    (folder / file_name(FileNumber(1))).rename(folder / moved_to / file_name(FileNumber(1)))
    assert verify_landed(zone, table().name, planned()) is LandedState.OURS
    assert verify_landed(zone, table().name, planned(digest="cd")) is LandedState.FOREIGN
    make_visible(zone, table().name, built)
    assert zone.kind(f"{table().name.folder}/{file_name(FileNumber(1))}") is PathKind.ABSENT


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


def test_an_owner_whose_scratch_was_revoked_makes_nothing_visible(zone: LocalZone) -> None:
    prepare(zone, table())
    built = build(zone, planned())
    zone.revoke_folder(SCRATCH.folder)
    with pytest.raises(FileNotFoundError):
        make_visible(zone, table().name, built)
    assert verify_landed(zone, table().name, planned()) is LandedState.ABSENT


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
    announce_partner(zone, UUID(int=1), "Mirrorgate", "Oracle")
    announce_partner(zone, UUID(int=2), "Other", "Other")
    assert read(zone, "_partnerEvents.json") == {"partnerName": "Mirrorgate", "sourceInfo": {"sourceType": "Oracle"}}
