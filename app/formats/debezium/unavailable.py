"""Values that the connector could not read: an update omits what did not change, and Debezium writes a placeholder.

Postgres omits unchanged TOAST values, Oracle unchanged LOBs. The placeholder is `__debezium_unavailable_value` or that
of the connector's property `unavailable.value.placeholder`; bytes, arrays and maps have it in their own form. Source:
"Toasted values" in Debezium's description of the connector for PostgreSQL.
"""

import hashlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias
from uuid import UUID

DEFAULT_PLACEHOLDER: Final = "__debezium_unavailable_value"

IsUnavailable: TypeAlias = Callable[[Any], bool]


@lru_cache
def unavailable_values(placeholders: tuple[str, ...]) -> IsUnavailable:
    """Return the function that tells whether a value is one of these placeholders or Debezium's, in any form."""
    all_of_them = (DEFAULT_PLACEHOLDER, *placeholders)
    texts = placeholder_texts(placeholders)
    lists = [form for text in all_of_them for form in _list_forms(text)]
    objects = [{text: text} for text in all_of_them]

    def is_unavailable(value: Any) -> bool:
        if isinstance(value, str):
            return value in texts
        if isinstance(value, list):
            return value in lists
        return isinstance(value, dict) and value in objects

    return is_unavailable


def _list_forms(text: str) -> tuple[list[Any], ...]:
    """Return the placeholder as an array of texts, bytes, integers and UUIDs."""
    content = text.encode()
    name_based = UUID(bytes=hashlib.md5(content, usedforsecurity=False).digest(), version=3)
    return ([text], [b64encode(content).decode()], [*content], [str(name_based)])


@lru_cache
def placeholder_texts(placeholders: tuple[str, ...]) -> frozenset[str]:
    """Return these placeholders and Debezium's in all forms that are texts."""
    return frozenset(form for text in (DEFAULT_PLACEHOLDER, *placeholders) for form in _text_forms(text))


def _text_forms(text: str) -> tuple[str, ...]:
    """Return the placeholder as text, as bytes in each `binary.handling.mode`, and as a map written as text."""
    content = text.encode()
    encoded = (b64encode(content).decode(), urlsafe_b64encode(content).decode(), content.hex(), content.hex().upper())
    return (text, *encoded, f'{{"{text}":"{text}"}}')
