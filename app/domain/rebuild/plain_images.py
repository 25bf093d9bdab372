"""Row images of plain values as Arrow columns and back, without a Python object for each value.

The image of a row whose values are texts without escapes, numbers, booleans or NULL is a line of CSV in brackets, and
Arrow reads CSV in a tenth of the time in which JSON becomes Python objects and these become columns (decision 0068). A
number then is a text. Types read it as they read the number, except those of `depends_on_quotes`.

Invariant: the columns are exactly the values that JSON has, or there are none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from app.domain.model.table_schema import ColumnType, TypeName

_Flags: TypeAlias = npt.NDArray[np.bool_]
_Bytes: TypeAlias = npt.NDArray[np.uint8]

_QUOTE, _COMMA, _LINE_FEED = b'",\n'
_TEXT, _NUMBER, _NULL, _BOOLEAN, _OTHER = range(1, 6)
_NULL_TEXT: Final = "null"
_LONG_EXPONENT: Final = re.compile(rb"[eE][+-]?\d{5}")
"""An exponent that types read in a number and not in a text; `written_number` also writes minus zero with one."""

_PARSE: Final = pyarrow.csv.ParseOptions(double_quote=False, ignore_empty_lines=False)


def _kinds(by_bytes: dict[bytes, int], other: int) -> _Bytes:
    found = np.full(256, other, np.uint8)
    for chosen, kind in by_bytes.items():
        found[[*chosen]] = kind
    return found


_KIND_BY_FIRST: Final = _kinds({b'"': _TEXT, b"-0123456789": _NUMBER, b"n": _NULL, b"tf": _BOOLEAN}, 0)
_KIND_BY_LAST: Final = _kinds({b'"': _TEXT, b"0123456789": _NUMBER, b"l": _NULL, b"e": _BOOLEAN}, _OTHER)


@dataclass(frozen=True, slots=True)
class PlainValues:
    """The values of images, by column and as they are written."""

    columns: Sequence[pa.StringArray]
    are_texts: _Flags
    """By row and column: whether a value is a text or NULL, not a number or a boolean."""

    def taken(self, places: Sequence[int]) -> "PlainValues":
        """Return the values of the columns at these places."""
        return PlainValues([self.columns[place] for place in places], self.are_texts[:, [*places]])

    def images(self) -> pa.BinaryArray:
        """Return the images of rows with these values."""
        written = [self._written(column, self.are_texts[:, at]) for at, column in enumerate(self.columns)]
        return pc.cast(
            pc.binary_join_element_wise("[", pc.binary_join_element_wise(*written, ","), "]", ""), pa.binary()
        )

    def _written(self, column: pa.StringArray, are_texts: _Flags) -> pa.StringArray:
        written = column
        if are_texts.any():
            quoted = pc.binary_join_element_wise('"', column, '"', "")
            written = quoted if are_texts.all() else pc.if_else(pa.array(are_texts), quoted, column)
        return pc.fill_null(written, _NULL_TEXT)


def depends_on_quotes(column_type: ColumnType) -> bool:
    """Tell whether the type reads a number otherwise than a text of the same characters."""
    return column_type.name in {TypeName.BINARY, TypeName.JSON}


def plain_values(images: Sequence[bytes], width: int) -> PlainValues | None:
    """Return the values of images; None if one of them may have others than `width` plain values."""
    lines = b"\n".join(images)
    if not lines or b"\\" in lines:
        return None
    lines = lines[1:-1].replace(b"]\n[", b"\n") + b"\n"
    kinds = _kinds_of(np.frombuffer(lines, np.uint8), len(images), width)
    if kinds is None:
        return None
    if (kinds == _NUMBER).any() and _LONG_EXPONENT.search(lines):
        return None
    reading = pyarrow.csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, autogenerate_column_names=True)
    table = pyarrow.csv.read_csv(pa.BufferReader(lines), reading, _PARSE, _texts(width))
    return PlainValues([column.combine_chunks() for column in table.columns], (kinds == _TEXT) | (kinds == _NULL))


def _kinds_of(lines: _Bytes, rows: int, width: int) -> _Bytes | None:
    """Return the kinds of the values by row and column, by their first and last characters; None if one is not plain.

    A quote begins or ends a text, because there are no escapes.
    """
    is_outside = np.cumsum(lines == _QUOTE, dtype=np.uint8) & 1 == 0
    ends = np.flatnonzero(((lines == _COMMA) | (lines == _LINE_FEED)) & is_outside)
    if len(ends) != rows * width or (lines[ends].reshape(rows, width)[:, -1] != _LINE_FEED).any():
        return None
    starts = np.concatenate(([0], ends[:-1] + 1))
    kinds = _KIND_BY_FIRST[lines[starts]]
    if (kinds != _KIND_BY_LAST[lines[ends - 1]]).any():
        return None
    return kinds.reshape(rows, width)


@lru_cache(maxsize=64)
def _texts(width: int) -> Any:
    return pyarrow.csv.ConvertOptions(
        check_utf8=False,
        column_types={f"f{at}": pa.string() for at in range(width)},
        null_values=[_NULL_TEXT],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
