"""Byte accounting: proves that every byte of a body belongs to a decoded value.

msgspec keeps the last of two equal keys and skips unknown ones. What it drops takes bytes, so a body with no more
bytes above whitespace than its decoded keys and values need holds nothing else.

Invariant: a True answer is certain; a False answer can be wrong and costs an exact check.
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
    """Tell whether a valid `body`, an array or lines, consists of its decoded messages only.

    `keys` has the values of all messages for each of `names`: Raw (whose inside is not checked), texts, or UNSET where
    there is none. False can be wrong: if a name or a text has escapes, or if something precedes the array.
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
    """Tell whether none of these valid JSON objects has a key twice. False can be wrong for an object with escapes."""
    return all(
        _known_to_stand_once(written) if len(written) <= _MAX_CACHED_BYTES else _stand_once(written)
        for written in objects
    )


def are_texts(values: Sequence[Raw]) -> bool:
    """Tell whether all of these valid JSON values are texts without escaped U+0000 or surrogates."""
    lines = b"\n".join((b"", *values))  # no text has a break
    text = np.frombuffer(lines, np.uint8)
    first = text[np.flatnonzero(text == _BREAK) + 1]
    return len(first) == len(values) and bool((first == _QUOTE).all()) and not has_suspicious_escape(lines)


def _without_blanks(valid: bytes) -> int:
    """Return how many bytes are above the space, the lowest byte of valid JSON that is not whitespace."""
    return int(np.count_nonzero(np.frombuffer(valid, np.uint8) > _BLANK))


def _stand_once(written: bytes) -> bool:
    try:
        check_nested_values(written, 1)
        check_duplicate_keys(written)
    except RejectedInput:
        return False
    return b"\\" not in written


_known_to_stand_once = lru_cache(_MAX_CACHED_OBJECTS)(_stand_once)
"""A producer writes the same objects in nearly all of its bodies."""
