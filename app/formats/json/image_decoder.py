"""Decodes the images of one table, many at once: JSON objects -> tuples in the order of the table's columns."""

from collections.abc import Sequence
from types import GenericAlias
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from app.formats.json.quote_accounting import count_structural_quotes
from app.formats.json.texts import has_suspicious_escape

Given: TypeAlias = Raw | UnsetType

_NO_ROW: Final = (Raw(b"null"), Raw(b"{}"))
_astuple: Final = msgspec.structs.astuple


class ImageDecoder:
    """Reads images of a table with these columns; all values are texts, or with `str | None` also null.

    msgspec rejects an unknown column, a value of another type and invalid UTF-8; quote accounting finds a column that
    an image has twice. Column names that msgspec cannot take, with quotes or control characters, raise ValueError.
    """

    def __init__(self, columns: Sequence[str], value_type: Any) -> None:
        names = [f"column_{at}" for at in range(len(columns))]
        options: Any = {"rename": dict(zip(names, columns, strict=True)), "forbid_unknown_fields": True, "gc": False}
        full = msgspec.defstruct("FullImage", [(name, value_type) for name in names], **options)
        partial = msgspec.defstruct(
            "PartialImage", [(name, value_type | msgspec.UnsetType, UNSET) for name in names], **options
        )
        self._has_nulls = value_type is not str
        self._full: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(GenericAlias(list, (full,)))
        self._partial: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(GenericAlias(list, (partial,)))

    def decode(self, images: Sequence[Raw]) -> tuple[list[tuple[Any, ...]], bool]:
        """Return the row of each image, and whether all images have all columns; others have UNSET in their place.

        Raises ValueError, or RecursionError for values nested too deeply.
        """
        document = b"[" + b",".join(images) + b"]"
        is_full = True
        try:
            decoded = self._full.decode(document)
        except msgspec.ValidationError:
            is_full = False
            decoded = self._partial.decode(document)
        rows = [*map(_astuple, decoded)]
        missing = 0 if is_full else sum(row.count(UNSET) for row in rows)
        keys = sum(map(len, rows)) - missing
        nulls = sum(row.count(None) for row in rows) if self._has_nulls else 0
        if count_structural_quotes(document) != 2 * (keys + keys - nulls):
            raise ValueError("an image has a column twice")
        if has_suspicious_escape(document):
            raise ValueError("a text may have U+0000 or a surrogate")
        return rows, is_full

    def decode_optional(self, images: Sequence[Given]) -> tuple[Sequence[tuple[Any, ...] | None], bool]:
        """Return the rows of images, None for one without columns, and whether all others have all columns."""
        given = [image for image in images if image is not UNSET and image not in _NO_ROW]
        if not given:
            return [None] * len(images), True
        rows, is_full = self.decode(given)
        if len(given) == len(images):
            return rows, is_full
        found = iter(rows)
        return [None if image is UNSET or image in _NO_ROW else next(found) for image in images], is_full
