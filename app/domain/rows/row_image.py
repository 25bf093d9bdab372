"""Row images: the latest full row of each key, from which a partial update is completed.

An image holds the source's values in the order of the table's columns, as JSON. Where the value of a column is
unknown, the values stand by position, and under position -1 how many columns the table had. A column that was added
after the image was written is NULL in it, as it is in the mirrored row. Images are kept by row key: the typed key in
canonical form.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SourceValue
from app.domain.model.written_number import as_kept, fraction
from app.domain.rows.key_changes import KeyChange

MAX_KEY_BYTES: Final = 256
"""A longer row key is kept as its digest, behind a zero byte, which no text begins with."""

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_kept)
_DECODER: Final[msgspec.json.Decoder[list[Any] | dict[int, Any]]] = msgspec.json.Decoder(
    list[Any] | dict[int, Any], float_hook=fraction
)


class MissingColumns(NamedTuple):
    """The columns of a row that only a row image can give: their ascending positions, and whose image it is."""

    ordinals: tuple[int, ...]
    moved: bool
    """The row before this one, which deletes the old key, says whose."""
    optional: tuple[int, ...] = ()
    """Those of the positions that are NULL where no image knows them: of columns that came after the change."""


Known: TypeAlias = list[SourceValue] | dict[int, Any]
"""What an image knows, by column position: of the columns that the table had then all, or of some."""

WIDTH: Final = -1
"""The position under which an image with unknown columns says how many columns the table had."""


class StoredImage(NamedTuple):
    """An image, and the sequence of the batch that wrote it."""

    image: bytes
    sequence: int


class IncompleteRow(NamedTuple):
    """A row with a gap: its values so far, and where its message stands."""

    values: Sequence[SourceValue]
    missing: MissingColumns
    unknown: Collection[int]
    """The columns that its image is not to know."""
    message: int
    pointer: str


@dataclass(frozen=True, slots=True)
class ImageRows:
    """What the rows of a batch mean for the images, by row: its key, and its image, None for a delete or a gap."""

    keys: Sequence[bytes]
    images: Sequence[bytes | None]
    incomplete: Mapping[int, IncompleteRow]
    """The rows with a gap, in order."""
    inserts: Sequence[int] = ()
    """The rows that land as upserts where their key has a row."""
    key_changes: Sequence[KeyChange] = ()

    def wanted(self) -> set[bytes]:
        """The keys whose stored images the gaps need."""
        return {self.keys[row - 1 if entry.missing.moved else row] for row, entry in self.incomplete.items()}

    def asked(self) -> set[bytes]:
        """The keys of which it matters whether an image is stored."""
        moved = {self.keys[change.row + offset] for change in self.key_changes for offset in (0, 1)}
        return moved.union(map(self.keys.__getitem__, self.inserts))


def encode_image(values: Sequence[SourceValue], unknown: Collection[int] = ()) -> bytes:
    """The image of a row that does not know the columns at some positions."""
    if not unknown:
        return _ENCODER.encode(values)
    known = {place: value for place, value in enumerate(values) if place not in unknown}
    return _ENCODER.encode({WIDTH: len(values), **known})


def known_values(image: bytes) -> Known:
    """What an image knows."""
    return _DECODER.decode(image)


def decode_image(image: bytes) -> dict[int, SourceValue]:
    """The values that an image knows, by column position."""
    found = known_values(image)
    known = found if isinstance(found, dict) else dict(enumerate(found))
    known.pop(WIDTH, None)
    return known


def by_position(known: Known, width: int) -> dict[int, Any]:
    """What an image knows, by the position of a column, of a table that has this many columns now."""
    found: dict[int, Any] = known if isinstance(known, dict) else {WIDTH: len(known), **dict(enumerate(known))}
    if WIDTH not in found:
        return found
    return {**dict.fromkeys(range(found[WIDTH], width)), **found, WIDTH: width}


def missing_of(ordinals: Sequence[int], known: Known | None) -> Sequence[int]:
    """Those of some ascending column positions that are not known; None: there is no image."""
    if known is None:
        return ordinals
    if isinstance(known, list):
        return ()
    width = known.get(WIDTH)
    return [ordinal for ordinal in ordinals if ordinal not in known and (width is None or ordinal < width)]


def value_in(known: Known, ordinal: int) -> SourceValue:
    """The value at a position that is not missing."""
    if isinstance(known, dict):
        return known.get(ordinal)
    return known[ordinal] if ordinal < len(known) else None


def row_keys(columns: Sequence[pa.Array]) -> list[bytes]:
    """The canonical form of typed keys, given by key column and row; equal for equal keys only."""
    texts = [_canonical(column).to_pylist() for column in columns]
    if len(texts) == 1:
        return [_bounded(text.encode()) for text in texts[0]]
    return [_bounded(_ENCODER.encode(key)) for key in zip(*texts, strict=True)]


def _canonical(column: pa.Array) -> pa.StringArray:
    if pa.types.is_binary(column.type):
        return pa.array([value.hex() for value in column.to_pylist()], pa.string())
    if pa.types.is_floating(column.type):
        return pc.cast(pc.add(column, 0.0), pa.string())  # the two zeros are one key
    return pc.cast(column, pa.string())


def _bounded(key: bytes) -> bytes:
    return key if len(key) <= MAX_KEY_BYTES else b"\0" + hashlib.sha256(key).digest()
