"""Footers of any bytes give facts or a finding, never another error."""

import io
from contextlib import suppress
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate_zone.verify.codes import FindingCode
from mirrorgate_zone.verify.file_reading import MAX_DEPTH, BrokenFile, read_footer, read_struct
from tests.verify.zones import rows


def written(table: pa.Table, **options: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


@cache
def sample() -> bytes:
    return written(rows(1, 2, 3), row_group_size=2)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_structure_or_a_value_error(content: bytes) -> None:
    with suppress(ValueError):
        assert isinstance(read_struct(content), dict)


@given(st.binary(max_size=100))
def test_any_bytes_between_the_magic_words_are_a_footer_or_a_broken_file(content: bytes) -> None:
    with suppress(BrokenFile):
        read_footer(io.BytesIO(b"PAR1" + content + len(content).to_bytes(4, "little") + b"PAR1"))


@given(st.data())
def test_a_mutated_footer_is_read_or_is_a_broken_file(data: st.DataObject) -> None:
    content = bytearray(sample())
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    places = st.integers(start, len(content) - 9)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4)):
        content[place] = value
    with suppress(BrokenFile):
        read_footer(io.BytesIO(bytes(content)))


def test_the_facts_are_those_that_arrow_reads() -> None:
    table = rows(1, 2, 3, marker=4).append_column("note", pa.array(["x" * 9, None, "y"], pa.large_string()))
    content = written(table, row_group_size=2, compression={"id": "gzip", "name": "zstd", "note": "none"})
    columns, footer = read_footer(io.BytesIO(content))
    metadata = pq.read_metadata(io.BytesIO(content))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    assert [(column.name, column.type) for column in columns] == [
        ("id", "long"),
        ("name", "string"),
        ("__rowMarker__", "integer"),
        ("note", "string"),
    ]
    assert footer.rows == metadata.num_rows
    assert [(group.rows, group.bytes) for group in footer.row_groups] == [
        (group.num_rows, group.total_byte_size) for group in groups
    ]
    assert footer.codecs == {group.column(position).compression for group in groups for position in range(4)}
    assert footer.marker_range == (4, 4)


def test_the_range_of_markers_covers_all_row_groups() -> None:
    markers = pa.array([0, 2, 1, 4], pa.int64())
    table = rows(1, 2, 3, 4, marker=None).append_column("__rowMarker__", markers)
    assert read_footer(io.BytesIO(written(table, row_group_size=2)))[1].marker_range == (0, 4)
    assert read_footer(io.BytesIO(written(table, write_statistics=False)))[1].marker_range is None


def test_a_structure_nested_too_deeply_is_rejected() -> None:
    with pytest.raises(ValueError, match="deeply"):
        read_struct(b"\x1c" * (MAX_DEPTH + 2))


def test_a_list_of_more_elements_than_bytes_is_rejected_at_once() -> None:
    with pytest.raises(ValueError, match="elements"):
        read_struct(b"\x19\xf5\xff\xff\xff\xff\x0f")


def test_a_footer_larger_than_the_limit_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorgate_zone.verify.file_reading.MAX_FOOTER_BYTES", 100)
    with pytest.raises(BrokenFile) as broken:
        read_footer(io.BytesIO(sample()))
    assert broken.value.code is FindingCode.NOT_CHECKED
