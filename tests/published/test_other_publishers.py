"""Reading of zones as other publishers write them."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.landing.local_zone import LocalZone
from app.published.data_file import MAX_CHUNK_ROWS, read_chunks, read_rows
from app.published.table_files import PublishedTable, list_files
from app.published.table_metadata import TableMetadata, UnreadableFile, read_metadata
from tests.support import publishers

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


def test_other_separators_quotes_and_encodings_are_read(tmp_path: Path) -> None:
    publishers.semicolon_csv(tmp_path)
    assert [rows for rows, _ in read(tmp_path)] == [
        [{"id": 1, "customer": "M\u00fcller; Sohn"}],
        [{"id": 1, "customer": "M\u00fcller"}],
    ]


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
