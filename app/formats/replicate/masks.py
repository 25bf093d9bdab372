"""Replicate's `columnMask` and `changeMask`: which columns a data message has, and which of them changed.

Qlik's documentation says little-endian; captured messages are one big-endian number whose bit i is the column with
ordinal i + 1 (docs/reference/replicate.md). LOB columns never have a `changeMask` bit, so a clear bit does
not mean unchanged.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

import msgspec

from app.domain.model.change import Change, Image, Operation, SourceValue
from app.formats.replicate.metadata import SourceColumn
from app.formats.replicate.standard_form import HeaderPointers
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

_HEX: Final = re.compile(r"[0-9a-f]+", re.ASCII | re.IGNORECASE)
_RANGES: Final = {
    "INT1": (-(2**7), 2**7 - 1),
    "UINT1": (0, 2**8 - 1),
    "UINT2": (0, 2**16 - 1),
    "UINT4": (0, 2**32 - 1),
    "UINT8": (0, 2**64 - 1),
}
"""Ranges of the Replicate types that are narrower than their column type."""

_MAX_KNOWN_MASKS: Final = 256


def read_mask(text: str | None, index: int, pointer: str) -> int | None:
    """Return a mask's hexadecimal text as a number, None if it is not given. Raises RejectedInput `bad_mask`."""
    if not text:
        return None
    if not _HEX.fullmatch(text):
        raise RejectedInput.at(Code.BAD_MASK, "the mask must be hexadecimal", index, pointer)
    return int(text, 16)


class ColumnLayout:
    """The columns of one source version by ordinal, for masks and value ranges.

    `excluded` columns can be missing and have any value.
    """

    def __init__(self, columns: Mapping[str, SourceColumn], excluded: frozenset[str] = frozenset()) -> None:
        self.names = frozenset(columns)
        self.needed = self.names - excluded
        self.keys = frozenset(name for name, column in columns.items() if column.key)
        self._bits = {name: 1 << (column.ordinal - 1) for name, column in columns.items()}
        self._end = max(column.ordinal for column in columns.values())
        self._all = sum(self._bits.values())
        self.ranges: Final[Mapping[str, tuple[int, int]]] = {
            name: _RANGES[columns[name].type]
            for name in columns
            if name in self.needed and columns[name].type in _RANGES
        }
        self._known: dict[int, frozenset[str]] = {}

    def takes_whole(self, change: Change, column_mask: int | None, change_mask: int | None) -> bool:
        """Return True if the masks, as numbers, show nothing missing or wrong: a shortcut for the usual message."""
        if self.ranges or not (column_mask is None or column_mask == self._all):
            return False
        may_hide_key = change.operation is Operation.UPDATE and change.before is None
        if change_mask and (change_mask > self._all or may_hide_key):
            return False
        image = change.before if change.operation is Operation.DELETE else change.after
        return column_mask is None or (image is not None and image.keys() >= self.needed)

    def columns_in(self, mask: int) -> frozenset[str] | None:
        """Return the columns whose bit is set, None if a bit is beyond the last column."""
        columns = self._known.get(mask)
        if columns is None:
            if mask.bit_length() > self._end:
                return None
            columns = frozenset(name for name, bit in self._bits.items() if mask & bit)
            if len(self._known) >= _MAX_KNOWN_MASKS:
                self._known.clear()
            self._known[mask] = columns
        return columns

    def out_of_range(self, image: Image) -> Iterable[str]:
        """Return the columns whose number is out of the range of the Replicate type."""
        return [name for name, (low, high) in self.ranges.items() if is_beyond(image.get(name), low, high)]


def apply_layout(
    change: Change, column_mask: int | None, change_mask: int | None, headers_at: HeaderPointers, layout: ColumnLayout
) -> Change:
    """Return the change with its masks applied: columns that were not captured are absent, never NULL.

    Raises RejectedInput `mask_out_of_range`, `mask_mismatch`, `incomplete_insert`, `old_key_missing`, `bad_value`.
    """
    if layout.takes_whole(change, column_mask, change_mask):
        return msgspec.structs.replace(change, source_columns=layout.names, is_late=True)
    problems = [
        *_check_change_mask(change, change_mask, headers_at.of("changeMask"), layout),
        *_check_ranges(change, layout),
    ]
    before, after = change.before, change.after
    if column_mask is not None:
        captured = layout.columns_in(column_mask)
        if captured is None:
            problems.append(_beyond_last(change, headers_at.of("columnMask")))
        else:
            problems += _check_captured(change, captured, layout)
            absent = layout.names - captured
            if absent:
                before, after = _without(before, absent), _without(after, absent)
    if problems:
        raise RejectedInput.of(tuple(problems))
    return msgspec.structs.replace(change, before=before, after=after, source_columns=layout.names, is_late=True)


def check_without_layout(
    change: Change, column_mask: int | None, change_mask: int | None, headers_at: HeaderPointers
) -> None:
    """Raise RejectedInput `schema_unknown` for masks that matter, since no metadata message gives the ordinals.

    A mask with a one for every column leaves nothing out, so it does not matter.
    """
    if change.operation is Operation.DELETE:
        return
    columns = len(change.after or ())
    pointer = None
    if column_mask is not None and column_mask != (1 << max(columns, column_mask.bit_length())) - 1:
        pointer = headers_at.of("columnMask")
    elif change.operation is Operation.UPDATE and change.before is None and change_mask:
        pointer = headers_at.of("changeMask")
    if pointer is not None:
        detail = "no metadata message defines the columns of the mask; a layout that names no masks leaves them out"
        raise RejectedInput.at(Code.SCHEMA_UNKNOWN, detail, change.index, pointer)


def _check_change_mask(change: Change, mask: int | None, pointer: str, layout: ColumnLayout) -> Iterable[Problem]:
    if not mask:
        return
    changed = layout.columns_in(mask)
    if changed is None:
        yield _beyond_last(change, pointer)
    elif change.operation is Operation.UPDATE and change.before is None:
        for column in sorted(changed & layout.keys):
            detail = "the key changed and the old key is not given"
            yield Problem(Code.OLD_KEY_MISSING, detail, change.index, pointer, column)


def _check_captured(change: Change, captured: frozenset[str], layout: ColumnLayout) -> Iterable[Problem]:
    """Check that the message's own image, the deleted row or else the new one, has the columns of the mask."""
    is_delete = change.operation is Operation.DELETE
    image, at = (change.before, change.before_at) if is_delete else (change.after, change.after_at)
    for column in sorted((captured & layout.needed) - (image or {}).keys()):
        detail = "the column mask names the column, and the message does not have it"
        yield Problem(Code.MASK_MISMATCH, detail, change.index, pointer_to(at, column), column)
    if change.operation in {Operation.INSERT, Operation.SNAPSHOT}:
        for column in sorted(layout.needed - captured):
            detail = "the column mask says that the column was not captured"
            yield Problem(Code.INCOMPLETE_INSERT, detail, change.index, pointer_to(at, column), column)


def _check_ranges(change: Change, layout: ColumnLayout) -> Iterable[Problem]:
    for image, at in ((change.before, change.before_at), (change.after, change.after_at)):
        for column in layout.out_of_range(image or {}):
            detail = "value is beyond the range of the source type"
            yield Problem(Code.BAD_VALUE, detail, change.index, pointer_to(at, column), column)


def _beyond_last(change: Change, pointer: str) -> Problem:
    return Problem(Code.MASK_OUT_OF_RANGE, "the mask has a bit beyond the last column", change.index, pointer)


def _without(image: Image | None, absent: frozenset[str]) -> Image | None:
    return image and {name: value for name, value in image.items() if name not in absent}


def is_beyond(value: SourceValue, low: int, high: int) -> bool:
    """Return True if a number is out of range; typing rejects what is not a number."""
    if isinstance(value, str):
        try:
            value = Decimal(value)
        except InvalidOperation:
            return False
    if isinstance(value, Decimal):
        return value.is_finite() and not low <= value <= high
    return isinstance(value, int) and not low <= value <= high
