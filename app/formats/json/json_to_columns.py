"""Images of rows, each a JSON object with a text for every column -> columns of texts.

Nearly always all images are written alike, and differ in their values alone: then the values are what stands between
the quotes, found in one look. Any other images go to Arrow's reader, which rejects what it was not told to expect:
another column, one that stands twice, a value that is no text. Neither needs the interpreter's lock for long.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw
from pyarrow import json

from app.formats.json.duplicate_key_prefilter import has_suspicious_escape

_IMAGE: Final = msgspec.json.Decoder(dict[str, str])
_BRACE, _QUOTE = b'{"'
_BREAK: Final = b"\n"
_QUOTES: Final = 4
"""Those of a member, without escaped ones."""


def text_columns(images: Sequence[Raw], columns: Sequence[str]) -> list[pa.StringArray]:
    """One array for each of `columns`, in their order, with the value of each image, which is valid JSON.

    Raises ValueError unless each image is an object with a text for every column, and nothing else; also where a
    text may hold U+0000 or half a surrogate pair.
    """
    lines = _BREAK.join(images)
    return _between_quotes(lines, images, columns) or _read_by_arrow(lines, images, columns)


def _between_quotes(lines: bytes, images: Sequence[Raw], columns: Sequence[str]) -> list[pa.StringArray] | None:
    """The columns if all images are written as the first one is, but for their values, and without escapes.

    Cut at the quotes of values, the lines are a frame and a value in turn. A piece of the frame has as many quotes as
    any other one in its place: so when all frames together are those of the first image, repeated, each is.
    """
    if b"\\" in lines:
        return None
    members = _IMAGE.decode(images[0])
    rows, width = len(images), len(members)
    quotes = np.flatnonzero(np.frombuffer(lines, np.uint8) == _QUOTE)
    if members.keys() != {*columns} or len(quotes) != rows * width * _QUOTES:
        return None
    borders = np.zeros(2 * rows * width + 2, np.int32)
    borders[1:-1:2] = quotes[2::_QUOTES] + 1
    borders[2:-1:2] = quotes[3::_QUOTES]
    borders[-1] = len(lines)
    pieces = pa.Array.from_buffers(pa.string(), len(borders) - 1, [None, pa.py_buffer(borders), pa.py_buffer(lines)])
    frames = pieces.take(pa.array(np.arange(0, len(pieces), 2)))
    if not frames.buffers()[2].equals(pa.py_buffer(_BREAK.join([_frame(images[0])] * rows))):
        return None
    places = list(members)
    starts = np.array([2 * places.index(column) + 1 for column in columns])
    values = pieces.take(pa.array(np.add.outer(starts, np.arange(0, len(pieces) - 1, 2 * width)).ravel()))
    return [values.slice(at * rows, rows) for at in range(width)]


def _frame(image: Raw) -> bytes:
    """All of an image but its values."""
    parts = bytes(image).split(b'"')
    parts[3::_QUOTES] = [b""] * (len(parts) // _QUOTES)
    return b'"'.join(parts)


def _read_by_arrow(lines: bytes, images: Sequence[Raw], columns: Sequence[str]) -> list[pa.StringArray]:
    if any(memoryview(image)[0] != _BRACE for image in images):  # the reader dies of a null in the place of an object
        raise ValueError("an image is no object")
    if has_suspicious_escape(lines):
        raise ValueError("a text may hold what is no text")
    read = json.read_json(
        pa.BufferReader(lines),
        json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        json.ParseOptions(
            explicit_schema=pa.schema([(column, pa.string()) for column in columns]),
            unexpected_field_behavior="error",
        ),
    )
    if read.num_rows != len(images) or any(column.null_count for column in read.columns):
        raise ValueError("a column is missing, or has another value than a text")
    return [column.chunk(0) for column in read.columns]
