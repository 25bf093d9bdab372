"""The mirror of a table as its files appear, as others read it, and after it is registered again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from app.domain.mirror_report import FolderOwner, MirrorState
from app.landing.landed_state import MARKER
from app.mirror.commit import CHECKPOINT_COMMITS
from app.mirror.table_mirror import MirrorLimits
from app.published.table_files import PublishedTable
from mirrorgate.errors import Code
from tests.mirror.model.mirrored_table import MirroredTable
from tests.mirror.model.publisher import FOLDERS
from tests.mirror.small_zone import ORDERS, SmallZone, noted


@pytest.fixture
def zone(tmp_path: Path) -> SmallZone:
    return SmallZone(tmp_path)


def test_each_file_becomes_one_version(zone: SmallZone) -> None:
    zone.land(1, [(1, "a", 0), (2, "b", 0)])
    zone.land(2, [(1, "A", 1), (2, None, 2), (3, "c", 4)])
    zone.land(3, [(3, "again", 0), (9, None, 2)])
    states = [zone.advance().state for _ in range(3)]
    assert states == [MirrorState.BEHIND, MirrorState.BEHIND, MirrorState.IN_STEP]
    assert zone.rows(0) == noted((1, "a"), (2, "b"))
    assert zone.rows(1) == noted((1, "A"), (3, "c"))
    assert zone.rows(2) == noted((1, "A"), (3, "again"), (3, "c"))
    facts = zone.delta().history(1)[0]
    assert (facts["mirrorgate.files"], facts["mirrorgate.generation"]) == ("3-3", "1")
    assert json.loads(facts["mirrorgate.rows"]) == {"0": 1, "1": 0, "2": 1, "4": 0}
    assert json.loads(facts["mirrorgate.key_columns"]) == ["id"]
    assert (facts["mirrorgate.deleted_keys"], facts["mirrorgate.appended_rows"]) == ("1", "1")
    assert (Path(zone.target.location) / "sales" / "my orders" / "_delta_log").is_dir()
    assert zone.target.tables() == ["sales.my orders"]


def test_the_inventory_of_the_direct_lake_page_is_right_at_each_version(tmp_path: Path) -> None:
    """Its four writes: three products, one more, a changed stock, a deleted product. No file is ever modified."""
    zone = SmallZone(tmp_path, PublishedTable(None, "Inventory", "Inventory"))
    zone.declare(keyColumns=["ProductID"])
    schema = pa.schema([("ProductID", pa.string()), ("StockOnHand", pa.int64()), ("__rowMarker__", pa.int32())])
    writes = [
        [("A", 1, 0), ("B", 2, 0), ("C", 3, 0)],
        [("D", 4, 0)],
        [("C", 10, 1)],
        [("B", None, 2)],
    ]
    seen: dict[Path, bytes] = {}
    for number, rows in enumerate(writes, 1):
        zone.land(number, pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema))
        zone.advance()
        assert all(path.read_bytes() == content for path, content in seen.items())
        seen = {path: path.read_bytes() for path in Path(zone.target.location).rglob("*.parquet")}
    stock = [{row["ProductID"]: row["StockOnHand"] for row in zone.rows(version)} for version in range(4)]
    assert stock == [
        {"A": 1, "B": 2, "C": 3},
        {"A": 1, "B": 2, "C": 3, "D": 4},
        {"A": 1, "B": 2, "C": 10, "D": 4},
        {"A": 1, "C": 10, "D": 4},
    ]


def test_a_mirrored_table_has_no_partitions_and_no_deleted_row_in_its_files(zone: SmallZone) -> None:
    zone.land(1, [(1, "a", 0), (2, "b", 0)])
    zone.land(2, [(2, None, 2)])
    zone.advance()
    zone.advance()
    assert zone.delta().metadata().partition_columns == []
    assert sum(pq.read_metadata(unquote(file)).num_rows for file in zone.delta().file_uris()) == 1


def test_a_checkpoint_follows_every_25_commits_so_that_opening_a_table_reads_few_entries_at_once(
    zone: SmallZone,
) -> None:
    for number in range(1, 2 * CHECKPOINT_COMMITS + 5):
        zone.land(number, [(number, "n", 0)])
        zone.advance()
    checkpoints = sorted(path.name[:20] for path in (zone.delta_folder / "_delta_log").glob("*.checkpoint.parquet"))
    assert [int(version) + 1 for version in checkpoints] == [CHECKPOINT_COMMITS, 2 * CHECKPOINT_COMMITS]
    commits = [int(path.stem) for path in (zone.delta_folder / "_delta_log").glob("*.json")]
    assert max(commits) - int(checkpoints[-1]) < CHECKPOINT_COMMITS


def test_a_file_without_effect_is_a_version_too(zone: SmallZone) -> None:
    zone.land(1, [])
    zone.land(2, [(1, None, 2)])
    zone.land(3, [])
    assert [zone.advance().version for _ in range(3)] == [0, 1, 2]
    assert zone.advance().version == 2
    assert zone.rows() == []


def test_a_mirror_that_is_behind_applies_several_files_in_one_version(zone: SmallZone) -> None:
    for number in range(1, 8):
        zone.land(number, [(1, f"v{number}", 1), (number, "n", 0)])
    report = zone.advance(MirrorLimits(max_files=5))
    assert (report.version, report.file_number, report.pending_files) == (0, 5, 2)
    report = zone.advance(MirrorLimits(max_bytes=1))
    assert (report.version, report.file_number, report.state) == (1, 6, MirrorState.BEHIND)
    assert zone.delta().history(1)[0]["mirrorgate.files"] == "6-6"


def test_nothing_is_written_by_looking(zone: SmallZone) -> None:
    zone.land(1, [(1, "a", 0)])
    report = zone.inspect()
    assert (report.state, report.version, report.pending_files) == (MirrorState.BEHIND, None, 1)
    assert report.oldest_pending_at is not None
    assert not Path(zone.target.location).exists()


def test_new_and_missing_columns_are_null(zone: SmallZone) -> None:
    zone.land(1, [(1, "a", 0), (2, "b", 0)])
    zone.land(2, pa.table({"ID": [2, 3], "new, column": [1.5, None], "__rowMarker__": [1, 0]}))
    zone.advance()
    assert zone.advance().state is MirrorState.IN_STEP
    assert zone.rows() == [
        {"id": 1, "note": "a", "new, column": None},
        {"id": 2, "note": None, "new, column": 1.5},
        {"id": 3, "note": None, "new, column": None},
    ]


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (pa.table({"id": pa.array([1], pa.int32()), "__rowMarker__": [0]}), Code.SCHEMA_MERGE_FAILURE),
        (pa.table({"note": ["x"], "__rowMarker__": [1]}), Code.MIRROR_KEY_MISSING),
        (pa.table({"id": [1], "at": pa.array([1], pa.time64("us"))}), Code.MIRROR_TYPE_UNSUPPORTED),
        (pa.table({"id": [1], "__rowMarker__": [7]}), Code.LANDING_FILE_UNREADABLE),
    ],
    ids=["type", "key", "unsupported", "marker"],
)
def test_a_file_that_cannot_be_applied_stops_the_table_behind_the_files_before(
    zone: SmallZone, second: pa.Table, code: Code
) -> None:
    zone.land(1, [(1, "a", 0)])
    zone.land(2, [(2, "b", 0)])
    bad = zone.land(3, second)
    assert zone.advance(MirrorLimits()).file_number == 2
    report = zone.advance()
    assert (report.state, report.code, report.file_number) == (MirrorState.STOPPED, code, 2)
    assert bad.name in (report.detail or "")
    assert report.remedy
    zone.land(3, [(3, "c", 0)])
    assert zone.advance().state is MirrorState.IN_STEP
    assert zone.rows() == noted((1, "a"), (2, "b"), (3, "c"))


def test_a_file_of_markers_alone_and_an_unread_codec_stop_the_table(zone: SmallZone) -> None:
    zone.land(1, pa.table({"__rowMarker__": [0]}))
    report = zone.advance()
    assert (report.state, report.code) == (MirrorState.STOPPED, Code.LANDING_FILE_UNREADABLE)
    assert "no column besides the row marker" in (report.detail or "")
    pq.write_table(pa.table({"id": [1], "note": ["a"]}), zone.land(1, [(1, "a", 0)]), compression="brotli")
    assert (report := zone.advance()).code == Code.LANDING_FILE_UNREADABLE
    assert "does not read BROTLI" in (report.detail or "")
    zone.land(1, [(1, "a", 0)])
    assert zone.advance().state is MirrorState.IN_STEP


def test_files_without_an_order_stop_the_table(zone: SmallZone) -> None:
    path = zone.land(1, [(1, "a", 0)])
    path.rename(path.with_name("a1b2c3.parquet"))
    assert zone.advance().code == Code.LANDING_ORDER_UNSUPPORTED


def test_unmarked_rows_are_upserts_where_the_metadata_says_so(zone: SmallZone) -> None:
    zone.declare(isUpsertDefaultRowMarker=True)
    zone.land(1, pa.table({"id": [1, 2, 1], "note": ["a", "b", "c"]}))
    zone.land(2, pa.table({"id": [2], "note": ["d"]}))
    zone.advance(MirrorLimits())
    assert zone.rows() == noted((1, "c"), (2, "d"))


def test_a_recreated_folder_begins_a_new_table_and_keeps_the_old_one(zone: SmallZone) -> None:
    for number in (1, 2, 3):
        zone.land(number, [(number, "old", 0)])
    zone.advance(MirrorLimits())
    for path in zone.folder.iterdir():
        path.unlink()
    zone.folder.rmdir()
    assert zone.advance().state is MirrorState.DROPPED
    zone.declare()
    assert zone.advance().file_number == 3  # nothing tells yet that the folder is another one
    zone.land(1, pa.table({"id": ["x"], "other": [1]}))
    report = zone.advance()
    assert (report.generation, report.version, report.state) == (2, 0, MirrorState.IN_STEP)
    assert zone.rows() == [{"id": "x", "other": 1}]
    assert zone.target.tables() == ["sales.my orders", "sales.my orders@g1"]
    old = zone.target.open_at(zone.target.uri(ORDERS, generation=1))
    assert old is not None
    assert old.to_pyarrow_dataset().count_rows() == 3


def test_a_table_of_another_writer_is_left_alone(zone: SmallZone) -> None:
    zone.land(1, [(1, "a", 0)])
    write_deltalake(zone.target.uri(ORDERS), pa.table({"x": [1]}))
    assert zone.advance().code == Code.MIRROR_TARGET_FOREIGN
    assert zone.delta().version() == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.restore(0),
        lambda table: table.delete("id = 2"),
        lambda table: write_deltalake(table, pa.table({"id": [9], "note": ["x"]}), mode="append"),
        lambda table: write_deltalake(table, pa.table({"x": [9]}), mode="overwrite", schema_mode="overwrite"),
    ],
    ids=["restore", "delete", "append", "overwrite"],
)
def test_rows_that_another_program_changed_stop_the_table_until_its_version_is_restored(
    zone: SmallZone, change: Callable[[DeltaTable], object]
) -> None:
    for number in (1, 2):
        zone.land(number, [(number, "a", 0)])
        zone.advance()
    change(zone.delta())
    zone.delta().optimize.compact()
    assert zone.inspect().code == Code.MIRROR_TARGET_FOREIGN
    zone.land(3, [(1, "b", 1)])
    report = zone.advance()
    assert (report.state, report.file_number, report.code) == (MirrorState.STOPPED, 2, Code.MIRROR_TARGET_FOREIGN)
    assert "another program changed the Delta table sales.my orders: version 2 is of " in (report.detail or "")
    zone.delta().restore(1)
    assert zone.advance().state is MirrorState.IN_STEP
    assert zone.rows() == noted((1, "b"), (2, "a"))


def test_a_property_that_forbids_the_next_commit_stops_the_table_until_it_is_gone(zone: SmallZone) -> None:
    zone.land(1, [(1, "a", 0)])
    zone.advance()
    zone.delta().alter.set_table_properties({"delta.appendOnly": "true"})
    zone.land(2, [(1, "b", 1)])
    report = zone.advance()
    assert (report.state, report.code) == (MirrorState.STOPPED, Code.MIRROR_TARGET_FOREIGN)
    assert "append-only" in (report.detail or "")
    zone.delta().alter.set_table_properties({"delta.appendOnly": "false"})
    assert zone.advance().state is MirrorState.IN_STEP


def test_no_value_of_a_row_is_in_the_error_of_a_violated_constraint(zone: SmallZone) -> None:
    zone.land(1, [(1, "a", 0)])
    zone.advance()
    zone.delta().alter.add_constraint({"named": "note <> 'secret'"})
    zone.land(2, [(2, "secret", 0)])
    with pytest.raises(OSError, match=r"1 rows failed validation check\.$"):
        zone.advance()


def test_a_table_never_lies_inside_another_one(tmp_path: Path) -> None:
    inner = SmallZone(tmp_path, PublishedTable("sales", "orders", "sales.schema/orders"))
    outer = SmallZone(tmp_path, PublishedTable(None, "sales", "sales"))
    for made in (inner, outer):
        made.land(1, [(1, "a", 0)])
    assert outer.advance().code == Code.MIRROR_TARGET_FOREIGN
    assert inner.advance().state is MirrorState.IN_STEP


def test_a_generation_that_was_moved_aside_counts_if_its_process_died(zone: SmallZone) -> None:
    zone.land(1, [(1, "old", 0)])
    zone.advance()
    Path(zone.target.uri(ORDERS)).rename(zone.target.uri(ORDERS, generation=1))
    assert zone.advance().generation == 2


def test_a_time_without_a_zone_is_read_as_utc(zone: SmallZone) -> None:
    zone.land(1, [(1, "a", 0)])
    zone.land(2, pa.table({"id": [2], "at": pa.array([1], pa.timestamp("ns"))}))
    zone.advance(MirrorLimits())
    assert zone.advance().state is MirrorState.IN_STEP
    assert zone.delta().protocol().min_reader_version == 1


@pytest.fixture(scope="module", params=range(2), ids=FOLDERS[:2])
def mirrored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MirroredTable:
    return MirroredTable(tmp_path_factory.mktemp("readers"), FOLDERS[request.param], request.param)


def test_duckdb_reads_it_as_arrow(mirrored: MirroredTable) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("mirrored", DeltaTable(mirrored.uri).to_pyarrow_dataset())
        mirrored.compare(connection.sql("SELECT * FROM mirrored").to_arrow_table())


def test_duckdb_reads_the_parquet_files_that_the_log_names(mirrored: MirroredTable) -> None:
    """The log has URLs, in which a blank is `%20`."""
    files = [unquote(file) for file in DeltaTable(mirrored.uri).file_uris()]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        mirrored.compare(connection.read_parquet(files, union_by_name=True).to_arrow_table())


def test_polars_reads_it(mirrored: MirroredTable) -> None:
    """Its own reader of Delta takes no blanks in a path; Arrow takes all."""
    frame = polars.from_arrow(DeltaTable(mirrored.uri).to_pyarrow_table())
    assert isinstance(frame, polars.DataFrame)
    mirrored.compare(frame.to_arrow())
    if mirrored.has_plain_path:
        mirrored.compare(polars.read_delta(mirrored.uri).to_arrow())
        mirrored.compare(polars.scan_delta(mirrored.uri).collect().to_arrow())


def test_pandas_reads_it(mirrored: MirroredTable) -> None:
    pandas = pytest.importorskip("pandas", reason="PyArrow imports pandas everywhere once it is installed")
    found = DeltaTable(mirrored.uri).to_pandas(types_mapper=pandas.ArrowDtype)
    mirrored.compare(pa.Table.from_pandas(found, preserve_index=False))


INSTALLATION = "0d1f2a3b-0000-0000-0000-000000000001"


def begin(zone: SmallZone, generation: int) -> None:
    """Create the folder as the gateway does, without files."""
    shutil.rmtree(zone.folder, ignore_errors=True)
    zone.declare()
    marker = {"table": str(zone.table), "generation": generation, "installation_id": INSTALLATION}
    (zone.folder / MARKER).write_text(json.dumps(marker))


def land(zone: SmallZone, *notes: str) -> None:
    for number, note in enumerate(notes, start=1):
        zone.land(number, [(number, note, 0)])


@pytest.mark.parametrize("files", [1, 3, 5])
@pytest.mark.parametrize("first", ["old", "new"], ids=["same first file", "other first file"])
def test_its_files_are_all_applied_to_a_new_delta_table(zone: SmallZone, files: int, first: str) -> None:
    begin(zone, 1)
    land(zone, "old", "old", "old")
    assert zone.advance(MirrorLimits()).file_number == 3
    begin(zone, 1)
    notes = [first, *["new"] * (files - 1)]
    land(zone, *notes)
    report = zone.advance(MirrorLimits())
    assert (report.generation, report.file_number, report.state) == (2, files, MirrorState.IN_STEP)
    assert report.owner == FolderOwner(INSTALLATION, 1)
    assert zone.rows() == noted(*enumerate(notes, start=1))
    assert zone.inspect().generation == 2


def test_a_later_generation_of_the_gateway_is_not_mistaken_for_it(zone: SmallZone) -> None:
    """After a new registration, the mirror counts one more than the gateway until the gateway is ahead again."""
    for generation, expected in ((1, 1), (1, 2), (2, 3), (3, 4), (9, 9), (1, 10)):
        begin(zone, generation)
        land(zone, f"{generation} of {expected}")
        assert zone.advance(MirrorLimits()).generation == expected
        assert zone.rows() == noted((1, f"{generation} of {expected}"))


def test_a_process_that_died_when_it_had_moved_the_old_table_aside_changes_nothing(zone: SmallZone) -> None:
    begin(zone, 1)
    land(zone, "old")
    zone.advance()
    begin(zone, 1)
    land(zone, "new")
    Path(zone.target.uri(zone.table)).rename(zone.target.uri(zone.table, generation=1))
    report = zone.advance()
    assert (report.generation, report.file_number) == (2, 1)
    assert zone.rows() == noted((1, "new"))


def test_a_mirror_that_starts_late_has_the_generation_of_the_gateway(zone: SmallZone) -> None:
    begin(zone, 7)
    land(zone, "a")
    assert zone.advance().generation == 7


def test_a_stop_without_a_look_at_the_files_names_the_owner(zone: SmallZone) -> None:
    begin(zone, 1)
    (zone.folder / "_metadata.json").write_text("{")
    report = zone.advance()
    assert (report.code, report.owner) == (Code.LANDING_METADATA_UNREADABLE, FolderOwner(INSTALLATION, 1))
