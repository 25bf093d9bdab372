"""Landing files as Parquet: layout, codecs, row groups, and the identity in the footer."""

import errno
import hashlib
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.domain.model.landing_file import FileIdentity
from app.domain.model.table import BatchSequence, FileNumber, Generation
from app.domain.model.table_schema import TableSchema
from app.domain.rows.landing_rows import landing_rows
from app.landing import parquet_file
from app.landing.parquet_file import FileLayout, WrittenFile, dictionary_columns, read_identity, write_parquet
from app.settings import Compression
from tests.support.gateway_parts import inserts
from tests.support.samples.changes import delete
from tests.support.samples.schemas import schema_of

LAST = FileLayout(marker_first=False, compression="zstd")
IDS = schema_of({"id": "int64"}, ["id"])
EVERY_TYPE = schema_of(
    {
        "id": "int64",
        "flag": "boolean",
        "small": "int16",
        "medium": "int32",
        "single": "float32",
        "double": "float64",
        "total": "decimal(38,2)",
        "day": "date",
        "moment": "timestamp",
        "name": "string",
        "bytes": "binary",
        "document": "json",
    },
    ["id"],
)
FULL_ROW = {
    "id": 1,
    "flag": True,
    "small": 2,
    "medium": 3,
    "single": "1.5",
    "double": "2.5",
    "total": "9" * 36 + ".99",
    "day": "2024-02-29",
    "moment": "2024-02-29 01:02:03.123456+01:00",
    "name": "é",
    "bytes": "00ff",
    "document": "{}",
}


def identity(rows: int) -> FileIdentity:
    return FileIdentity("t", Generation(1), FileNumber(7), BatchSequence(3), BatchSequence(5), rows, "ab")


def ids(*keys: int) -> pa.RecordBatch:
    return landing_rows(inserts([{"id": key} for key in keys]), IDS).batch


def written(
    batches: list[pa.RecordBatch], schema: TableSchema = IDS, layout: FileLayout = LAST
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
    write_parquet(sink, IDS, [ids(1, 2)], identity(3), LAST)
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

    write_parquet(sink, IDS, batches(), identity(3), replace(LAST, row_group_rows=1))
    assert sizes == sorted(set(sizes))
