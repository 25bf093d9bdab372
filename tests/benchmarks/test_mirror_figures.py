"""What the figures of the mirror measure: landing files that the mirror takes, and plain appends of the same rows."""

import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from app.landing.open_zone import ZoneAddress, open_zone
from app.published.table_files import list_tables
from app.published.table_metadata import read_metadata
from benchmarks.bench import Bench
from benchmarks.figures.mirror import mirror_freshness
from benchmarks.machine.processes import run_to_end
from benchmarks.mirroring.fold_process import Folded
from benchmarks.mirroring.landing_files import (
    DELETE,
    UPSERT,
    changes,
    inserts,
    make_table,
    publish,
    read_files,
    without_marker,
    write_file,
)
from benchmarks.mirroring.plain_append import append_seconds

COMMAND = [sys.executable, "-m", "benchmarks.mirroring.fold_process"]


def test_the_table_folder_is_one_that_the_mirror_reads(tmp_path: Path) -> None:
    make_table(tmp_path / "t")
    zone = open_zone(ZoneAddress(str(tmp_path)))
    [table] = list_tables(zone)
    assert read_metadata(zone, table).key_columns == ("column_00",)


def test_changes_are_upserts_and_some_deletes_of_the_given_keys() -> None:
    found = changes(1, 10_000, 100)
    assert found == changes(1, 10_000, 100)
    assert len(set(found.column("column_00").to_pylist())) == 100
    markers = found.column("__rowMarker__").to_pylist()
    assert set(markers) == {UPSERT, DELETE}
    assert 300 < markers.count(DELETE) < 700


def test_all_files_are_applied_and_the_last_change_of_each_key_counts(tmp_path: Path) -> None:
    made = make_table(tmp_path / "zone" / "t")
    files = [inserts(0, 100), changes(1, 200, 100), changes(2, 200, 100)]
    for number, rows in enumerate(files, 1):
        write_file(made, number, rows)
    output = run_to_end("fold", [*COMMAND, str(tmp_path / "zone"), str(tmp_path / "delta")])
    folded = msgspec.json.decode(output, type=Folded)
    assert folded.commits == 1
    assert 0 < folded.idle_megabytes <= folded.peak_megabytes
    live = {}
    for row in pa.concat_tables(files).to_pylist():
        live[row["column_00"]] = row.pop("__rowMarker__") != DELETE
    mirrored = DeltaTable(str(tmp_path / "delta" / "t")).to_pyarrow_table()
    assert sorted(mirrored.column("column_00").to_pylist()) == sorted(key for key, is_live in live.items() if is_live)


def test_a_plain_append_holds_the_rows_of_the_files(tmp_path: Path) -> None:
    made = make_table(tmp_path / "t")
    for number in (1, 2):
        write_file(made, number, inserts(100 * number, 100))
    assert append_seconds(tmp_path / "plain", read_files(made)) > 0
    appended = DeltaTable(str(tmp_path / "plain")).to_pyarrow_table().sort_by("column_00")
    assert appended.cast(inserts(0, 0).schema.remove(16)) == without_marker(inserts(100, 200))


def test_a_published_file_is_visible_under_its_number_and_nothing_else(tmp_path: Path) -> None:
    table, source = make_table(tmp_path / "zone" / "t"), make_table(tmp_path / "source")
    publish(write_file(source, 7, inserts(0, 1)), table, 7)
    assert sorted(path.name for path in table.iterdir()) == [f"{7:020}.parquet", "_metadata.json"]
    assert [path.name for path in (tmp_path / "zone").iterdir()] == ["t"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.thorough
def test_freshness_is_measured_with_the_real_mirror(tmp_path: Path) -> None:
    [figure] = mirror_freshness.measure(Bench(1, 1.0, 0.01, tmp_path, lambda _: None))
    assert 0 < figure.value.median < 60_000
    assert figure.limit is not None
    assert not any(tmp_path.iterdir())
