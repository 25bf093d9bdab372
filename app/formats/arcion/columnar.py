"""Columnar reading of Arcion JSON: many bodies and messages at once, without an object per message.

A body is decoded in two steps. The first decodes the messages and leaves their images as bytes; it finds the tables.
The second decodes all images of one table together, into tuples of texts in the order of the table's columns.

Invariant: the changes equal those of `decode_arcion`, or nothing is returned. It never rejects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, compress
from typing import Any, Final, NamedTuple, Self

import msgspec
from msgspec import UNSET, Raw

from app.domain.model.source_name import SourceName
from app.domain.model.written_number import keep_minus_zeros
from app.domain.rows.shaped_changes import ChangeFacts, Shape, ShapedChanges, Values
from app.errors import RejectedInput
from app.formats.arcion.address import AddressResolver, TableAddress
from app.formats.arcion.exists_flags import MAX_CACHED_BYTES, MessageLayout, MessageLayouts
from app.formats.arcion.messages import position_of, time_of
from app.formats.arcion.native_images import is_native, native_images
from app.formats.json.decoder import MessageDecoder, exact_fraction
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.image_decoder import Given, ImageDecoder
from app.formats.json.nested_values import count_brackets
from app.formats.json.quote_accounting import are_opaque, count_quotes, is_all_read
from app.formats.json.texts import has_suspicious_escape
from app.formats.not_columnar import NotColumnar

_ADDRESS: Final = msgspec.json.Decoder(TableAddress)
_ANY: Final = msgspec.json.Decoder(float_hook=exact_fraction)
_IMAGE: Final = msgspec.json.Decoder(dict[str, str | int | bool | None] | None)
_MAX_CACHED: Final = 1_024
_OF_AN_ADDRESS: Final = 2
"""Objects that an address consists of, or fewer."""


class _Message(msgspec.Struct, gc=False):
    tableName: Raw
    opType: str
    exists: Given = UNSET
    before: Given = UNSET
    after: Given = UNSET
    cursor: Given = UNSET
    operationcount: Given = UNSET


_DECODER: Final = MessageDecoder(_Message)


class ArcionPart(NamedTuple):
    """The messages of one body for one source table, by key; images are still bytes."""

    operations: Sequence[str]
    exists: Sequence[Given]
    before: Sequence[Given]
    after: Sequence[Given]
    cursors: Sequence[Given]


class ArcionBody(NamedTuple):
    """The messages of a body by source table, in order of first appearance."""

    parts: Sequence[tuple[SourceName, ArcionPart]]
    messages: int
    wrong_hashes: int


def decode_columnar(bodies: Sequence[bytes]) -> list[ArcionBody | None]:
    """Return the messages of each body, or None where the exact path has to read it.

    All bodies are checked together, because most of the cost of a short one is fixed.
    """
    decoded = [*map(_DECODER.decode_well_formed, bodies)]
    valid = [(body, messages) for body, messages in zip(bodies, decoded, strict=True) if messages]
    if not valid:
        return [None] * len(bodies)
    keys = [*zip(*map(msgspec.structs.astuple, chain.from_iterable(messages for _, messages in valid)), strict=True)]
    if not _hides_nothing(valid[0][0] if len(valid) == 1 else b"".join(body for body, _ in valid), keys):
        return [None] if len(bodies) == 1 else [found for body in bodies for found in decode_columnar([body])]
    found: list[ArcionBody | None] = []
    start = 0
    for messages in decoded:
        end = start + len(messages or ())
        found.append(_body([values[start:end] for values in keys]) if messages else None)
        start = end
    return found


def _body(keys: Sequence[Sequence[Any]]) -> ArcionBody | None:
    """Return the messages of a body by source; None if an address is wrong."""
    addresses, *others, _ = keys
    count, first = len(addresses), addresses[0]
    try:
        if addresses.count(first) == count:
            source, wrong = _source(bytes(first))
            return ArcionBody(((source, ArcionPart(*others)),), count, wrong * count)
        named = [_source(bytes(address)) for address in addresses]
    except (RejectedInput, *DECODE_ERRORS):
        return None
    indexes: dict[SourceName, list[int]] = {}
    for index, (source, _) in enumerate(named):
        indexes.setdefault(source, []).append(index)
    parts = [
        (source, ArcionPart(*([values[at] for at in chosen] for values in others)))
        for source, chosen in indexes.items()
    ]
    return ArcionBody(parts, count, sum(wrong for _, wrong in named))


@dataclass(frozen=True, slots=True)
class ArcionTableReader:
    """Reads the images of messages for tables with the same columns."""

    images: ImageDecoder
    layouts: MessageLayouts

    @classmethod
    def of(cls, columns: Sequence[str]) -> Self:
        """Return the reader of tables with these columns. Raises ValueError for names that msgspec cannot take."""
        return cls(ImageDecoder(columns, str), MessageLayouts(columns))

    def read(self, parts: Sequence[ArcionPart]) -> list[ShapedChanges]:
        """Return the changes of each part. Raises NotColumnar, ValueError or RecursionError if one cannot be read.

        All images are decoded, also those that do not land: a duplicate key in one rejects its message.
        """
        operations, exists, before, after, _ = parts[0] if len(parts) == 1 else _together(parts)
        if any(map(is_native, exists)):
            if not all(map(is_native, exists)):
                raise NotColumnar
            return _by_part(parts, *native_images(tuple(self.layouts.columns)).read(operations, before, after))
        layouts = self._layouts(operations, exists)
        before_rows, before_full = self.images.decode_optional(_without_ignored(before, layouts))
        after_rows, after_full = self.images.decode_optional(after)
        if before_full and after_full and not any(layout.unlisted for layout in {*layouts}):
            fit = map(MessageLayout.fits_full, layouts, before_rows, after_rows)
        else:
            fit = map(MessageLayout.fits, layouts, before_rows, after_rows)
        if not all(fit):
            raise NotColumnar
        return _by_part(parts, [layout.shape for layout in layouts], before_rows, after_rows)

    def _layouts(self, operations: Sequence[str], exists: Sequence[Any]) -> list[MessageLayout]:
        first, count = exists[0], len(exists)
        if operations.count(operations[0]) == count and exists.count(first) == count:
            return [self.layouts.look_up(operations[0], first)] * count
        return [*map(self.layouts.look_up, operations, exists)]


def _by_part(
    parts: Sequence[ArcionPart],
    shapes: Sequence[Shape],
    before: Sequence[Values | None],
    after: Sequence[Values | None],
) -> list[ShapedChanges]:
    changes, start = [], 0
    for part in parts:
        own = slice(start, start := start + len(part.operations))
        position = next(filter(None, map(_position, reversed(part.cursors))), None)
        changes.append(
            ShapedChanges(
                shapes[own],
                before[own],
                after[own],
                null_text=True,
                source_position=position,
                origins=partial(_origins, part.cursors),
            )
        )
    return changes


def _together(parts: Sequence[ArcionPart]) -> ArcionPart:
    return ArcionPart(*([*chain.from_iterable(values)] for values in zip(*parts, strict=True)))


def _without_ignored(before: Sequence[Given], layouts: Sequence[MessageLayout]) -> Sequence[Given]:
    """Return the images before the changes without those that do not count but must be valid."""
    are_ignored = [layout.ignores_before for layout in layouts]
    if not any(are_ignored):
        return before
    ignored = [*compress(before, are_ignored)]
    distinct = ignored[:1] if ignored.count(ignored[0]) == len(ignored) else ignored
    given = [bytes(image) for image in distinct if image is not UNSET]
    if not all((_is_known_image if len(image) <= MAX_CACHED_BYTES else _is_image)(image) for image in given):
        raise NotColumnar
    return [UNSET if is_ignored else image for image, is_ignored in zip(before, are_ignored, strict=True)]


def _is_image(written: bytes) -> bool:
    """Tell whether this is an image, or null, without a column twice."""
    return is_all_read(written, [_IMAGE.decode(written)]) and not has_suspicious_escape(written)


_is_known_image: Final = lru_cache(_MAX_CACHED)(_is_image)
"""Most producers write the same image in all inserts."""


@lru_cache(_MAX_CACHED)
def _source(address: bytes) -> tuple[SourceName, int]:
    """Return the source table of an address, and the number of wrong hashes. Raises RejectedInput or ValueError."""
    if len(address) > MAX_CACHED_BYTES or count_brackets(address) > _OF_AN_ADDRESS:
        raise ValueError
    if not is_all_read(address, [_ANY.decode(address)]):
        raise ValueError
    if has_suspicious_escape(address):
        raise ValueError
    addresses = AddressResolver()
    return addresses.look_up(_ADDRESS.decode(keep_minus_zeros(address))), addresses.wrong_hashes


def _given(values: Sequence[Given]) -> list[Raw]:
    return [value for value in values if value is not UNSET]


def _distinct(values: Sequence[Raw]) -> Sequence[Raw]:
    """Return one of the values if all are written alike, which is usual, else all of them."""
    return values[:1] if values and values.count(values[0]) == len(values) else values


def _hides_nothing(bodies: bytes, keys: Sequence[Sequence[Any]]) -> bool:
    """Tell whether no message has a key twice or one that `_Message` does not know, nor anything odd in opaque values.

    `keys` are the values of all messages of the joined bodies, by key.
    """
    addresses, operations, *others = keys
    opaque = [*map(_given, others[-2:])]
    quotes = 4 * len(operations)  # of the keys and the texts of `opType`
    for values in (addresses, *map(_given, others[:-2]), *opaque):
        distinct = _distinct(values)
        repeated = len(values) if len(distinct) == 1 else 1
        quotes += 2 * len(values) + count_quotes(b"".join(distinct)) * repeated
    try:
        return quotes == count_quotes(bodies) and all(are_opaque(values, _ANY.decode) for values in opaque)
    except DECODE_ERRORS:
        return False


def _origins(cursors: Sequence[Given]) -> ChangeFacts:
    decoded = [*map(_cursor, cursors)]
    return ChangeFacts([*map(position_of, decoded)], [*map(time_of, decoded)])


def _position(cursor: Given) -> str | None:
    return position_of(_cursor(cursor))


def _cursor(cursor: Given) -> Any:
    return UNSET if cursor is UNSET else _ANY.decode(keep_minus_zeros(b"[" + cursor + b"]"))[0]
