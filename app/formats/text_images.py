"""Images of rows, each a JSON object with a text for every column -> columns of texts.

Arrow's reader takes them outside the interpreter's lock, and refuses what it was not told to expect: another column,
one that stands twice, a value that is no text.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from msgspec import Raw
from pyarrow import json

_BRACE: Final = ord("{")


def text_columns(images: Sequence[Raw], columns: Sequence[str]) -> list[pa.StringArray]:
    """One array for each of `columns`, in their order, with the value of each image.

    Raises ValueError unless each image is an object with a text for every column, and nothing else.
    """
    if any(memoryview(image)[0] != _BRACE for image in images):  # the reader dies of a null in the place of an object
        raise ValueError("an image is no object")
    lines = b"\n".join(images)
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
