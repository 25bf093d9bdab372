"""Columnar reading of the images of one Replicate table: images -> shaped changes.

All images become one JSON array, which a type made of the table's columns decodes, unless `columnar` has decoded them
with their messages. Masks and the rules of `masks` are
applied once for each shape that messages have, because they do not depend on values.

Invariant: as in `columnar`, every quote belongs to a decoded key or text, and what is unusual is not read.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate, chain, compress, pairwise
from operator import itemgetter
from types import GenericAlias
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from app.domain.model.change import Change, Image, Operation, SourceTime
from app.domain.model.written_values import as_json, keep_minus_zeros
from app.domain.rows.row_rules import ChangeFacts, LogRun, Shape, ShapedChanges, Values
from app.domain.rows.source_progress import progress
from app.formats.json.decoder import exact_fraction
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.json.texts import MAX_NESTED_VALUES, count_brackets
from app.formats.not_columnar import NotColumnar
from app.formats.replicate.columnar import DataColumns, is_uniform
from app.formats.replicate.data_messages import (
    OPERATIONS,
    is_false,
    log_position_of,
    source_time,
    transaction_id,
    transaction_order,
)
from app.formats.replicate.forms.standard_form import HeaderPointers, Id, Text
from app.formats.replicate.history import SourceVersion
from app.formats.replicate.masks import ColumnLayout, apply_layout, check_without_layout, is_beyond, read_mask
from app.formats.replicate.metadata import MAX_ORDINAL
from mirrorgate.errors import RejectedInput

_Names: TypeAlias = frozenset[str]
_Key: TypeAlias = tuple[Any, ...]
"""Parts that decide a change's shape: its operation, masks and external schema id, and its images' members."""

_Found = TypeVar("_Found")

_NULL: Final = Raw(b"null")
_NO_POINTERS: Final = HeaderPointers("")
_CONTAINERS: Final = {dict, list}
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_json)
_MAX_SHAPES: Final = 256
"""Shapes that are kept, and shapes of messages that are read together; working one out takes longer than a message."""

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
        usual = _image(self._names, str | int | bool | None)
        self.image_type: Any = usual | None
        """The type of most images: null, or scalars that are not fractions for all columns."""
        self._decoded_types = {usual, type(None), UnsetType}
        self._usual = _decoder(usual)
        self._full, self._partial = _decoder(_image(self._names, Any)), _decoder(_image(self._names, Any, UNSET))
        self._shapes: dict[_Key, Shape] = {}

    def read(self, parts: Sequence[DataColumns]) -> list[ShapedChanges]:
        """Return the changes of each part, which are read together. Raises NotColumnar if a message is unusual."""
        columns = parts[0] if len(parts) == 1 else DataColumns._make(map(_joined, zip(*parts, strict=True)))
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
        shapes = self._shapes_of(columns, before_given, after_given)
        if shapes is None:
            raise NotColumnar
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
            presence = [tuple(value is not UNSET for value in row) for row in rows]
            names = {present: frozenset(compress(self._names, present)) for present in set(presence)}
            given = [names[present] for present in presence]
            rows = [tuple(None if value is UNSET else value for value in row) for row in rows]
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
        if not (is_scalar or all(_CONTAINERS.isdisjoint(map(type, astuple(image))) for image in filter(None, images))):
            return None
        return (images, is_full) if is_all_decoded(document, _ENCODER.encode(images)) else None

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

    def _shapes_of(
        self, columns: DataColumns, before: Sequence[_Names | None], after: Sequence[_Names | None]
    ) -> list[Shape] | None:
        """Return the shape of each change, None if one is not read."""
        parts = (columns.operations, columns.column_masks, columns.change_masks, columns.external_ids)
        given = (*parts, before, after)
        is_one = is_uniform(given)
        keys = [tuple(column[0] for column in given)] if is_one else [*zip(*given, strict=True)]
        known, new = self._shapes, set(keys) - self._shapes.keys()
        if len(known) + len(new) > _MAX_SHAPES:
            known.clear()
            new = set(keys)
        if len(new) > _MAX_SHAPES:
            return None
        for key in new:
            if (shape := self._shape(*key)) is None:
                return None
            known[key] = shape
        return [known[keys[0]]] * len(before) if is_one else [*map(known.__getitem__, keys)]

    def _shape(
        self,
        written_operation: str,
        column_mask: Text,
        change_mask: Text,
        external_id: Id,
        before: _Names | None,
        after: _Names | None,
    ) -> Shape | None:
        """Return the shape of changes with these facts, as the exact path sees them; None if it rejects them."""
        if any(
            isinstance(text, str) and len(text) > _MAX_MASK_OR_ID for text in (column_mask, change_mask, external_id)
        ):
            return None
        operation = OPERATIONS.get(written_operation.upper())
        is_of_version = not external_id or self._version is None or str(external_id) == self._version.external_schema_id
        needed = before or after if operation is Operation.DELETE else after
        if operation is None or needed is None or not is_of_version or external_id == 0:  # may be written -0
            return None
        change = Change(0, operation, _image_of(before), _image_of(after), "", "")
        try:
            masks = (read_mask(column_mask or None, 0, ""), read_mask(change_mask or None, 0, ""))
            if self._layout is None:
                check_without_layout(change, *masks, _NO_POINTERS)
            else:
                change = apply_layout(change, *masks, _NO_POINTERS, self._layout)
        except RejectedInput:
            return None
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


def _image(names: Sequence[str], *type_and_default: Any) -> type[msgspec.Struct]:
    """Return the type of images of these columns, which are required unless there is a default."""
    fields = {f"column_{position}": name for position, name in enumerate(names)}
    columns = [(field, *type_and_default) for field in fields]
    return msgspec.defstruct("Image", columns, rename=fields, gc=False, forbid_unknown_fields=True)


def _decoder(image: type[msgspec.Struct]) -> msgspec.json.Decoder[list[msgspec.Struct | None]]:
    return msgspec.json.Decoder(GenericAlias(list, (image | None,)), float_hook=exact_fraction)


def _as_written(image: Any) -> Raw:
    """Return as bytes what is null, absent or was decoded with its message; no other spelling of it matters."""
    return Raw(_ENCODER.encode(image)) if image else _NULL


def _image_of(names: _Names | None) -> Image | None:
    return None if names is None else dict.fromkeys(names)


def _given(image: Image | None) -> _Names | None:
    return None if image is None else frozenset(image)


def _joined(columns: Sequence[Sequence[Any]]) -> list[Any]:
    return [*chain.from_iterable(columns)]


def _placed(found: Iterable[_Found], images: Sequence[Any]) -> list[_Found | None]:
    """Return what was found for each image, None for null."""
    rest = iter(found)
    return [next(rest) if image else None for image in images]
