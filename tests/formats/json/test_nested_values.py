"""Nested lists and objects are counted before each of them takes memory and time."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.domain.model.change import InputLimits
from app.errors import Code
from app.formats.arcion.columnar import decode_columnar
from app.formats.arcion.messages import decode_arcion
from app.formats.json.texts import MAX_NESTED_VALUES, check_nested_values
from app.formats.replicate.messages import decode_replicate
from tests.support.rejections import rejected

TOO_MANY_LISTS = b"[" + b"[]," * (MAX_NESTED_VALUES + 9) + b"[]]"
LIMITS = InputLimits(messages=1, value_bytes=2**24)
ARCION = {"tableName": {"namespace": {"catalog": "c", "schema": "s"}, "name": "t"}, "opType": "I", "exists": {"a": "1"}}


def message(**members: Any) -> bytes:
    return json.dumps(ARCION | {"after": {"a": "1"}} | members).encode().replace(b'"many"', TOO_MANY_LISTS)


@pytest.mark.parametrize(
    ("decode", "body"),
    [
        (decode_arcion, message(cursor="many")),
        (decode_arcion, message(operationcount="many")),
        (decode_arcion, message(after={"a": "many"})),
        (decode_arcion, message(unknown="many")),
        (
            decode_replicate,
            b'{"data": {"ID": 1}, "headers": {"operation": "INSERT", "timestamp": ' + TOO_MANY_LISTS + b"}}",
        ),
    ],
)
def test_a_body_of_millions_of_empty_lists_is_rejected(decode: Callable[..., object], body: bytes) -> None:
    with rejected() as rejection:
        decode(body, limits=LIMITS)
    assert rejection.code is Code.TOO_MANY_NESTED_VALUES


def test_a_columnar_body_is_not_read_for_a_cursor_or_an_address_of_millions_of_lists() -> None:
    assert decode_columnar([message(cursor="many")]) == [None]
    assert decode_columnar([message(cursor={"position": 7})]) != [None]
    assert decode_columnar([message(tableName=ARCION["tableName"] | {"unknown": "many"})]) == [None]


def test_brackets_in_texts_do_not_count() -> None:
    text = json.dumps({"a": '"[{' * MAX_NESTED_VALUES}).encode()
    check_nested_values(text, 1)


def test_messages_may_have_the_objects_that_they_are_made_of() -> None:
    own = b"{{{{{{{{}}}}}}}}"
    check_nested_values(own * MAX_NESTED_VALUES, MAX_NESTED_VALUES)
    with rejected():
        check_nested_values(own * MAX_NESTED_VALUES, MAX_NESTED_VALUES // 2)
