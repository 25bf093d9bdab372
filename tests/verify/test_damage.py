"""Random damage of a clean zone, and footers of any bytes: findings, never another error."""

import io
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate_zone.verify.codes import FindingCode
from mirrorgate_zone.verify.file_reading import MAX_DEPTH, BrokenFile, read_footer, read_struct
from tests.support import publishers
from tests.verify.runs import findings
from tests.verify.zones import rows

FILES: Final = 4
FAILED: Final = {FindingCode.CHECK_FAILED, FindingCode.CANNOT_READ}

Damage = Callable[[Path, int, int], bool]
"""Damages a table folder by a number that chooses the file and another one for the place. Return whether it matters."""


def data_file(folder: Path, choice: int) -> Path:
    return folder / publishers.parquet_name(choice % FILES + 1)


def of_a_file(damage: Callable[[Path, int], bool]) -> Damage:
    """Return the damage of one data file, which earlier damage may have taken away."""

    @wraps(damage)
    def chosen(folder: Path, choice: int, place: int) -> bool:
        path = data_file(folder, choice)
        return path.is_file() and damage(path, place)

    return chosen


@of_a_file
def truncate(path: Path, place: int) -> bool:
    content = path.read_bytes()
    path.write_bytes(content[: place % max(1, len(content))])
    return content != b""


@of_a_file
def drop(path: Path, place: int) -> bool:
    path.unlink()
    return path.name != publishers.parquet_name(FILES)  # without its last file, a zone is as it was a moment before


@of_a_file
def rename(path: Path, place: int) -> bool:
    others = [publishers.parquet_name(number) for number in (FILES + 2, 0)]
    names = ["1.parquet", "x.parquet", f"{1:020}.csv", *others, "a b", "\udcff.parquet"]
    path.rename(path.with_name(names[place % len(names)]))
    return True


def swap(folder: Path, choice: int, place: int) -> bool:
    one, other = data_file(folder, choice), data_file(folder, place)
    if one.is_file() and other.is_file() and one != other:
        one.rename(folder / "_aside")
        other.rename(one)
        (folder / "_aside").rename(other)
    return False  # nothing tells another order from a publisher that meant it


def flip(folder: Path, choice: int, place: int) -> bool:
    path = [*(data_file(folder, number) for number in range(FILES)), folder / "_metadata.json"][choice % (FILES + 1)]
    content = bytearray(path.read_bytes()) if path.is_file() else bytearray()
    if not content:
        return False
    content[place % len(content)] ^= 1 << (place // 7 % 8)
    path.write_bytes(content)
    return False


@of_a_file
def replace_by_folder(path: Path, place: int) -> bool:
    path.unlink()
    path.mkdir()
    return True


@of_a_file
def append_garbage(path: Path, place: int) -> bool:
    with path.open("ab") as file:
        file.write(bytes([place % 251]) * (place % 50 + 1))
    return True


DAMAGE: Final = (truncate, drop, rename, swap, flip, replace_by_folder, append_garbage)
NUMBERS: Final = st.integers(0, 2**20)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean zone whose pages have checksums, so that no flipped bit changes a value, without Arrow's own schema."""
    root = tmp_path_factory.mktemp("clean") / "zone"
    folder = publishers.clean_zone(root)
    for path in folder.glob("*.parquet"):
        rows = pq.read_table(path)
        pq.write_table(rows, path, compression="zstd", store_schema=False, write_page_checksum=True)
    return root


def damaged(clean: Path, damage: list[tuple[Damage, int, int]]) -> tuple[set[FindingCode], list[bool], bool]:
    """Return the codes of a damaged copy, whether each damage matters, and whether the files are as before."""
    with TemporaryDirectory() as place:
        root = Path(place) / "zone"
        shutil.copytree(clean, root)
        matters = [one(root / publishers.NAME, choice, position) for one, choice, position in damage]
        return {finding.code for finding in findings(root)}, matters, _content(root) == _content(clean)


def _content(root: Path) -> list[object]:
    """Return all rows and the metadata of a zone; an object equal to nothing for what cannot be read."""
    folder = root / publishers.NAME
    found: list[object] = [(folder / "_metadata.json").read_bytes()]
    for number in range(1, FILES + 1):
        try:
            table = pq.read_table(folder / publishers.parquet_name(number))
            found.append((table.column_names, table.replace_schema_metadata()))
        except (OSError, ValueError, NotImplementedError, UnicodeDecodeError):
            found.append(object())
    return found


@given(damage=st.tuples(st.sampled_from(DAMAGE), NUMBERS, NUMBERS))
def test_damage_that_matters_has_a_finding(clean: Path, damage: tuple[Damage, int, int]) -> None:
    found, matters, _ = damaged(clean, [damage])
    assert not found & FAILED
    assert found or not any(matters)


@given(choice=NUMBERS, place=NUMBERS)
def test_a_flipped_bit_changes_nothing_or_has_a_finding(clean: Path, choice: int, place: int) -> None:
    found, _, same = damaged(clean, [(flip, choice, place)])
    assert not found & FAILED
    assert found or same


@given(damage=st.lists(st.tuples(st.sampled_from(DAMAGE), NUMBERS, NUMBERS), min_size=2, max_size=6))
def test_much_damage_fails_no_check(clean: Path, damage: list[tuple[Damage, int, int]]) -> None:
    found, _, _ = damaged(clean, damage)
    assert not found & FAILED


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
