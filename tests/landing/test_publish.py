"""Data files: how they are written, published and told from others."""

import errno
import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.domain.model.landing_file import FileIdentity, file_name
from app.domain.model.table import BatchSequence, Epoch, FileNumber, Generation, TableId
from app.domain.model.table_schema import TableSchema
from app.domain.rows.landing_rows import landing_rows
from app.landing import parquet_file
from app.landing.landed_state import CONSUMED_FOLDERS, LandedState, recover_visible_file, verify_landed
from app.landing.local_zone import LocalZone
from app.landing.parquet_file import FileLayout, WrittenFile, dictionary_columns, read_identity, write_parquet
from app.landing.publish import (
    Scratch,
    announce_partner,
    make_visible,
    revoke_older_epochs,
)
from app.landing.zone import PathKind
from app.settings import Compression, Settings
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
from tests.support.gateway_parts import inserts
from tests.support.samples.changes import delete
from tests.support.samples.schemas import EVERY_TYPE, FULL_ROW, ID, schema_of


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


LAST = FileLayout(marker_first=False, compression="zstd")


def identity(rows: int) -> FileIdentity:
    return FileIdentity("t", Generation(1), FileNumber(7), BatchSequence(3), BatchSequence(5), rows, "ab")


def ids(*keys: int) -> pa.RecordBatch:
    return landing_rows(inserts([{"id": key} for key in keys]), ID).batch


def written(
    batches: list[pa.RecordBatch], schema: TableSchema = ID, layout: FileLayout = LAST
) -> tuple[bytes, WrittenFile]:
    sink = io.BytesIO()
    rows = sum(batch.num_rows for batch in batches)
    facts = write_parquet(sink, schema, batches, identity(rows), layout)
    return sink.getvalue(), facts


def table_of(content: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(content))


def test_the_facts_of_a_file_are_those_of_its_bytes() -> None:
    content, facts = written([ids(1, 2), ids(3)])
    assert facts == WrittenFile(len(content), hashlib.sha256(content).hexdigest(), rows=3)


@pytest.mark.parametrize("codec", [codec.value for codec in Compression])
@pytest.mark.parametrize(("marker_first", "names"), [(False, ["id", "__rowMarker__"]), (True, ["__rowMarker__", "id"])])
def test_every_codec_and_both_marker_positions_hold_the_same_rows(
    codec: str, marker_first: bool, names: list[str]
) -> None:
    content, _ = written([ids(1, 2), ids(3)], layout=FileLayout(marker_first, codec))
    table = table_of(content)
    assert table.column_names == names
    assert table.column("id").to_pylist() == [1, 2, 3]
    assert table.column("__rowMarker__").to_pylist() == [0, 0, 0]
    used = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0).compression
    assert used == ("UNCOMPRESSED" if codec == "none" else codec.upper())


def test_every_type_reads_back_as_it_was_staged() -> None:
    batch = landing_rows([*inserts([FULL_ROW]), delete({"id": 1})], EVERY_TYPE).batch
    content, _ = written([batch], EVERY_TYPE)
    assert table_of(content).to_pylist() == batch.to_pylist()
    assert table_of(content).schema.equals(EVERY_TYPE.arrow)


def test_timestamps_are_utc_microseconds_and_only_keys_and_the_marker_are_required() -> None:
    content, _ = written([landing_rows(inserts([FULL_ROW]), EVERY_TYPE).batch], EVERY_TYPE)
    schema = pq.ParquetFile(io.BytesIO(content)).schema
    columns = {schema.column(index).name: schema.column(index) for index in range(len(schema))}
    moment = columns["moment"]
    assert moment.physical_type == "INT64"
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(moment.logical_type)
    required = [name for name, column in columns.items() if column.max_definition_level == 0]
    assert required == ["id", "__rowMarker__"]


@pytest.mark.parametrize(
    ("limit", "value", "sizes"),
    [
        ("row_group_rows", 3, [3, 3, 1]),
        ("MAX_ROW_GROUP_BYTES", 30, [3, 3, 1]),
        ("row_group_rows", 100, [7]),
    ],
)
def test_a_row_group_is_closed_at_its_limit(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, sizes: list[int]
) -> None:
    layout = LAST
    if limit == "row_group_rows":
        layout = replace(layout, row_group_rows=value)
    else:
        monkeypatch.setattr(parquet_file, limit, value)
    content, _ = written([ids(key) for key in range(7)], layout=layout)
    metadata = pq.read_metadata(io.BytesIO(content))
    assert [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)] == sizes
    assert table_of(content).column("id").to_pylist() == list(range(7))


def text_table(rows: int, *, distinct: int, null_from: int | None = None) -> pa.Table:
    """Return an `id` and a text with this many values in turn, NULL from a row on."""
    texts = [None if null_from is not None and row >= null_from else f"text {row % distinct}" for row in range(rows)]
    return pa.table({"id": pa.array(range(rows)), "text": pa.array(texts, pa.string())})


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (text_table(100_000, distinct=50), ["text"]),
        (text_table(100_000, distinct=100_000), []),
        (text_table(100_000, distinct=100_000, null_from=10), ["text"]),
        (text_table(100_000, distinct=100_000, null_from=0), ["text"]),
        (text_table(10_000, distinct=10_000), ["id", "text"]),
        (text_table(0, distinct=1), ["id", "text"]),
    ],
    ids=["repeated", "distinct", "nearly all NULL", "all NULL", "too few rows for a sample", "no row"],
)
def test_columns_get_a_dictionary_unless_the_first_rows_hardly_repeat(table: pa.Table, columns: list[str]) -> None:
    assert dictionary_columns(table) == columns


def test_every_type_can_be_sampled() -> None:
    row = landing_rows(inserts([FULL_ROW]), EVERY_TYPE).batch
    assert dictionary_columns(pa.Table.from_batches([row] * 20_000)) == row.schema.names


def test_a_file_has_the_same_rows_with_and_without_dictionaries(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of({"id": "int64", "a.b": "string", "c": "string"}, ["id"])
    rows = [{"id": key, "a.b": f"text {key}", "c": f"text {key % 3}"} for key in range(20_000)]
    batches = [landing_rows(inserts(rows), schema).batch]
    content, _ = written(batches, schema)
    monkeypatch.setattr(parquet_file, "MIN_SAMPLED_ROWS", 10**9)
    before, _ = written(batches, schema)
    assert table_of(content).equals(table_of(before))
    columns = pq.read_metadata(io.BytesIO(content)).row_group(0)
    used = {
        columns.column(at).path_in_schema: columns.column(at).has_dictionary_page for at in range(columns.num_columns)
    }
    assert used == {"id": False, "a.b": False, "c": True, "__rowMarker__": True}
    assert len(content) < len(before)


def test_the_footer_gives_back_the_identity() -> None:
    content, _ = written([ids(1, 2)])
    assert read_identity(io.BytesIO(content)) == identity(2)


def test_a_footer_whose_rows_are_not_those_of_the_file_is_not_believed() -> None:
    sink = io.BytesIO()
    write_parquet(sink, ID, [ids(1, 2)], identity(3), LAST)
    assert read_identity(sink) is None


def test_no_part_of_a_file_is_taken_for_a_whole_one() -> None:
    content, _ = written([ids(1, 2)])
    for length in range(len(content)):
        assert read_identity(io.BytesIO(content[:length])) is None


def test_a_flipped_bit_of_a_value_is_found_by_its_page() -> None:
    content, _ = written([ids(7_777, 2)], layout=FileLayout(marker_first=False, compression="none"))
    at = content.index((7_777).to_bytes(8, "little"))
    damaged = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    assert table_of(damaged)["id"].to_pylist() == [7_776, 2]
    with pytest.raises(OSError, match="checksum"):
        pq.read_table(io.BytesIO(damaged), page_checksum_verification=True)


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + bytes(100) + b"PAR1", b"id,name\n1,a\n", bytes(1000)]
)
def test_a_file_that_is_not_parquet_has_no_identity(content: bytes) -> None:
    assert read_identity(io.BytesIO(content)) is None


@pytest.mark.parametrize("fault", [OSError(errno.EIO, "input/output error"), TimeoutError("no answer")])
def test_a_fault_of_the_store_says_nothing_of_the_file(fault: OSError) -> None:
    class Faulty(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise fault

    with pytest.raises(type(fault)):
        read_identity(Faulty(written([ids(1, 2)])[0]))


def test_somebody_elses_parquet_has_no_identity(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "foreign.parquet")
    with (tmp_path / "foreign.parquet").open("rb") as file:
        assert read_identity(file) is None


def test_a_row_group_is_written_before_the_next_one_is_read() -> None:
    sink = io.BytesIO()
    sizes: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for key in range(3):
            sizes.append(sink.tell())
            yield ids(key)

    write_parquet(sink, ID, batches(), identity(3), replace(LAST, row_group_rows=1))
    assert sizes == sorted(set(sizes))
