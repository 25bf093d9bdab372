"""Row images of texts as columns: exactly the values that JSON has, or nothing."""

import json
from typing import Any, Final

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.rebuild.text_images import images_of_texts, text_columns
from app.domain.rows.row_image import encode_images

PLAIN: Final = st.one_of(
    st.none(), st.sampled_from(["", "null", "[", "]", ",", "é,€", "1", "a]"]), st.text("ab,[]{}:'1")
)
ANY: Final = st.one_of(
    PLAIN, st.text(), st.integers(), st.booleans(), st.floats(allow_nan=False), st.lists(st.text("a"))
)


def table_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    return st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(values, min_size=width, max_size=width), min_size=1, max_size=5)
    )


@given(table_of(PLAIN))
def test_texts_without_escapes_are_columns_and_their_images_are_those_of_json(rows: list[list[Any]]) -> None:
    images = encode_images(rows)
    columns = text_columns(images, len(rows[0]))
    assert columns is not None
    assert [list(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)] == rows
    assert images_of_texts(columns).to_pylist() == images


@given(table_of(ANY), st.sampled_from([(",", ":"), (", ", ": "), (" ,", ":"), (",\t", ":")]), st.integers(0, 5))
@example([["a", "b"]], (" ,", ":"), 2)
@example([["a"], ["b", "c"]], (",", ":"), 1)
@example([["a", "b"], ["c"]], (",", ":"), 2)
def test_columns_are_the_values_of_json_or_there_are_none(
    rows: list[list[Any]], separators: tuple[str, str], width: int
) -> None:
    images = [json.dumps(row, separators=separators, ensure_ascii=False).encode() for row in rows]
    columns = text_columns(images, width)
    if columns is not None:
        decoded = [msgspec.json.decode(image) for image in images]
        assert [list(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)] == decoded


def test_an_image_that_does_not_know_a_column_is_not_columns_of_texts() -> None:
    assert text_columns([b'{"-1":2,"0":"a"}', b'["a","b"]'], 2) is None
    assert text_columns([], 2) is None
