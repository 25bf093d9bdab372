"""Where mirrored tables are, and how their names are found again."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from app.mirror.target import MirrorTarget, table_name, table_path
from app.published.table_files import PublishedTable

NAMES = st.text(st.characters(exclude_characters="/.\x00", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.none() | NAMES, NAMES)
def test_every_name_is_found_again(schema: str | None, name: str) -> None:
    table = PublishedTable(schema, name, "")
    assert table_name(table_path(table)) == str(table)


@pytest.mark.parametrize("name", ["orders", "my orders", "a@b", "Größe", "a;b,c=d", "x-y_z", "(1)", "a@g", "a&b+c"])
def test_common_names_are_folders_as_they_are(name: str) -> None:
    assert table_path(PublishedTable("Sales", name, "")) == f"Sales/{name}"


@pytest.mark.parametrize(
    "name", ["a#b", "a?b", "a[1]", "a^b", "a|b", "a%20b", "a\\b", "~", "t@g1", "a b", "😀", "a\tb"]
)
def test_a_table_of_any_name_keeps_its_history(tmp_path: Path, name: str) -> None:
    target = MirrorTarget(str(tmp_path))
    table = PublishedTable("s [x]", name, "")
    for _ in range(2):
        write_deltalake(target.uri(table), pa.table({"x": [1]}), mode="append")
    opened = target.open(str(table))
    assert opened is not None
    assert len(opened.history()) == 2
    assert opened.to_pyarrow_dataset().count_rows() == 2
    assert target.tables() == [str(table)]


def test_a_name_with_a_dot_is_found_with_and_without_a_schema(tmp_path: Path) -> None:
    target = MirrorTarget(str(tmp_path))
    assert target.open("a.b") is None
    write_deltalake(target.uri(PublishedTable(None, "a.b", "a.b")), pa.table({"x": [1]}))
    assert target.open("a.b") is not None


def test_kept_generations_are_numbered(tmp_path: Path) -> None:
    target = MirrorTarget(str(tmp_path))
    table = PublishedTable(None, "t[1]", "t[1]")
    for generation in (1, 3):
        write_deltalake(target.uri(table, generation=generation), pa.table({"x": [1]}))
    write_deltalake(target.uri(PublishedTable(None, "t[1]@g9", "")), pa.table({"x": [1]}))
    assert target.kept_generations(table) == [1, 3]
    assert target.open("t[1]@g3") is not None
