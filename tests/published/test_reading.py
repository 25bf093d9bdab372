"""What is read of published tables: folders, files, metadata and delimited text."""

import gzip
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.landing.local_zone import LocalZone
from app.published.data_file import MAX_CHUNK_ROWS, LandedRows, read_chunks, read_rows, read_schema, unsnapped
from app.published.table_files import PublishedTable, list_files, list_tables
from app.published.table_metadata import (
    TableMetadata,
    UnreadableFile,
    UnreadableMetadata,
    parse_metadata,
    read_metadata,
)
from tests.support import publishers

ORDERS = PublishedTable(None, "orders", "orders")
KEYED = TableMetadata(("id",))


def write(root: Path, path: str, content: bytes | pa.Table) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        target.write_bytes(content)
    else:
        pq.write_table(content, target)


def rows_of(root: Path, name: str, metadata: TableMetadata = KEYED) -> LandedRows:
    listed = list_files(LocalZone(root), ORDERS)
    file = next(file for file in (*listed.numbered.values(), *listed.unnumbered) if file.name == name)
    return read_rows(LocalZone(root), file, metadata)


def numbered(number: int, ending: str = "parquet") -> str:
    return f"{number:020d}.{ending}"


def test_tables_are_the_folders_of_the_root_and_of_schema_folders(tmp_path: Path) -> None:
    for folder in ("orders", "sales.schema/line items", "_scratchPad/x", ".hidden", "odd.name", "sales.schema/_x"):
        (tmp_path / folder).mkdir(parents=True)
    write(tmp_path, "_partnerEvents.json", b"{}")
    write(tmp_path, "file.parquet", b"")
    found = list_tables(LocalZone(tmp_path))
    assert [(str(table), table.folder) for table in found] == [
        ("odd.name", "odd.name"),
        ("orders", "orders"),
        ("sales.line items", "sales.schema/line items"),
    ]
    assert [PublishedTable.at(table.folder) for table in found] == found


def test_files_are_listed_by_number_also_where_fabric_moved_them(tmp_path: Path) -> None:
    for path in (
        f"orders/{numbered(3)}",
        f"orders/_ProcessedFiles/{numbered(1)}",
        f"orders/_FilesReadyToDelete/{numbered(2)}",
        f"orders/_ProcessedFiles/{numbered(3)}",
        f"orders/{numbered(0)}",
        f"orders/_{numbered(9)}",
        "orders/4.parquet",
        "orders/_metadata.json",
        "orders/readme.md",
    ):
        write(tmp_path, path, b"")
    listed = list_files(LocalZone(tmp_path), ORDERS)
    assert [(number, file.path) for number, file in listed.numbered.items()] == [
        (1, f"orders/_ProcessedFiles/{numbered(1)}"),
        (2, f"orders/_FilesReadyToDelete/{numbered(2)}"),
        (3, f"orders/{numbered(3)}"),
    ]
    assert listed.last == 3
    assert [file.name for file in listed.unnumbered] == [numbered(0), "4.parquet"]
    assert [file.path for file in listed.repeated] == [f"orders/_ProcessedFiles/{numbered(3)}"]


def test_metadata_is_read_in_either_letter_case(tmp_path: Path) -> None:
    write(
        tmp_path,
        "orders/_metadata.json",
        b'\xef\xbb\xbf{"KeyColumns": ["A b", "c"], "IsUpsertDefaultRowMarker": "True", "FileFormat": "CSV"}',
    )
    found = read_metadata(LocalZone(tmp_path), ORDERS)
    assert (found.key_columns, found.upsert_by_default, found.is_delimited_text) == (("A b", "c"), True, True)


@pytest.mark.parametrize(
    ("declared", "is_text"),
    [
        ({}, False),
        ({"FileExtension": "csv"}, True),
        ({"SchemaDefinition": {"Columns": []}}, True),
        ({"SchemaDefinition": {"Columns": []}, "FileFormat": "Parquet"}, False),
        ({"FileExtension": ".parquet"}, False),
        ({"FileFormat": "DelimitedText"}, True),
    ],
    ids=str,
)
def test_file_format_defaults_to_csv_if_not_specified(declared: dict[str, object], is_text: bool) -> None:
    """Only where something else describes text: a table without any of it is Parquet."""
    assert parse_metadata("orders/_metadata.json", json.dumps(declared).encode()).is_delimited_text is is_text


TEXT: Final = b"id,at\n1,10:30:00\n2,\n"
TIMES: Final = TableMetadata(
    ("id",),
    raw={"schemadefinition": {"Columns": [{"Name": "id", "DataType": "Int64"}, {"Name": "at", "DataType": "ITime"}]}},
)


def snappy_block(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="snappy", asbytes=True))


def snappy_frames(data: bytes) -> bytes:
    block = bytes(4) + snappy_block(data)
    return b"\xff\x06\x00\x00sNaPpY" + b"\x00" + len(block).to_bytes(3, "little") + block


def hadoop_block(data: bytes) -> bytes:
    pieces = [snappy_block(data[:5]), snappy_block(data[5:])]
    return len(data).to_bytes(4, "big") + b"".join(len(piece).to_bytes(4, "big") + piece for piece in pieces)


@pytest.mark.parametrize("compress", [snappy_block, snappy_frames, hadoop_block])
def test_delimited_text_may_have_itime_and_be_compressed_with_snappy(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    write(tmp_path, f"orders/{numbered(1, 'csv.snappy')}", compress(TEXT))
    landed = rows_of(tmp_path, numbered(1, "csv.snappy"), TIMES)
    assert landed.columns.to_pylist() == [{"id": 1, "at": "10:30:00.000000"}, {"id": 2, "at": None}]


@given(st.binary(max_size=60))
def test_bytes_that_are_not_of_snappy_are_rejected(content: bytes) -> None:
    for start in (b"", b"\xff\x06\x00\x00sNaPpY", b"\0\0\0\x20"):
        try:
            unsnapped(start + content)
        except pa.ArrowInvalid:
            continue


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff", b'{"keyColumns": "id"}', b'{"keyColumns": ["id", "ID"]}', b"[" * 100_000],
    ids=["empty", "list", "cut", "not UTF-8", "text for a list", "a key twice", "deep"],
)
def test_unusable_metadata_is_named(content: bytes) -> None:
    with pytest.raises(UnreadableMetadata, match=r"orders/_metadata\.json"):
        parse_metadata("orders/_metadata.json", content)


def test_missing_metadata_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableMetadata, match="it is missing"):
        read_metadata(LocalZone(tmp_path), ORDERS)


@pytest.mark.parametrize("marker", ["__rowMarker__", "__ROWMARKER__"])
@pytest.mark.parametrize("position", [0, 1])
def test_markers_are_separated_wherever_they_are(tmp_path: Path, marker: str, position: int) -> None:
    rows = pa.table({"id": [1, 2]}).add_column(position, marker, pa.array([0, 4], pa.int8()))
    write(tmp_path, f"orders/{numbered(1)}", rows)
    found = rows_of(tmp_path, numbered(1))
    assert found.columns.column_names == ["id"]
    assert found.markers == pa.chunked_array([pa.array([0, 4], pa.int32())])


def test_a_file_without_markers_has_none(tmp_path: Path) -> None:
    write(tmp_path, f"orders/{numbered(1)}", pa.table({"id": [1, 2]}))
    assert rows_of(tmp_path, numbered(1)).markers is None


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (pa.table({"id": [1], "__rowMarker__": [3]}), "other than 0, 1, 2 and 4"),
        (pa.table({"id": [1], "__rowMarker__": pa.array([None], pa.int32())}), "have no value"),
        (pa.table({"id": [1], "__rowMarker__": ["x"]}), "not whole numbers"),
        (pa.table({"id": [1], "ID": [1]}), "two columns have one name"),
    ],
    ids=["unknown", "null", "text", "names"],
)
def test_unusable_columns_are_named(tmp_path: Path, rows: pa.Table, reason: str) -> None:
    write(tmp_path, f"orders/{numbered(1)}", rows)
    with pytest.raises(UnreadableFile, match=reason):
        rows_of(tmp_path, numbered(1))


@pytest.mark.parametrize(("names", "step", "flipped"), [(["id", "text"], 41, 0xFF), (["text"], 5, 0x01)])
def test_every_damage_of_a_file_is_named_or_changes_no_row(
    tmp_path: Path, names: list[str], step: int, flipped: int
) -> None:
    rows = pa.table({"id": list(range(50)), "text": [f"text {n}" for n in range(50)]}).select(names)
    path = f"orders/{numbered(1)}"
    pq_path = tmp_path / path
    pq_path.parent.mkdir()
    pq.write_table(rows, pq_path, write_page_checksum=True, use_dictionary=False)
    whole = pq_path.read_bytes()
    damaged = [whole[:cut] for cut in range(0, len(whole), 41)]
    damaged += [whole[:at] + bytes([whole[at] ^ flipped]) + whole[at + 1 :] for at in range(0, len(whole), step)]
    for content in damaged:
        pq_path.write_bytes(content)
        try:
            found = rows_of(tmp_path, numbered(1))
        except UnreadableFile as error:
            assert error.path == path
        else:
            assert found.columns.num_rows == 50


def csv_metadata(**described: Any) -> TableMetadata:
    text = json.dumps({"keyColumns": ["id"], "fileFormat": "csv", **described})
    return parse_metadata("orders/_metadata.json", text.encode())


def test_delimited_text_is_text_unless_the_metadata_declares_types(tmp_path: Path) -> None:
    write(tmp_path, f"orders/{numbered(1, 'csv')}", b'id,note,__rowMarker__\n1,"a,\nb",0\n2,"",2\n')
    found = rows_of(tmp_path, numbered(1, "csv"), csv_metadata())
    assert found.columns.to_pylist() == [{"id": "1", "note": "a,\nb"}, {"id": "2", "note": ""}]
    assert found.markers is not None and found.markers.to_pylist() == [0, 2]
    declared = {"Columns": [{"Name": "ID", "DataType": "Int64"}, {"Name": "note", "DataType": "String"}]}
    typed = rows_of(tmp_path, numbered(1, "csv"), csv_metadata(SchemaDefinition=declared))
    assert typed.columns.schema.field("id").type == pa.int64()


def test_delimited_text_is_read_as_its_properties_say(tmp_path: Path) -> None:
    content = gzip.compress("7;'x';N/A\n".encode("utf-16"))
    write(tmp_path, f"orders/{numbered(1, 'csv.gz')}", content)
    metadata = csv_metadata(
        fileFormatTypeProperties={
            "FirstRowAsHeader": False,
            "ColumnSeparator": ";",
            "QuoteCharacter": "'",
            "NullValue": "N/A",
            "Encoding": "utf-16",
        },
        schemaDefinition={"columns": [{"name": "id", "dataType": "Int32"}, {"name": "A"}, {"name": "B"}]},
    )
    assert rows_of(tmp_path, numbered(1, "csv.gz"), metadata).columns.to_pylist() == [{"id": 7, "A": "x", "B": None}]


def test_delimited_text_that_does_not_fit_is_named(tmp_path: Path) -> None:
    write(tmp_path, f"orders/{numbered(1, 'csv')}", b"id,note\n1\n")
    with pytest.raises(UnreadableFile):
        rows_of(tmp_path, numbered(1, "csv"), csv_metadata())


def test_the_schema_is_that_of_the_data_files_with_the_marker_column(tmp_path: Path) -> None:
    write(tmp_path, f"orders/{numbered(1)}", pa.table({"id": [1], "__rowMarker__": [0]}))
    file = list_files(LocalZone(tmp_path), ORDERS).numbered[1]
    assert read_schema(LocalZone(tmp_path), file, KEYED).names == ["id", "__rowMarker__"]


TABLE = PublishedTable(None, publishers.NAME, publishers.NAME)


def read(root: Path) -> list[tuple[list[dict[str, Any]], list[int] | None]]:
    zone = LocalZone(root)
    metadata = read_metadata(zone, TABLE)
    files = [read_rows(zone, file, metadata) for file in list_files(zone, TABLE).numbered.values()]
    return [(file.columns.to_pylist(), None if file.markers is None else file.markers.to_pylist()) for file in files]


def test_text_as_documented_has_its_types_and_nulls(tmp_path: Path) -> None:
    publishers.documented_csv(tmp_path)
    first, second = read(tmp_path)
    assert first == (
        [
            {"id": 1, "customer": "a, b", "amount": 1.5, "changed_at": datetime(2025, 6, 17, 14, 30)},
            {"id": 2, "customer": None, "amount": 2.0, "changed_at": None},
        ],
        [0, 0],
    )
    assert second[1] == [1, 2]


def test_doubled_quotes_are_one_quote(tmp_path: Path) -> None:
    publishers.camel_case_csv(tmp_path)
    assert read(tmp_path)[0] == ([{"Id": "1", "Name": 'a "b"'}, {"Id": "2", "Name": "c"}], [4, 4])


def test_the_documented_escape_character_needs_no_declaration(tmp_path: Path) -> None:
    folder = tmp_path / TABLE.folder
    columns = [{"Name": "id", "DataType": "Int32"}, {"Name": "day", "DataType": "IDate"}]
    columns += [{"Name": "note", "DataType": "String"}, {"Name": "raw", "DataType": "ByteArray"}]
    publishers.write_metadata(
        folder,
        "id",
        SchemaDefinition={"Columns": columns},
        FileExtension="tsv",
        FileFormat="DelimitedText",
        FileFormatTypeProperties={"ColumnSeparator": "\\t"},
    )
    (folder / f"{1:020}.tsv").write_text('id\tday\tnote\traw\n7\t2025-06-17\t"a \\"b\\""\tx\n')
    ((rows, markers),) = read(tmp_path)
    assert rows == [{"id": 7, "day": datetime(2025, 6, 17).date(), "note": 'a "b"', "raw": b"x"}]
    assert markers is None


@pytest.mark.parametrize("publisher", [publishers.clean_zone, publishers.documented_csv])
def test_chunks_are_the_file(publisher: Callable[[Path], Path], tmp_path: Path) -> None:
    publisher(tmp_path)
    zone = LocalZone(tmp_path)
    metadata = read_metadata(zone, TABLE)
    for file in list_files(zone, TABLE).numbered.values():
        chunks = pa.concat_tables(read_chunks(zone, file, metadata))
        assert chunks.drop_columns("__rowMarker__").equals(read_rows(zone, file, metadata).columns)


def test_a_large_file_is_read_in_chunks_and_its_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / TABLE.folder / publishers.parquet_name(1)
    path.parent.mkdir()
    rows = MAX_CHUNK_ROWS + 1
    pq.write_table(pa.table({"id": range(rows)}), path, row_group_size=rows // 2, write_page_checksum=True)
    zone = LocalZone(tmp_path)
    (file,) = list_files(zone, TABLE).numbered.values()
    assert sum(chunk.num_rows for chunk in read_chunks(zone, file, TableMetadata(("id",)))) == rows
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 4] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(UnreadableFile):
        list(read_chunks(zone, file, TableMetadata(("id",))))
