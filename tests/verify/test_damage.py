"""Random damage of a clean zone: the checks never fail, and damage that changes what Fabric reads has a finding."""

import shutil
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate_zone.verify.codes import FindingCode
from tests.support import publishers
from tests.verify.runs import findings

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
