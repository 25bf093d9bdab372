"""Kafka records in a body: elements `{"key": …, "value": …}` around a message.

A message in Kafka can leave to the record's key what it does not say itself, such as the key of a deleted row. A
program that forwards records sends both as one element. A message that has these two keys itself is told apart by the
shape of `value`, and the parameter `keyed` decides where the shape does not (docs/formats.md, "Keyed elements").

Invariant: an element is a record as a whole or a message as a whole; no part of it is dropped.
"""

from typing import Any, Final

from msgspec import UNSET

from app.errors import Code, Problem, RejectedInput

VALUE_AT: Final = "/value"
"""JSON Pointer of the message inside a record."""

_KEYS: Final = frozenset({"key", "value"})


def split(index: int, element: Any, keyed: bool | None) -> tuple[Any, Any, str]:
    """Return key, message and the message's JSON Pointer; the key is UNSET for an element that is the message itself.

    `keyed` says what every element is: True a record, False a message. With None, an element is a record if it has
    exactly `key` and `value`, and `value` is an object or null. The key can be any JSON value.

    Raises RejectedInput `malformed_message` if `keyed` is True and the element has another shape.
    """
    if keyed is not False and is_record(element):
        return element["key"], element["value"], VALUE_AT
    if keyed:
        detail = "with keyed=true, a message must be an object of exactly `key` and `value`, an object or null"
        raise RejectedInput.of((Problem(Code.MALFORMED_MESSAGE, detail, index, ""),))
    return UNSET, element, ""


def is_record(element: Any) -> bool:
    """Tell whether an element has the shape of a record."""
    return (
        isinstance(element, dict)
        and element.keys() == _KEYS
        and (element["value"] is None or isinstance(element["value"], dict))
    )
