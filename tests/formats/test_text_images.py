"""Images read by Arrow: every column's text, exactly, or nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from app.formats.text_images import text_columns

NAMES = ["id", "a.b", "", "ä/\u2028"]
IMAGES = st.fixed_dictionaries({name: st.text(st.characters(codec="utf-8")) for name in NAMES})


@given(images=st.lists(IMAGES, min_size=1), escaped=st.booleans(), indent=st.sampled_from([None, 2]))
def test_columns_have_the_texts_of_the_images(images: list[dict[str, str]], escaped: bool, indent: int | None) -> None:
    raw = [Raw(json.dumps(image, ensure_ascii=escaped, indent=indent).encode()) for image in images]
    columns = text_columns(raw, NAMES)
    assert [column.to_pylist() for column in columns] == [[image[name] for image in images] for name in NAMES]


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
        b'{"id": "1", "name": "\x01"}',
        b"{}",
        b"null",
        b"[]",
        b'"id"',
        b"1",
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_image_that_is_not_whole_is_refused(image: bytes, place: int) -> None:
    images = [Raw(b'{"id": "1", "name": "a"}')] * 2
    images.insert(place, Raw(image))
    with pytest.raises(ValueError, match=r"."):
        text_columns(images, ["id", "name"])
