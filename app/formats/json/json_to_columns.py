"""JSON objects with a text for every column -> columns of texts.

Images in a request usually share one byte layout. Then values are sliced out between quotes without parsing. Other
images go to Arrow's JSON reader, which rejects an unknown column, a repeated one and a value that is not a text. Both
hold the interpreter's lock only briefly.
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
"""Quotes of a key and its text, if neither has escapes."""


def text_columns(images: Sequence[Raw], columns: Sequence[str]) -> list[pa.StringArray]:
    """Return one array for each of `columns`, with the value of each image in order. Images are valid JSON.

    Raises ValueError unless each image is an object with a text for every column and nothing else, or if a text may
    have U+0000 or half a surrogate pair.
    """
    lines = _BREAK.join(images)
    return _between_quotes(lines, images, columns) or _read_by_arrow(lines, images, columns)


def _between_quotes(lines: bytes, images: Sequence[Raw], columns: Sequence[str]) -> list[pa.StringArray] | None:
    """Return the columns if all images have the first one's layout and no escapes.

    Cutting at the quotes of values gives a frame and a value in turn. All pieces of the frame at one position have the
    same number of quotes: so if all frames together equal the first image's frame repeated, each one does.
    """
    if b"\\" in lines:
        return None
    texts = _IMAGE.decode(images[0])
    rows, width = len(images), len(texts)
    quotes = np.flatnonzero(np.frombuffer(lines, np.uint8) == _QUOTE)
    if texts.keys() != {*columns} or len(quotes) != rows * width * _QUOTES:
        return None
    borders = np.zeros(2 * rows * width + 2, np.int32)
    borders[1:-1:2] = quotes[2::_QUOTES] + 1
    borders[2:-1:2] = quotes[3::_QUOTES]
    borders[-1] = len(lines)
    pieces = pa.Array.from_buffers(pa.string(), len(borders) - 1, [None, pa.py_buffer(borders), pa.py_buffer(lines)])
    frames = pieces.take(pa.array(np.arange(0, len(pieces), 2)))
    if not frames.buffers()[2].equals(pa.py_buffer(_BREAK.join([_frame(images[0])] * rows))):
        return None
    names = list(texts)
    starts = np.array([2 * names.index(column) + 1 for column in columns])
    values = pieces.take(pa.array(np.add.outer(starts, np.arange(0, len(pieces) - 1, 2 * width)).ravel()))
    return [values.slice(at * rows, rows) for at in range(width)]


def _frame(image: Raw) -> bytes:
    """Return an image without its values."""
    parts = bytes(image).split(b'"')
    parts[3::_QUOTES] = [b""] * (len(parts) // _QUOTES)
    return b'"'.join(parts)


def _read_by_arrow(lines: bytes, images: Sequence[Raw], columns: Sequence[str]) -> list[pa.StringArray]:
    if any(memoryview(image)[0] != _BRACE for image in images):  # Arrow crashes on a null in place of an object
        raise ValueError("an image is not an object")
    if has_suspicious_escape(lines):
        raise ValueError("a text may have U+0000 or a surrogate")
    read = json.read_json(
        pa.BufferReader(lines),
        json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        json.ParseOptions(
            explicit_schema=pa.schema([(column, pa.string()) for column in columns]),
            unexpected_field_behavior="error",
        ),
    )
    if read.num_rows != len(images) or any(column.null_count for column in read.columns):
        raise ValueError("a column is missing, or its value is not a text")
    return [column.chunk(0) for column in read.columns]
