"""Decodes the images of one table, many at once: JSON objects -> tuples in the order of the table's columns."""

from collections.abc import Sequence
from types import GenericAlias
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from app.formats.json.quote_accounting import count_structural_quotes
from app.formats.json.texts import has_suspicious_escape

_astuple: Final = msgspec.structs.astuple


class ImageDecoder:
    """Reads images of a table with these columns and values of one type.

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
        if count_structural_quotes(document) != 2 * (keys + keys):
            raise ValueError("an image has a column twice")
        if has_suspicious_escape(document):
            raise ValueError("a text may have U+0000 or a surrogate")
        return rows, is_full
