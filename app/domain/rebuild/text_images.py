"""Row images whose values are all texts, as Arrow columns and back, without a Python object for each value.

Most sources send every value as a text. The image of such a row is a line of CSV in brackets, if no text in it needs an
escape. Arrow reads CSV in a tenth of the time in which JSON becomes Python objects and these become columns (decision
0068).

Invariant: the columns are exactly the values that JSON has, or there are none.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

_UNUSUAL: Final = (b"\\", b'" ')
"""An escape, or perhaps a space behind a text. `encode_image` writes no spaces between values; other programs may."""

_PARSE: Final = pyarrow.csv.ParseOptions(double_quote=False, ignore_empty_lines=False)
_NULL: Final = "null"


def text_columns(images: Sequence[bytes], width: int) -> list[pa.StringArray] | None:
    """Return the values of images by column; None if one of them may have other values than `width` texts or NULL."""
    lines = b"\n".join(images)
    if not lines or any(part in lines for part in _UNUSUAL):
        return None
    lines = lines[1:-1].replace(b"]\n[", b"\n") + b"\n"
    reading = pyarrow.csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, autogenerate_column_names=True)
    try:
        table = pyarrow.csv.read_csv(pa.BufferReader(lines), reading, _PARSE, _texts(width))
    except pa.ArrowInvalid:  # the rows have different numbers of values
        return None
    if (table.num_rows, table.num_columns) != (len(images), width):
        return None
    columns = [column.combine_chunks() for column in table.columns]
    return columns if _written_length(columns) == len(lines) else None


def images_of_texts(columns: Sequence[pa.StringArray]) -> pa.BinaryArray:
    """Return the images of rows whose values, given by column, are texts without escapes or NULL."""
    quoted = [pc.fill_null(pc.binary_join_element_wise('"', column, '"', ""), _NULL) for column in columns]
    return pc.cast(pc.binary_join_element_wise("[", pc.binary_join_element_wise(*quoted, ","), "]", ""), pa.binary())


def _written_length(columns: Sequence[pa.StringArray]) -> int:
    """Return the length of the lines if each value was a text in quotes or NULL; a number would make them shorter."""
    nulls: int = sum(column.null_count for column in columns)
    texts: int = sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)
    values = sum(map(len, columns))
    separators = values  # commas and line feeds
    return texts + 2 * (values - nulls) + len(_NULL) * nulls + separators


@lru_cache(maxsize=64)
def _texts(width: int) -> pyarrow.csv.ConvertOptions:
    return pyarrow.csv.ConvertOptions(
        check_utf8=False,
        column_types={f"f{at}": pa.string() for at in range(width)},
        null_values=[_NULL],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
