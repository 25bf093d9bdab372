"""Row images: the latest full row of each key, from which partial updates are completed.

An image is JSON: a list of the source's values in the order of the table's columns. If the value of a column is
unknown, it is an object of values by position instead, with the number of columns under position -1. So is the image
of a row that is deleted and remains in the mirror, with true under position -2 before them. A column that was
added after the image was written is NULL in it, as in the mirrored row. Images are stored by row key, which is the
typed key in canonical form. An update of a hundred bytes can become a row of any size, so the size of a request does
not bound its images; `CompletedBytes` does.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SourceValue
from app.domain.model.written_values import as_kept, fraction
from app.domain.rows.key_changes import KeyChange
from mirrorgate.errors import Code, RejectedInput

MAX_KEY_BYTES: Final = 256
"""A longer row key is stored as its digest after a zero byte, with which no text starts."""

MAX_COMPLETED_BYTES: Final = 2**27
"""Bytes of the row images that a request is completed from, and that a transaction's requests leave together."""

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_kept)
_DECODER: Final[msgspec.json.Decoder[list[Any] | dict[int, Any]]] = msgspec.json.Decoder(
    list[Any] | dict[int, Any], float_hook=fraction
)
_IMAGES_DECODER: Final[msgspec.json.Decoder[list[list[Any] | dict[int, Any]]]] = msgspec.json.Decoder(
    list[list[Any] | dict[int, Any]], float_hook=fraction
)


class MissingColumns(NamedTuple):
    """The columns of a row that only a row image can give, by ascending position, and whose image that is."""

    ordinals: tuple[int, ...]
    moved: bool
    """True if it is the image of the old key, which the row before this one deletes."""
    optional: tuple[int, ...] = ()
    """Positions that are NULL if no image knows them: of columns that were added after the change."""
    of_new_row: tuple[int, ...] = ()
    """Positions that are NULL if there is no image at all: of a merge, which then inserts the row."""


Known: TypeAlias = list[SourceValue] | dict[int, Any]
"""The values that an image knows, by column position: all columns that the table had then, or some of them."""

WIDTH: Final = -1
"""The position under which an image with unknown columns has the number of columns of the table."""


DELETED: Final = -2
"""The first position of an image of a deleted row, with true under it."""

_DELETED_START: Final = b'{"-2":'


class StoredImage(NamedTuple):
    """An image, and the sequence of the batch that wrote it."""

    image: bytes
    sequence: int


class IncompleteRow(NamedTuple):
    """A row that lacks columns: its values so far, and the position of its message."""

    values: Sequence[SourceValue]
    missing: MissingColumns
    unknown: Collection[int]
    """Columns whose values are unknown and remain so in its image."""
    message: int
    pointer: str


@dataclass(frozen=True, slots=True)
class ImageRows:
    """The effect of a batch's rows on row images, by row: the key, and the image or None.

    The image is None for a delete and for a row that lacks columns.
    """

    keys: Sequence[bytes]
    images: Sequence[bytes | None]
    incomplete: Mapping[int, IncompleteRow] = field(default_factory=dict)
    """The rows that lack columns, in order."""
    inserts: Sequence[int] = ()
    """The rows that land as upserts if their key already has a row."""
    key_changes: Sequence[KeyChange] = ()

    def wanted(self) -> set[bytes]:
        """Return the keys whose stored images are needed to complete rows."""
        return {self.keys[row - 1 if entry.missing.moved else row] for row, entry in self.incomplete.items()}

    @property
    def has_deletes(self) -> bool:
        """True if a row is deleted."""
        return self.images.count(None) > len(self.incomplete)

    @property
    def deletes(self) -> Sequence[int]:
        """The rows that are deleted."""
        return [row for row, image in enumerate(self.images) if image is None and row not in self.incomplete]

    def flagged(self) -> set[bytes]:
        """Return the keys whose stored images are needed to flag deletes: of deleted rows, and of rows that move."""
        moved = {self.keys[change.row + 1] for change in self.key_changes}
        return moved.union(map(self.keys.__getitem__, self.deletes))

    def asked(self) -> set[bytes]:
        """Return the keys of which it matters whether an image is stored."""
        moved = {self.keys[change.row + offset] for change in self.key_changes for offset in (0, 1)}
        return moved.union(map(self.keys.__getitem__, self.inserts))


def encode_image(values: Sequence[SourceValue], unknown: Collection[int] = (), *, is_deleted: bool = False) -> bytes:
    """Return the image of a row whose values at some positions are unknown."""
    if not unknown and not is_deleted:
        return _ENCODER.encode(values)
    known = {ordinal: value for ordinal, value in enumerate(values) if ordinal not in unknown}
    return _ENCODER.encode({**({DELETED: True} if is_deleted else {}), WIDTH: len(values), **known})


def deleted_image(known: Known) -> bytes:
    """Return the image of a row with these values once it is deleted."""
    by_place = known if isinstance(known, dict) else {WIDTH: len(known), **dict(enumerate(known))}
    return _ENCODER.encode({DELETED: True, **by_place})


def is_deleted(image: bytes) -> bool:
    """Return True if an image is that of a deleted row."""
    return image.startswith(_DELETED_START)


def are_deleted(images: pa.BinaryArray) -> list[bool]:
    """Return for each image whether it is that of a deleted row."""
    found: list[bool] = pc.starts_with(images, _DELETED_START).to_pylist()
    return found


def encode_images(rows: Sequence[Sequence[SourceValue]]) -> list[bytes]:
    """Return the images of rows whose values are all known. One call writes them all: JSON has no line feed in it."""
    return _ENCODER.encode_lines(rows).split(b"\n")[:-1]


def list_images(images: Sequence[bytes], width: int) -> list[list[SourceValue]] | None:
    """Return the values of images that know all of the table's `width` columns; None if one of them does not.

    One call decodes them all.
    """
    lists = known_lists(images)
    return lists if lists is not None and all(len(known) == width for known in lists) else None


def known_lists(images: Sequence[bytes]) -> list[list[SourceValue]] | None:
    """Return the values of images that know all columns of their time; None if one of them does not."""
    found = _IMAGES_DECODER.decode(b"[%b]" % b",".join(images))
    lists = [known for known in found if isinstance(known, list)]
    return lists if len(lists) == len(found) else None


@lru_cache(maxsize=1_024)
def completion(ordinals: tuple[int, ...], width: int) -> Callable[[Sequence[SourceValue]], tuple[SourceValue, ...]]:
    """Return a function that takes a row from its values and, at these positions, from the old ones behind them."""
    return pick([at + width if at in ordinals else at for at in range(width)])


def pick(places: Sequence[int]) -> Callable[[Sequence[SourceValue]], tuple[SourceValue, ...]]:
    """Return a function that takes the values at these places; it runs in C for two or more."""
    if len(places) > 1:
        getter: Callable[[Sequence[SourceValue]], tuple[SourceValue, ...]] = itemgetter(*places)
        return getter
    if not places:
        return lambda values: ()
    place = places[0]
    return lambda values: (values[place],)


def known_values(image: bytes) -> Known:
    """Return the values that an image knows."""
    return _DECODER.decode(image)


def decode_image(image: bytes) -> dict[int, SourceValue]:
    """Return the values that an image knows, by column position."""
    found = known_values(image)
    known = found if isinstance(found, dict) else dict(enumerate(found))
    known.pop(WIDTH, None)
    known.pop(DELETED, None)
    return known


def by_position(known: Known, width: int) -> dict[int, Any]:
    """Return what an image knows, by column position, for a table that has this many columns now."""
    found: dict[int, Any] = known if isinstance(known, dict) else {WIDTH: len(known), **dict(enumerate(known))}
    if WIDTH not in found:
        return found
    return {**dict.fromkeys(range(found[WIDTH], width)), **found, WIDTH: width}


def missing_of(ordinals: Sequence[int], known: Known | None) -> Sequence[int]:
    """Return those of some ascending column positions that an image, or None for no image, does not know."""
    if known is None:
        return ordinals
    if isinstance(known, list):
        return ()
    width = known.get(WIDTH)
    return [ordinal for ordinal in ordinals if ordinal not in known and (width is None or ordinal < width)]


def value_in(known: Known, ordinal: int) -> SourceValue:
    """Return the value at a position that is not missing."""
    if isinstance(known, dict):
        return known.get(ordinal)
    return known[ordinal] if ordinal < len(known) else None


class TooMuchTogether(RejectedInput):
    """The requests of a transaction take too many bytes together; each one may still fit alone."""


@dataclass(slots=True)
class CompletedBytes:
    """The bytes that the earlier requests of this transaction left, in all tables."""

    size: int = 0
    read: int = 0
    """Bytes of the images that were read for all requests of this transaction, in all tables."""

    def check(self, size: int) -> None:
        """Check that this many more bytes fit. Raises RejectedInput `body_too_large`, or TooMuchTogether."""
        if self.size + size > MAX_COMPLETED_BYTES:
            detail = f"the row images that the request's changes leave take more than {MAX_COMPLETED_BYTES} bytes"
            rejection = RejectedInput if size > MAX_COMPLETED_BYTES else TooMuchTogether
            raise rejection(Code.BODY_TOO_LARGE, detail)


def row_keys(columns: Sequence[pa.Array]) -> list[bytes]:
    """Return the canonical form of typed keys, given by key column and row; equal only for equal keys."""
    texts = [_canonical(column).to_pylist() for column in columns]
    if len(texts) == 1:
        return [_bounded(text.encode()) for text in texts[0]]
    return [_bounded(_ENCODER.encode(key)) for key in zip(*texts, strict=True)]


def key_column(columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """Return `row_keys` as an array; of one key column without a Python object for each key."""
    if len(columns) == 1:
        keys = pc.cast(_canonical(columns[0]), pa.binary())
        if (pc.max(pc.binary_length(keys)).as_py() or 0) <= MAX_KEY_BYTES:
            return keys
    return pa.array(row_keys(columns), pa.binary())


def _canonical(column: pa.Array) -> pa.StringArray:
    if pa.types.is_binary(column.type):
        return pa.array([value.hex() for value in column.to_pylist()], pa.string())
    if pa.types.is_floating(column.type):
        return pc.cast(pc.add(column, 0.0), pa.string())  # 0.0 and -0.0 are the same key
    return pc.cast(column, pa.string())


def _bounded(key: bytes) -> bytes:
    return key if len(key) <= MAX_KEY_BYTES else b"\0" + hashlib.sha256(key).digest()
