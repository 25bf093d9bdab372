"""Rows and messages as lines of JSON: nothing lands as NULL or in two lines by accident."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate.errors import Code, RejectedInput
from mirrorgate.writer.change_writer import as_row, encode_change, encode_row

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@dataclass
class Order:
    id: int
    total: Decimal


@given(row=st.dictionaries(TEXTS, VALUES.filter(lambda value: value not in (float("inf"), float("-inf")))))
def test_a_row_is_one_line_of_the_same_json(row: dict[str, Any]) -> None:
    body = as_row(encode_row(row), "delete")
    assert b"\n" not in body
    assert json.loads(body) == {"__op__": "delete", **row}


@pytest.mark.parametrize(
    ("row", "body"),
    [
        (Order(1, Decimal("9.90")), b'{"id":1,"total":"9.90"}'),
        ({"at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}, b'{"at":"2026-01-02T03:04:05Z"}'),
        ({"day": date(2026, 1, 2), "raw": b"i\xb7\x1d"}, rb'{"day":"2026-01-02","raw":"\\x69b71d"}'),
        ({"raw": memoryview(b""), "all": [b"ab"]}, rb'{"raw":"\\x","all":["YWI="]}'),
        (Order(1, bytearray(b"\xff")), rb'{"id":1,"total":"\\xff"}'),  # type: ignore[arg-type]  # as a program without types does it
        ({"id": UUID(int=1), "n": None}, b'{"id":"00000000-0000-0000-0000-000000000001","n":null}'),
        ({"n": 2**70}, b'{"n":1180591620717411303424}'),
        (MappingProxyType({"n": 1, "raw": b"i"}), rb'{"n":1,"raw":"\\x69"}'),
    ],
)
def test_values_that_json_lacks_become_texts(row: Any, body: bytes) -> None:
    assert encode_row(row) == body


@pytest.mark.parametrize(
    "row",
    [
        {"x": float("nan")},
        {"x": [1.0, float("inf")], "y": None},
        Order(1, float("nan")),  # type: ignore[arg-type]  # as a program without types does it
        {"x": object()},
        {"x": "\ud800"},
        {"x": CYCLE},
    ],
)
def test_a_value_that_cannot_be_written_is_rejected_and_not_shown(row: Any) -> None:
    with pytest.raises(RejectedInput, match=Code.MALFORMED_MESSAGE) as rejected:
        encode_row(row)
    assert "ud800" not in rejected.value.detail


@pytest.mark.parametrize("body", [b"[1]", b"1", b'"x"', b""])
def test_a_row_is_an_object(body: bytes) -> None:
    with pytest.raises(RejectedInput):
        as_row(body, None)


def test_a_message_stays_as_it_was_written_but_for_line_ends() -> None:
    assert encode_change('{"a": 1.50}') == b'{"a": 1.50}'
    assert encode_change(b'{"a": 1.50,\r\n "b": 123456789012345678901234567890}\n') == (
        b'{"a":1.50,"b":123456789012345678901234567890}'
    )
    assert encode_change({"a": None}) == b'{"a":null}'
    assert encode_change(b' {"a": "\\n"} ') == b'{"a": "\\n"}'


@pytest.mark.parametrize(
    "message", [b"{\n", b"{}{}", b"{} 1", b'{"a": "x\ny"}', b'{"a": "\xff"}', '{"a": "\ud800"}', b"", b"x"]
)
def test_a_message_that_is_not_one_value_is_rejected(message: bytes | str) -> None:
    with pytest.raises(RejectedInput, match=Code.MALFORMED_MESSAGE):
        encode_change(message)
