"""Elements of a key and a message are told apart from messages."""

from typing import Any

import pytest
from msgspec import UNSET

from app.errors import Code
from app.formats.json.texts import split
from tests.support.rejections import rejected

MESSAGE = {"data": {"ID": 1}, "headers": {"operation": "INSERT"}}


@pytest.mark.parametrize("keyed", [None, True])
@pytest.mark.parametrize("key", [None, 7, "7", {"ID": 1}, {"schema": None, "payload": {"ID": 1}}, [1, 2]])
@pytest.mark.parametrize("value", [MESSAGE, {}, None])
def test_an_object_of_key_and_value_is_a_record(key: Any, value: Any, keyed: bool | None) -> None:
    assert split(0, {"key": key, "value": value}, keyed) == (key, value, "/value")


NO_RECORDS = [
    MESSAGE,
    None,
    {},
    {"key": 1},
    {"value": MESSAGE},
    {"key": 1, "value": "a text"},
    {"key": 1, "value": 2},
    {"key": 1, "value": [MESSAGE]},
    {"key": 1, "value": MESSAGE, "headers": {}},
    {"Key": 1, "Value": MESSAGE},
    [1, MESSAGE],
    "key",
]


@pytest.mark.parametrize("element", NO_RECORDS)
def test_any_other_element_is_the_message_itself(element: Any) -> None:
    assert split(0, element, None) == (UNSET, element, "")


@pytest.mark.parametrize("element", [*NO_RECORDS, {"key": 1, "value": MESSAGE}, {"key": 1, "value": None}])
def test_keyed_false_reads_every_element_as_the_message_itself(element: Any) -> None:
    assert split(0, element, False) == (UNSET, element, "")


@pytest.mark.parametrize("element", NO_RECORDS)
def test_keyed_true_rejects_an_element_of_another_shape(element: Any) -> None:
    with rejected() as rejection:
        split(3, element, True)
    assert rejection.places == [(Code.MALFORMED_MESSAGE, 3, "", None)]
