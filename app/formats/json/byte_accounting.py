"""Whether a body holds nothing but what was decoded of its messages.

Decoders keep the last of two keys with the same name, and skip those that they do not know. What is left out so
takes bytes: a body that has no more of them than its decoded keys need, blanks aside, holds nothing else.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from msgspec import UNSET, Raw

from app.errors import RejectedInput
from app.formats.json.duplicate_key_prefilter import has_suspicious_escape
from app.formats.json.duplicate_keys import check_duplicate_keys
from app.formats.json.nested_values import check_nested_values

_BREAK, _BLANK, _QUOTE = b'\n "'
_AROUND_KEY: Final = len('"":,')
_AROUND_MESSAGE: Final = len("{}") - len(",")
_AROUND_TEXT: Final = len('""')
_MAX_CACHED_OBJECTS: Final = 256
_MAX_CACHED_BYTES: Final = 2**14


def holds_nothing_else(body: bytes, names: Sequence[str], keys: Sequence[Sequence[Any]]) -> bool:
    """Whether all of this valid `body`, an array or lines, are its messages as they were decoded.

    `keys` has for each of `names` the values of all messages: Raw, within which nobody looks, or texts, or UNSET
    where there is none. False may be wrong: where a name or a text is written with escapes, or something stands
    before the array.
    """
    messages = len(keys[0])
    needed = messages * _AROUND_MESSAGE
    if body.startswith(b"["):
        needed += messages + 1
    for name, values in zip(names, keys, strict=True):
        given = [value for value in values if value is not UNSET]
        needed += len(given) * (len(name) + _AROUND_KEY)
        if isinstance(values[0], str):
            needed += sum(map(len, given)) + len(given) * _AROUND_TEXT
        else:
            needed += _without_blanks(b"".join(given))
    return _without_blanks(body) == needed


def names_stand_once(objects: Iterable[bytes]) -> bool:
    """Whether no member stands twice in any of these valid JSON objects. False may be wrong where one has escapes."""
    return all(
        _known_to_stand_once(written) if len(written) <= _MAX_CACHED_BYTES else _stand_once(written)
        for written in objects
    )


def are_texts(values: Sequence[Raw]) -> bool:
    """Whether all of these valid JSON values are texts, without escapes of U+0000 and surrogates."""
    lines = b"\n".join((b"", *values))  # no text has a break
    text = np.frombuffer(lines, np.uint8)
    first = text[np.flatnonzero(text == _BREAK) + 1]
    return len(first) == len(values) and bool((first == _QUOTE).all()) and not has_suspicious_escape(lines)


def _without_blanks(valid: bytes) -> int:
    """How many bytes are above the blank: in valid JSON no other byte is as low. Blanks in texts count as blanks."""
    return int(np.count_nonzero(np.frombuffer(valid, np.uint8) > _BLANK))


def _stand_once(written: bytes) -> bool:
    try:
        check_nested_values(written, 1)
        check_duplicate_keys(written)
    except RejectedInput:
        return False
    return b"\\" not in written


_known_to_stand_once = lru_cache(_MAX_CACHED_OBJECTS)(_stand_once)
"""A producer writes the same in nearly all of its bodies."""
