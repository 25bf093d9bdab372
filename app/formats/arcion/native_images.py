"""The images of NATIVE messages of one table: -> rows with shapes. Without `exists`, the columns of an image are given.

Invariant: the changes equal those of `decode_arcion`, or NotColumnar is raised.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Raw

from app.domain.model.change import Operation
from app.domain.rows.shaped_changes import Shape, Values
from app.formats.arcion.messages import OPERATIONS
from app.formats.json.image_decoder import Given, ImageDecoder
from app.formats.not_columnar import NotColumnar

_MAX_TABLES: Final = 1_024
_MAX_SHAPES: Final = 256
"""Shapes of messages that are read together; more take the exact path."""

_NOTHING: Final[frozenset[str]] = frozenset()


def is_native(exists: Given) -> bool:
    """Tell whether a message has no `exists`."""
    return exists is UNSET or exists == Raw(b"null")


class NativeRows(NamedTuple):
    """What messages say, by message. Images have UNSET in the place of columns that are not given."""

    shapes: Sequence[Shape]
    before: Sequence[Values | None]
    after: Sequence[Values | None]


class NativeImages:
    """Reads images of tables with these columns."""

    def __init__(self, columns: Sequence[str]) -> None:
        """Prepare. Raises ValueError for names that msgspec cannot take."""
        self._names = tuple(columns)
        self._all = frozenset(columns)
        self._images = ImageDecoder(columns, str | None)

    def read(self, operations: Sequence[str], before: Sequence[Given], after: Sequence[Given]) -> NativeRows:
        """Return the rows and shapes of messages. Raises NotColumnar, ValueError or RecursionError."""
        before_rows, before_full = self._images.decode_optional(before)
        after_rows, after_full = self._images.decode_optional(after)
        given_before, given_after = self._given(before_rows, before_full), self._given(after_rows, after_full)
        keys = [*zip(operations, given_before, given_after, strict=True)]
        distinct = {*keys}
        if len(distinct) > _MAX_SHAPES:
            raise NotColumnar
        shape_of = {key: _shape(*key) for key in distinct}
        return NativeRows([*map(shape_of.__getitem__, keys)], before_rows, after_rows)

    def _given(self, rows: Sequence[tuple[Any, ...] | None], is_full: bool) -> Sequence[frozenset[str]]:
        """Return the columns that each image has."""
        if is_full:
            return [_NOTHING if row is None else self._all for row in rows]
        presence = [None if row is None else tuple(value is not UNSET for value in row) for row in rows]
        names = {present: frozenset(compress(self._names, present)) for present in {*presence} if present is not None}
        return [_NOTHING if present is None else names[present] for present in presence]


def _shape(text: str, before: frozenset[str], after: frozenset[str]) -> Shape:
    operation = OPERATIONS.get(text)
    if operation is None or (operation is Operation.INSERT and before) or (operation is Operation.DELETE and after):
        raise NotColumnar
    return Shape(
        operation,
        None if operation is Operation.INSERT else before,
        None if operation is Operation.DELETE else after,
    )


@lru_cache(_MAX_TABLES)
def native_images(columns: tuple[str, ...]) -> NativeImages:
    """Return the reader of tables with these columns; few tables get NATIVE messages, so it is made when one does."""
    return NativeImages(columns)
