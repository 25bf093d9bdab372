"""Quote accounting holds exactly when nothing of a document was dropped."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formats.json.quote_accounting import (
    are_opaque,
    count_quotes,
    count_structural_quotes,
    is_all_decoded,
    is_all_read,
)

TEXTS = st.text(st.sampled_from('a"\\/:{é\u2028\n'), max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FILLER = "x" * 5_000


@given(value=VALUES, escaped=st.booleans(), indent=st.none() | st.integers(0, 2), filler=st.sampled_from(["", FILLER]))
def test_a_document_consists_of_what_it_decodes_to(
    value: Any, *, escaped: bool, indent: int | None, filler: str
) -> None:
    document = json.dumps([value, filler], ensure_ascii=escaped, indent=indent).encode()
    assert is_all_read(document, [msgspec.json.decode(document)])


@given(value=st.dictionaries(TEXTS, VALUES, min_size=1), other=VALUES, filler=st.sampled_from(["", FILLER]))
def test_a_key_that_is_there_twice_is_noticed(value: dict[str, Any], other: Any, filler: str) -> None:
    repeated = f"{json.dumps(next(iter(value)))}: {json.dumps(other)}"
    document = f"[{json.dumps(value)[:-1]}, {repeated}}}, {json.dumps(filler)}]".encode()
    assert not is_all_read(document, [msgspec.json.decode(document)])


@given(text=TEXTS, filler=st.sampled_from(["", FILLER]))
def test_escaped_quotes_are_not_structural(text: str, filler: str) -> None:
    document = json.dumps([text, filler]).encode()
    assert count_structural_quotes(document) == 4
    assert count_quotes(document) == document.count(b'"')


@pytest.mark.parametrize(
    ("value", "is_opaque"),
    [
        ('"text"', True),
        ("null", True),
        ('{"position": "1:2"}', True),
        ('{"a": 1, "a": 2}', False),
        ('"\\u0000"', False),
        ('{"a": "\\ud800"}', False),
        ("[" * 20 + "]" * 20, False),
        (json.dumps({"a": "x" * 2**16}), False),
    ],
)
def test_an_opaque_value_must_hide_nothing(value: str, *, is_opaque: bool) -> None:
    assert are_opaque([msgspec.Raw(value.encode())], msgspec.json.decode) is is_opaque


@pytest.mark.parametrize("offset", range(-7, 3))
def test_u0000_is_found_wherever_slices_of_a_long_document_begin(offset: int) -> None:
    before = 2**20 - len('["') + offset
    document = f'["{"x" * before}\\u0000{"y" * 9_000}\\n"]'.encode()
    assert not is_all_decoded(document, document)
    assert is_all_decoded(document.replace(b"u0000", b"u0001"), document.replace(b"u0000", b"u0001"))
