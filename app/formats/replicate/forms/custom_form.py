"""Reads the data messages of a custom format under its layout: -> the same parts that `standard_form` gives."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET

from app.domain.model.source_name import SourceName
from app.errors import Code
from app.formats.replicate.forms.envelope import KEY_AT, DataParts, HeaderPointers, Headers
from app.formats.replicate.forms.layouts import HEADERS, PARTS, Layout
from app.formats.replicate.forms.standard_form import as_headers, rejection

_IMAGES: Final = ("data", "before_data", "key")


class CustomForm:
    """Reads messages under one layout."""

    def __init__(self, layout: Layout) -> None:
        self._places = layout.places
        self._operations = layout.operations
        self._headers = {own: layout.places[name] for name, own in HEADERS.items() if name in layout.places}
        self._others = {name: self._claimed(name) for name in _IMAGES if name in layout.places}
        self._pointers = {at: self._header_pointers(at) for at in ("", "/value")}

    def source(self, message: Mapping[str, Any], index: int, at: str) -> SourceName | None:
        """Return the table that a message names. Raises RejectedInput `bad_name` or `malformed_message`."""
        schema, table = (self._text(name, message, index, at) for name in ("schema", "table"))
        return SourceName.of(None, schema or None, table) if table else None

    def schema_id(self, message: Mapping[str, Any], index: int, at: str) -> str | None:
        """Return the schema id of a message. Raises RejectedInput `malformed_message`."""
        return self._text("schema_id", message, index, at)

    def parts(self, message: Mapping[str, Any], index: int, at: str, key: Any) -> DataParts:
        """Return the parts of a message that was sent with this key. Raises RejectedInput `malformed_message`."""
        own_key = self._own_key(message, index, at)
        return DataParts(
            self._image("data", message, index, at),
            self._image("before_data", message, index, at),
            self._read_headers(message, index, at),
            self._pointer("data", at),
            self._pointer("before_data", at),
            self._pointers[at],
            *((key, KEY_AT) if own_key is UNSET else (own_key, self._pointer("key", at))),
        )

    def _own_key(self, message: Mapping[str, Any], index: int, at: str) -> Any:
        """Return the key that a message has beside its images, UNSET if it has none."""
        if "key" not in self._places:
            return UNSET
        place = self._places["key"]
        if place.prefix is None:
            return place.find(message, index, at)
        return self._image("key", message, index, at) or UNSET

    def _read_headers(self, message: Mapping[str, Any], index: int, at: str) -> Headers:
        found = {name: place.find(message, index, at) for name, place in self._headers.items()}
        given = {name: value for name, value in found.items() if value is not UNSET}
        operation = given.get("operation")
        if isinstance(operation, int) and not isinstance(operation, bool):
            given["operation"] = operation = str(operation)
        if isinstance(operation, str):
            given["operation"] = self._operations.get(operation.casefold(), operation)
        return as_headers(index, given, self._pointers[at])

    def _image(self, name: str, message: Mapping[str, Any], index: int, at: str) -> dict[str, Any] | list[Any] | None:
        place = self._places.get(name)
        if place is None:
            return None
        found = place.find(message, index, at)
        if found is UNSET or found is None:
            return None
        if place.prefix is None and isinstance(found, list):
            return found
        if not isinstance(found, dict):
            raise rejection(Code.MALFORMED_MESSAGE, "expected an object or null", index, self._pointer(name, at))
        if place.prefix is None:
            return found
        others, prefixes = self._others[name]
        start = len(place.prefix)
        image = {
            key[start:]: value
            for key, value in found.items()
            if key.startswith(place.prefix) and key not in others and not key.startswith(prefixes)
        }
        return image or None

    def _claimed(self, name: str) -> tuple[frozenset[str], tuple[str, ...]]:
        """Return the keys beside the columns of a spread image that belong to other parts, and prefixes of such keys.

        A longer prefix wins over a shorter one.
        """
        image = self._places[name]
        if image.prefix is None:
            return frozenset(), ()
        keys, prefixes, count = set(), [], len(image.steps)
        for other, place in self._places.items():
            if other == name or not place.is_in(image):
                continue
            if len(place.steps) > count:
                keys.add(place.steps[count])
            elif place.prefix is not None and len(place.prefix) > len(image.prefix):
                prefixes.append(place.prefix)
        headers = self._places.get("headers")
        if headers is not None and headers.prefix is not None and headers.steps == image.steps:
            keys |= {headers.prefix + header for header in Headers.__struct_fields__}
        return frozenset(keys), tuple(prefixes)

    def _text(self, name: str, message: Mapping[str, Any], index: int, at: str) -> str | None:
        place = self._places.get(name)
        found = place.find(message, index, at) if place else None
        if found is None or found is UNSET:
            return None
        if not isinstance(found, str):
            raise rejection(Code.MALFORMED_MESSAGE, "expected a text or null", index, self._pointer(name, at))
        return found

    def _pointer(self, name: str, at: str) -> str:
        """Return the JSON Pointer of a part, in a message whose own pointer is `at`."""
        place = self._places.get(name)
        return f"{at}/{PARTS.get(name, name)}" if place is None else at + place.pointer

    def _header_pointers(self, at: str) -> HeaderPointers:
        named = {name: at + place.pointer for name, place in self._headers.items()}
        return HeaderPointers(f"{at}/headers/", named)
