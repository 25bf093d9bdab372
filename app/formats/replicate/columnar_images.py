"""Columnar reading of the images of one Replicate table: images -> shaped changes.

All images become one JSON array, which a type made of the table's columns decodes, unless `columnar` has decoded them
with their messages. Masks and the rules of `masks` are
applied once for each shape that messages have, because they do not depend on values.

Invariant: as in `columnar`, every quote belongs to a decoded key or text, and what is unusual is not read.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from types import GenericAlias
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from app.domain.model.change import Change, Image, Operation, SourceTime, progress
from app.domain.model.written_values import JSON_ENCODER, keep_minus_zeros
from app.domain.rows.row_rules import ChangeFacts, LogRun, Shape, ShapedChanges, Values
from app.formats.columnar import CONTAINERS, SCALAR, NotColumnar, Shapes, given_columns, image_type, without_unset
from app.formats.json.decoder import exact_fraction
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.json.texts import MAX_NESTED_VALUES, count_brackets
from app.formats.replicate.columnar import DataColumns
from app.formats.replicate.history import SourceVersion
from app.formats.replicate.masks import ColumnLayout, apply_layout, check_without_layout, is_beyond, read_mask
from app.formats.replicate.messages import (
    OPERATIONS,
    is_false,
    log_position_of,
    source_time,
    transaction_id,
    transaction_order,
)
from app.formats.replicate.metadata import MAX_ORDINAL
from app.formats.replicate.standard_form import HeaderPointers, Id, Text
from mirrorgate.errors import RejectedInput

_Names: TypeAlias = frozenset[str]
_Found = TypeVar("_Found")

_NULL: Final = Raw(b"null")
_NO_POINTERS: Final = HeaderPointers("")
_MAX_MASK_OR_ID: Final = MAX_ORDINAL // 4
"""Characters of the masks and external schema ids that are kept: a mask of all columns, whatever zeros precede it."""


class ImageReader:
    """Reader of data messages of one table that were written under one version of its source; None if none is known."""

    def __init__(self, columns: Sequence[str], excluded: frozenset[str], version: SourceVersion | None) -> None:
        """Read into these columns of the table; raises ValueError if msgspec cannot have a name."""
        self._names = (*columns, *sorted(excluded.difference(columns)))
        self._all = frozenset(self._names)
        self._width = len(columns)
        self._version = version
        self._layout = ColumnLayout(version.columns, excluded) if version is not None and version.columns else None
        width = len(self._names)
        usual, full = (image_type(self._names, [of_value] * width) for of_value in (SCALAR, Any))
        self.image_type: Any = usual | None
        """The type of most images: null, or scalars that are not fractions for all columns."""
        self._decoded_types = {usual, type(None), UnsetType}
        self._usual = _decoder(usual)
        self._full, self._partial = _decoder(full), _decoder(image_type(self._names, [Any] * width, UNSET))
        self._shapes = Shapes(self._shape)

    def read(self, parts: Sequence[DataColumns]) -> list[ShapedChanges]:
        """Return the changes of each part, which are read together. Raises NotColumnar if a message is unusual."""
        joined = ([*chain.from_iterable(values)] for values in zip(*parts, strict=True))
        columns = parts[0] if len(parts) == 1 else DataColumns._make(joined)
        images = self._images([*columns.data, *columns.before_data])
        if images is None:
            raise NotColumnar
        rows, given = images
        count = len(columns.data)
        after, before, after_given, before_given = rows[:count], rows[count:], given[:count], given[count:]
        if deletes := {written for written in set(columns.operations) if written.upper() == "DELETE"}:
            for index in [index for index, written in enumerate(columns.operations) if written in deletes]:
                row, names, other = after[index], after_given[index], (before[index], before_given[index])
                if row is not None:  # the deleted row is in data, see `messages`
                    before[index], before_given[index] = row, names
                    after[index], after_given[index] = (None, None) if other == (row, names) else other
        parts_of_shapes = (columns.operations, columns.column_masks, columns.change_masks, columns.external_ids)
        shapes = self._shapes.of(*parts_of_shapes, before_given, after_given)
        return [
            ShapedChanges(
                shapes[start:end],
                before[start:end],
                after[start:end],
                ends_transaction=not is_false(columns.last_events[end - 1]),
                source_position=next((text for text in reversed(columns.sequences[start:end]) if text), None),
                origins=partial(_origins, columns, start, end),
                log=partial(_log_run, columns, start, end),
                progress=progress(_last_time(columns.timestamps[start:end]), None),
            )
            for start, end in pairwise(accumulate((len(part.data) for part in parts), initial=0))
        ]

    def _images(self, written: Sequence[Any]) -> tuple[list[Values | None], list[_Names | None]] | None:
        """Return the values of each image and the columns that it gives, None for null."""
        is_full = self._decoded_types.issuperset(map(type, written))
        found = (
            (written, True)
            if is_full
            else self._decoded([_as_written(image) if type(image) is not Raw else image for image in written])
        )
        if found is None:
            return None
        images, is_full = found
        rows: list[tuple[Any, ...]] = [*map(astuple, filter(None, images))]
        if self._is_out_of_range(rows):
            return None
        given = [self._all] * len(rows)
        if not is_full:
            given, rows = given_columns(self._names, rows), without_unset(rows)
        if len(self._names) > self._width:
            rows = [row[: self._width] for row in rows]
        return _placed(rows, images), _placed(given, images)

    def _decoded(self, written: Sequence[Raw]) -> tuple[Sequence[msgspec.Struct | None], bool] | None:
        """Return the images, and whether they have all columns."""
        document = b"[" + b",".join(written) + b"]"
        if len(document) > MAX_NESTED_VALUES and count_brackets(document) > MAX_NESTED_VALUES:
            return None
        try:
            images, is_full, is_scalar = self._decode(keep_minus_zeros(document))
        except DECODE_ERRORS:
            return None
        if not (is_scalar or all(CONTAINERS.isdisjoint(map(type, astuple(image))) for image in filter(None, images))):
            return None
        return (images, is_full) if is_all_decoded(document, JSON_ENCODER.encode(images)) else None

    def _decode(self, document: bytes) -> tuple[list[msgspec.Struct | None], bool, bool]:
        """Return the images, whether they have all columns, and whether all values are known to be scalars.

        Raises one of DECODE_ERRORS.
        """
        for decoder, is_full, is_scalar in ((self._usual, True, True), (self._full, True, False)):
            try:
                return decoder.decode(document), is_full, is_scalar
            except msgspec.ValidationError:
                continue
        return self._partial.decode(document), False, False

    def _is_out_of_range(self, rows: Sequence[Sequence[Any]]) -> bool:
        """Return True if a number is out of the range of the Replicate type of its column."""
        for name, (low, high) in self._layout.ranges.items() if self._layout else ():
            if name in self._all:
                values = {*map(itemgetter(self._names.index(name)), rows)}
                distinct = {min(values), max(values)} if {*map(type, values)} == {int} else values
                if any(is_beyond(value, low, high) for value in distinct):
                    return True
        return False

    def _shape(
        self,
        written_operation: str,
        column_mask: Text,
        change_mask: Text,
        external_id: Id,
        before: _Names | None,
        after: _Names | None,
    ) -> Shape:
        """Return the shape of changes with these facts, as the exact path sees them. Raises NotColumnar."""
        if any(
            isinstance(text, str) and len(text) > _MAX_MASK_OR_ID for text in (column_mask, change_mask, external_id)
        ):
            raise NotColumnar
        operation = OPERATIONS.get(written_operation.upper())
        is_of_version = not external_id or self._version is None or str(external_id) == self._version.external_schema_id
        needed = before or after if operation is Operation.DELETE else after
        if operation is None or needed is None or not is_of_version or external_id == 0:  # may be written -0
            raise NotColumnar
        change = Change(0, operation, _image_of(before), _image_of(after), "", "")
        try:
            masks = (read_mask(column_mask or None, 0, ""), read_mask(change_mask or None, 0, ""))
            if self._layout is None:
                check_without_layout(change, *masks, _NO_POINTERS)
            else:
                change = apply_layout(change, *masks, _NO_POINTERS, self._layout)
        except RejectedInput:
            raise NotColumnar from None
        facts = (change.source_columns, change.is_late)
        return Shape(operation, _given(change.before), _given(change.after), frozenset(), *facts)


def _last_time(timestamps: Sequence[Any]) -> SourceTime:
    """Return the last of these that is a time, None without one."""
    return next((time for time in map(source_time, reversed(timestamps)) if time is not None), None)


def _origins(columns: DataColumns, start: int, end: int) -> ChangeFacts:
    """Return the facts of the messages from `start` on, up to `end`."""
    positions = [text or None for text in columns.sequences[start:end]]
    return ChangeFacts(
        positions,
        [*map(source_time, columns.timestamps[start:end])],
        [*map(transaction_id, columns.transactions[start:end])],
        [*map(transaction_order, columns.event_counters[start:end])],
    )


def _log_run(columns: DataColumns, start: int, end: int) -> LogRun | None:
    """Return the positions of the messages from `start` on, up to `end`: all of them sort as strings."""
    sequences = columns.sequences[start:end]
    first, last = log_position_of(sequences[0]), log_position_of(sequences[-1])
    if first is None or last is None or {*map(type, sequences)} != {str}:
        return None
    joined = "".join(map(str, sequences))
    if {*map(len, map(str, sequences))} != {len(first.position)} or not (joined.isascii() and joined.isdecimal()):
        return None
    return LogRun(first, last, sequences, [*map(source_time, columns.timestamps[start:end])])


def _decoder(image: type[msgspec.Struct]) -> msgspec.json.Decoder[list[msgspec.Struct | None]]:
    return msgspec.json.Decoder(GenericAlias(list, (image | None,)), float_hook=exact_fraction)


def _as_written(image: Any) -> Raw:
    """Return as bytes what is null, absent or was decoded with its message; no other spelling of it matters."""
    return Raw(JSON_ENCODER.encode(image)) if image else _NULL


def _image_of(names: _Names | None) -> Image | None:
    return None if names is None else dict.fromkeys(names)


def _given(image: Image | None) -> _Names | None:
    return None if image is None else frozenset(image)


def _placed(found: Iterable[_Found], images: Sequence[Any]) -> list[_Found | None]:
    """Return what was found for each image, None for null."""
    rest = iter(found)
    return [next(rest) if image else None for image in images]
