"""Images read by Arrow: the exact text of every column, or nothing."""

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from app.formats.json.json_to_columns import text_columns

NAMES = ["id", "a.b", "", "ä/\u2028"]
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0", max_codepoint=0xCFFF))
ORDERS = st.sampled_from([NAMES, NAMES[::-1], NAMES[2:] + NAMES[:2]])


@given(
    images=st.lists(st.fixed_dictionaries(dict.fromkeys(NAMES, TEXTS)), min_size=1),
    order=ORDERS,
    escaped=st.booleans(),
    indent=st.sampled_from([None, 2]),
    odd=st.none() | st.tuples(ORDERS, st.integers(0)),
)
def test_columns_have_the_texts_of_the_images(
    images: list[dict[str, str]],
    order: list[str],
    escaped: bool,
    indent: int | None,
    odd: tuple[list[str], int] | None,
) -> None:
    written = [{name: image[name] for name in order} for image in images]
    if odd:
        at = odd[1] % len(images)
        written[at] = {name: images[at][name] for name in odd[0]}
    raw = [Raw(json.dumps(image, ensure_ascii=escaped, indent=indent).encode()) for image in written]
    columns = text_columns(raw, NAMES)
    assert [column.to_pylist() for column in columns] == [[image[name] for image in images] for name in NAMES]


@pytest.mark.parametrize("layout", [{}, {"separators": (",", ":")}, {"indent": 1}])
def test_images_that_differ_in_their_values_alone_are_cut_at_their_quotes(layout: dict[str, Any]) -> None:
    images = [{"id": str(number), "name": "x" * number} for number in range(9)]
    raw = [Raw(json.dumps(image, **layout).encode()) for image in images]
    with patch("pyarrow.json.read_json", side_effect=AssertionError):
        names, ids = text_columns(raw, ["name", "id"])
    assert [{"id": key, "name": name} for key, name in zip(ids.to_pylist(), names.to_pylist(), strict=True)] == images


@pytest.mark.parametrize("value", [b"\\u0000", b"\\ud800", b"\\uD83D\\uDE00"])
def test_a_text_that_may_be_none_is_rejected(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        text_columns([Raw(b'{"id": "1", "name": "' + value + b'"}')], ["id", "name"])


@pytest.mark.parametrize(
    "image",
    [
        b'{"id": "1"}',
        b'{"id": "1", "name": "a", "other": "b"}',
        b'{"id": "1", "name": "a", "name": "a"}',
        b'{"id": "1", "name": null}',
        b'{"id": 1, "name": "a"}',
        b'{"id": "1", "name": true}',
        b'{"id": "1", "name": {"x": "a"}}',
        b'{"id": "1", "name": ["a"]}',
        b'{"id": "1", "other": "a"}',
        b'{"id": "1", "id": "a"}',
        b'{"id": "1", "name": "a", "id": 1}',
        b'{"id": "1", "name": ["a:", "b"]}',
        b'{"id": ["1", "name"], "id": "a"}',
        b"{}",
        b"null",
        b"[]",
        b'"id"',
        b"1",
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_image_that_is_not_whole_is_rejected(image: bytes, place: int) -> None:
    images = [Raw(b'{"id": "1", "name": "a"}')] * 2
    images.insert(place, Raw(image))
    with pytest.raises(ValueError, match=r"."):
        text_columns(images, ["id", "name"])
