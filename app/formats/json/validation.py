"""Converts decoded JSON values to msgspec types, and finds what a validation message of msgspec is about.

msgspec names the path of a wrong value, but leaves the key of a mapping open as `[...]`. The key is then found by
validating each one alone.

Invariant: no text from here holds a value.
"""

import re
from collections.abc import Callable, Sequence
from functools import reduce
from operator import getitem
from typing import Any, Final, TypeVar

import msgspec

from app.domain.model.written_number import as_json
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to

Converted = TypeVar("Converted")

_PATH: Final = re.compile(r" - at `(?:key in )?\$?([^`]*)`")
_SOME_KEY: Final = "[...]"
_MAX_BYTES_TRIED: Final = 2**20
"""Bytes validated to find the JSON key that a rejection is about."""

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_json)


def convert(value: Any, wanted: type[Converted], index: int, at: str) -> Converted:
    """Return a decoded value as this type; fractions are Decimal.

    Raises RejectedInput `malformed_message` with the pointer of what is wrong, below `at`.
    """
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        message = str(error)
    pointer, reason = where(message)
    if _SOME_KEY in message:
        size = len(_ENCODER.encode(value))
        pointer = open_key(value, size, message, lambda one: _validation_error(one, wanted)) or pointer
    raise RejectedInput.of((Problem(Code.MALFORMED_MESSAGE, reason, index, at + pointer),))


def where(message: str) -> tuple[str, str]:
    """Return pointer and reason of a validation message such as "Expected `str`, got `int` - at `$.opType`"."""
    match = _PATH.search(message)
    if match is None:
        return "", message
    return match[1].replace(_SOME_KEY, "").replace(".", "/"), message[: match.start()]


def open_key(whole: Any, size: int, message: str, validation_error: Callable[[Any], str | None]) -> str | None:
    """Return the pointer of the key that a validation message leaves open.

    `validation_error` validates the value, of `size` bytes, again with one key of the open mapping alone. None where
    the message names the whole path, or where there are too many bytes and keys to try.
    """
    path = _PATH.search(message)
    before, some, behind = path[1].partition(_SOME_KEY) if path else ("", "", "")
    if not (before and some):
        return None
    steps = before.removeprefix(".").split(".")
    try:
        values = reduce(getitem, steps, whole)
    except (KeyError, TypeError):
        return None  # a step of the path is an element of a list: the message names the path alone
    if not isinstance(values, dict) or len(values) * size > _MAX_BYTES_TRIED:
        return None
    for name, value in values.items():
        if validation_error(_with(whole, steps, {name: value})) == message:
            rest = behind.replace(_SOME_KEY, "").replace(".", "/")
            return pointer_to(before.replace(".", "/"), name) + rest
    return None


def _with(whole: Any, steps: Sequence[str], value: Any) -> Any:
    """Return a copy of nested objects with another value at the end of the steps."""
    return {**whole, steps[0]: _with(whole[steps[0]], steps[1:], value)} if steps else value


def _validation_error(value: Any, wanted: Any) -> str | None:
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        return str(error)
    return None
