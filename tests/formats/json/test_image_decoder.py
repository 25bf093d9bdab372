"""Images of one table become tuples by column, and what an image hides is noticed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from app.formats.json.quote_accounting import ImageDecoder

COLUMNS = ("id", "é x", "c")
DECODER = ImageDecoder(COLUMNS, str)
IMAGES = st.fixed_dictionaries({}, optional=dict.fromkeys(COLUMNS, st.text(max_size=5)))


@given(images=st.lists(IMAGES, min_size=1, max_size=5), escaped=st.booleans())
def test_values_are_in_the_order_of_the_columns(images: list[dict[str, str]], *, escaped: bool) -> None:
    written = [Raw(json.dumps(image, ensure_ascii=escaped).encode()) for image in images]
    if any("\\u0000" in json.dumps(image) or (escaped and "\\ud" in json.dumps(image)) for image in images):
        with pytest.raises(ValueError, match=r"U\+0000"):
            DECODER.decode(written)
        return
    rows, is_full = DECODER.decode(written)
    assert rows == [tuple(image.get(name, UNSET) for name in COLUMNS) for image in images]
    assert is_full is all(len(image) == len(COLUMNS) for image in images)


@pytest.mark.parametrize(
    "image",
    ['{"id": "1", "id": "1"}', '{"id": "1", "other": "2"}', '{"id": 1}', '{"id": null}', "[]", '{"id": "\\u0000"}'],
)
def test_what_an_image_must_not_have_is_an_error(image: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        DECODER.decode([Raw(b'{"c": "1"}'), Raw(image.encode())])


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_names_that_msgspec_cannot_take_are_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="Renamed"):
        ImageDecoder([name], str)
