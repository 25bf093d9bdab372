"""Row images of plain values as columns: exactly the values that JSON has, or nothing."""

import json
from typing import Any, Final

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.model.change import SourceValue
from app.domain.rebuild import plain_values
from app.domain.rows.row_image import encode_images
from tests.domain.rebuild.test_rebuilt_rows import VALUES

PLAIN: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.sampled_from(["", "null", "true", "[", "]", ",", "é,€", "1", "a]", " a ", "{", " ,"]),
    st.text("ab,[]{}:'1 "),
)
ANY: Final = st.one_of(PLAIN, VALUES.filter(lambda value: value is None or isinstance(value, str)), st.text())
NESTED: Final = st.one_of(ANY, st.floats(allow_nan=False), st.lists(st.text("a")), st.dictionaries(st.text("a"), ANY))


def table_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    return st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(values, min_size=width, max_size=width), min_size=1, max_size=5)
    )


def as_written(value: SourceValue) -> str | None:
    return value if isinstance(value, str | None) else json.dumps(value)


@given(table_of(PLAIN))
def test_plain_values_are_columns_and_their_images_are_those_of_json(rows: list[list[Any]]) -> None:
    images = encode_images(rows)
    found = plain_values(images, len(rows[0]))
    assert found is not None
    by_row = [list(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]
    assert by_row == [[as_written(value) for value in row] for row in rows]
    assert found.are_texts.tolist() == [[isinstance(value, str | None) for value in row] for row in rows]
    assert found.images().to_pylist() == images


@given(table_of(NESTED), st.sampled_from([(",", ":"), (", ", ": "), (" ,", ":"), (",\t", ":")]), st.integers(0, 5))
@example([["a", "b"]], (" ,", ":"), 2)
@example([[1, "b"]], (" ,", ":"), 2)
@example([["a"], ["b", "c"]], (",", ":"), 1)
@example([["a", "b"], ["c"]], (",", ":"), 2)
@example([[{"a": "b"}]], (",", ":"), 1)
def test_columns_are_the_values_of_json_or_there_are_none(
    rows: list[list[Any]], separators: tuple[str, str], width: int
) -> None:
    images = [json.dumps(row, separators=separators, ensure_ascii=False).encode() for row in rows]
    found = plain_values(images, width)
    if found is not None:
        decoded = [msgspec.json.decode(image) for image in images]
        by_row = [list(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]
        read = [
            [value if is_text else msgspec.json.decode(value) for value, is_text in zip(*row, strict=True)]
            for row in zip(by_row, found.are_texts.tolist(), strict=True)
        ]
        assert read == decoded


def test_images_that_do_not_know_a_column_or_are_of_deleted_rows_are_not_plain() -> None:
    for image in (b'{"-1":2,"0":"a"}', b'{"-2":true,"-1":2,"0":"a","1":"b"}'):
        assert plain_values([image, b'["a","b"]'], 2) is None
        assert plain_values([b'["a","b"]', image], 2) is None
        assert plain_values([image], 2) is None
    assert plain_values([], 2) is None
