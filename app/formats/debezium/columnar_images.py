"""Columnar reading of the images of one table: images -> shaped changes.

`EventReader` makes one JSON array of all images, which a type made of the table's columns decodes. Values are read
column by column, and the rules of `messages` apply once to each shape that events have. Invariant: the changes equal
those of `RecordReader`, or NotColumnar is raised.

`reader_of_columns` and `typing_of_columns` read a column of values as `values` reads each of them: numbers of days and
seconds, and decimals, by Arrow kernels. Row images have source values, which are strings here. For a table without row
images, the kernels make the column of the table at once; a string that is parsed again costs more than all else that is
done with the value (performance notebook). Invariant: the result is that of the reader for each value, or ValueError is
raised.
"""

import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, compress, islice, pairwise
from types import GenericAlias
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from app.domain.model.change import Operation, SourceValue
from app.domain.model.table import Table
from app.domain.model.table_schema import Column, TypeName
from app.domain.model.written_values import JSON_ENCODER, keep_minus_zeros
from app.domain.rows.conversion import BadValues, ValueReading, beyond_calendar, convert, reading_of, timestamps_in
from app.domain.rows.row_image import pick
from app.domain.rows.row_rules import Shape, ShapedChanges, TypeColumn
from app.formats.columnar import CONTAINERS, SCALAR, NotColumnar, Shapes, image_type
from app.formats.debezium.columnar_events import EventColumns
from app.formats.debezium.connect_schema import DECIMAL, ConnectField, row_fields
from app.formats.debezium.events import may_be_event
from app.formats.debezium.values import (
    MAX_DECIMAL_BYTES,
    READERS,
    DebeziumReading,
    ReadValue,
    column_reader,
    field_reader,
    hides_unavailable,
    placeholder_texts,
)
from app.formats.json.decoder import exact_fraction
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.json.texts import has_suspicious_escape

ReadColumn: TypeAlias = Callable[[Sequence[Any]], Sequence[SourceValue]]
"""Reads the values of a column, None for NULL. Raises ValueError, as a reader of values does."""

_UNITS: Final[Mapping[str, tuple[str, int]]] = {
    "io.debezium.time.Timestamp": ("ms", 1_000),
    "org.apache.kafka.connect.data.Timestamp": ("ms", 1_000),
    "io.debezium.time.MicroTimestamp": ("us", 1_000_000),
    "io.debezium.time.NanoTimestamp": ("ns", 1_000_000_000),
}
"""By semantic type: Arrow's unit, and how many of it make a second."""

_DAYS: Final = frozenset({"io.debezium.time.Date", "org.apache.kafka.connect.data.Date"})
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
"""Of the years 1 to 9999."""
_INFINITE: Final = (-(2**63), 2**63 - 1)
"""Value of nanoseconds for a time that they do not reach."""
_MAX_DIGITS: Final = 19
"""Of an integer of 64 bits."""
_MAX_SCALE: Final = 6
"""Digits behind the point up to which Arrow writes decimals without an exponent."""
_SAFE_TO_SHARE: Final = ({str}, {int})
"""Types of which equal values are written alike, other than 1.0 and 1.00, or True and 1."""


def reader_of_columns(field: ConnectField | None, read: ReadValue) -> ReadColumn:
    """Return the reader of columns whose values `read` reads; `field` describes them, if the events have a schema."""
    if field is not None and field.meaning in _UNITS and READERS[field.meaning] is read:
        unit, per_second = _UNITS[field.meaning]
        return lambda values: _timestamps(values, unit, per_second, read)
    if field is not None and field.meaning == DECIMAL and 0 < field.scale <= _MAX_SCALE:
        scale = field.scale
        return lambda values: _decimals(values, scale, read)
    return lambda values: _each(values, read)


def typing_of_columns(
    field: ConnectField | None, column: Column, read: ReadValue, reading: ValueReading
) -> TypeColumn | None:
    """Return what types a column as `convert` types what `read` makes of its values; None if no kernel does."""
    kernel = _kernel(field, column, read, reading) if field is not None else None
    return None if kernel is None else partial(_typed, kernel, column, read, reading)


_Kernel: TypeAlias = Callable[[Sequence[Any]], pa.Array | None]
"""Returns the column, or None where each value has to be read. Raises ArrowInvalid."""


def _kernel(field: ConnectField, column: Column, read: ReadValue, reading: ValueReading) -> _Kernel | None:
    wanted = column.type
    if field.meaning == DECIMAL:
        is_exact = wanted.name is TypeName.DECIMAL and 0 <= field.scale <= min(wanted.scale, _MAX_DIGITS)
        return partial(_decimal_column, field.scale, wanted.arrow) if is_exact else None
    if READERS.get(field.meaning) is not read:
        return None
    if wanted.name is TypeName.TIMESTAMP and field.meaning in _UNITS:
        return partial(_timestamp_column, _UNITS[field.meaning][0], reading.zone)
    return _date_column if wanted.name is TypeName.DATE and field.meaning in _DAYS else None


def _typed(kernel: _Kernel, column: Column, read: ReadValue, reading: ValueReading, values: Sequence[Any]) -> pa.Array:
    """Return the column. Raises BadValues."""
    try:
        array = kernel(values)
    except pa.ArrowInvalid:
        array = None
    if array is not None:
        return array
    try:
        return convert(_each(values, read), column.type, reading)
    except ValueError:
        raise BadValues({}) from None


def _timestamp_column(unit: str, zone: str, values: Sequence[Any]) -> pa.Array | None:
    numbers = _integers(values)
    if numbers is None:
        return None
    return timestamps_in(zone, pc.cast(pc.cast(numbers, pa.timestamp(unit)), pa.timestamp("us")))


def _date_column(values: Sequence[Any]) -> pa.Array | None:
    numbers = _integers(values)
    days = None if numbers is None else pc.cast(pc.cast(numbers, pa.int32()), pa.date32())
    return None if days is None or pc.any(beyond_calendar(days)).as_py() else days


def _decimal_column(scale: int, wanted: pa.DataType, values: Sequence[Any]) -> pa.Array | None:
    numbers = _decimal_numbers(values, scale)
    return None if numbers is None else pc.cast(numbers, wanted)


def _each(values: Sequence[Any], read: ReadValue) -> Sequence[SourceValue]:
    """Read values one by one, equal ones once where they are written alike."""
    if {*map(type, values)} - {type(None)} in _SAFE_TO_SHARE:
        known = {value: None if value is None else read(value) for value in {*values}}
        return [*map(known.__getitem__, values)]
    return [None if value is None else read(value) for value in values]


def _timestamps(values: Sequence[Any], unit: str, per_second: int, read: ReadValue) -> Sequence[SourceValue]:
    numbers = _integers(values)
    if numbers is None:
        return _each(values, read)
    bounds = pc.min_max(numbers).as_py()
    low, high = bounds["min"], bounds["max"]
    if low is None or low < _FIRST_SECOND * per_second or high >= (_LAST_SECOND + 1) * per_second:
        return _each(values, read)
    if low in _INFINITE or high in _INFINITE:
        return _each(values, read)
    texts: list[str | None] = pc.cast(pc.cast(numbers, pa.timestamp(unit)), pa.string()).to_pylist()
    whole = "." + "0" * (len(str(per_second)) - 1)
    if any(text is not None and text.endswith(whole) for text in texts):
        return [text and text.removesuffix(whole) for text in texts]
    return texts


def _decimals(values: Sequence[Any], scale: int, read: ReadValue) -> Sequence[SourceValue]:
    decimals = _decimal_numbers(values, scale)
    if decimals is None:
        return _each(values, read)
    texts: list[str | None] = pc.cast(decimals, pa.string()).to_pylist()
    return texts


def _decimal_numbers(values: Sequence[Any], scale: int) -> pa.Decimal128Array | None:
    """Return decimals in base64 that have at most 64 bits; None if there are other values."""
    if not {*map(type, values)} <= {str, type(None)}:
        return None
    try:
        contents = [None if value is None else binascii.a2b_base64(value, strict_mode=True) for value in values]
    except ValueError:
        return None
    if b"" in contents or max(map(len, filter(None, contents)), default=1) > MAX_DECIMAL_BYTES:
        return None
    numbers = _integers([None if content is None else int.from_bytes(content, signed=True) for content in contents])
    if numbers is None:
        return None
    digits = pc.cast(numbers, pa.decimal128(_MAX_DIGITS, 0))
    return pa.Array.from_buffers(pa.decimal128(_MAX_DIGITS, scale), len(digits), digits.buffers())


def _integers(values: Sequence[Any]) -> pa.Int64Array | None:
    """Return values that are all integers of 64 bits, else None."""
    if not {*map(type, values)} <= {int, type(None)}:
        return None
    try:
        return pa.array(values, pa.int64())
    except OverflowError:
        return None


_Row: TypeAlias = tuple[Any, ...]
_Names: TypeAlias = frozenset[str]
_Image: TypeAlias = Raw | UnsetType

_FRACTIONS: Final = frozenset({TypeName.FLOAT32, TypeName.FLOAT64, TypeName.DECIMAL})
_NEW_ROWS: Final = frozenset({Operation.INSERT, Operation.SNAPSHOT})
_NO_IMAGE: Final = (UNSET, Raw(b"null"), Raw(b"{}"))


class _Decoder(NamedTuple):
    """A decoder of images, and what is known of what it decodes."""

    decoder: msgspec.json.Decoder[list[msgspec.Struct]]
    is_full: bool
    """True if all images have all columns."""
    mixed: Sequence[int]
    """Positions of columns whose values can be lists and objects."""


class _Images(NamedTuple):
    """Images as they are written: UNSET for values that an image does not give, None for an absent image."""

    before: list[_Row | None]
    after: list[_Row | None]
    is_full: bool
    has_placeholders: bool
    mixed: Sequence[int]


class EventReader:
    """Reader of events whose rows have these fields, None for events without a schema, for one table."""

    def __init__(
        self,
        table: Table,
        row: ConnectField | None,
        reading: DebeziumReading,
        added: tuple[str, ...] | None = None,
    ) -> None:
        """Prepare; `added` are fields of flattened rows that are not columns, None for envelopes.

        Raises ValueError if msgspec cannot have the name of a column, or if a row can be taken for another event.
        """
        columns, options = table.schema.columns, table.options
        fields = {} if row is None else row.by_name
        self._names = table.schema.names
        self._all = frozenset(self._names)
        self._keys = frozenset(table.schema.key_columns)
        self._source_columns = None
        if row is not None:
            of_row = row_fields(row, table, is_flattened=added is not None)
            self._source_columns = frozenset(one.name for one in of_row)
        self._key_of = pick([self._names.index(name) for name in table.schema.key_columns])
        self._key_positions = {self._names.index(name) for name in self._keys}
        self._placeholders = placeholder_texts(reading.unavailable)
        self._placeholder_bytes = [JSON_ENCODER.encode(text)[1:-1] for text in self._placeholders]
        self._hiding = [at for at, one in enumerate(columns) if hides_unavailable(fields.get(one.name), one, options)]
        self._readers: dict[int, ReadColumn] = {}
        self._typed_by: dict[int, TypeColumn] = {}
        for at, column in enumerate(columns):
            field = fields.get(column.name)
            read = field_reader(field, column, options, reading) if field else column_reader(column, options, reading)
            if read is None:
                continue
            typing = typing_of_columns(field, column, read, reading_of(column.name, options))
            if typing is None or options.keeps_images or column.name in self._keys:
                self._readers[at] = reader_of_columns(field, read)
            else:
                self._typed_by[at] = typing
        usual = [Any if column.type.name in _FRACTIONS else SCALAR for column in columns]
        mixed = [at for at, value_type in enumerate(usual) if value_type is Any]
        any_values, everywhere = [Any] * len(columns), range(len(columns))
        self._others = [name for name in added or () if name not in self._all]
        self._decoders = [
            _Decoder(_decoder(self._names, usual, self._others), True, mixed),
            _Decoder(_decoder(self._names, any_values, self._others), True, everywhere),
        ]
        if added is None:
            self._decoders.append(_Decoder(_decoder(self._names, any_values, (), UNSET), False, everywhere))
        elif may_be_event(self._names):  # a row with all columns is told apart by their names
            raise ValueError
        self._shapes = Shapes(self._shape)

    def read(self, parts: Sequence[EventColumns]) -> list[ShapedChanges]:
        """Return the changes of each part. Raises NotColumnar."""
        operations = [operation for part in parts for operation in part.operations]
        count = len(operations)
        images = self._images(
            [image for part in parts for image in part.before], [image for part in parts for image in part.after]
        )
        before, after = images.before, images.after
        if images.has_placeholders:
            self._take_out_placeholders(operations, before, after)
        if self._hiding and self._may_hide_values(operations, after):
            raise NotColumnar
        is_full = images.is_full and not images.has_placeholders
        shapes = self._shapes_of(operations, before, after, is_full=is_full)
        before = [None if shape.before is None else row for shape, row in zip(shapes, before, strict=True)]
        after = [None if shape.after is None else row for shape, row in zip(shapes, after, strict=True)]
        self._check_old_values(shapes, before)
        rows = self._read_values(before + after, images.mixed, is_full=is_full)
        before, after = rows[:count], rows[count:]
        bounds = pairwise(accumulate((len(part.operations) for part in parts), initial=0))
        return [
            ShapedChanges(
                shapes[start:end],
                before[start:end],
                after[start:end],
                source_position=part.position,
                origins=part.facts,
                log=part.log,
                progress=part.progress,
                typed_by=self._typed_by,
            )
            for part, (start, end) in zip(parts, bounds, strict=True)
        ]

    def _images(self, before: Sequence[_Image], after: Sequence[_Image]) -> "_Images":
        """Return the values of each image as they are written, UNSET for those that it does not give."""
        given_before, given_after = _given(before), _given(after)
        given: Sequence[Any] = [*given_before, *given_after]
        document = b"[" + b",".join(given) + b"]"
        kept = keep_minus_zeros(document)
        for decoder in self._decoders:
            try:
                images = decoder.decoder.decode(kept)
                written_again = JSON_ENCODER.encode(images)
            except msgspec.ValidationError:
                continue
            except DECODE_ERRORS:
                break
            if has_suspicious_escape(document) or not is_all_decoded(document, written_again):
                break
            found: Iterator[_Row] = map(astuple, images)
            if self._others:
                found = (row[: len(self._names)] for row in found)
            old, new = _rows_of(before, given_before, found), _rows_of(after, given_after, found)
            has_placeholders = any(text in written_again for text in self._placeholder_bytes)
            return _Images(old, new, decoder.is_full, has_placeholders, decoder.mixed)
        raise NotColumnar

    def _take_out_placeholders(
        self, operations: Sequence[Operation | None], before: list[_Row | None], after: list[_Row | None]
    ) -> None:
        """Put the value before an update in the place of each placeholder, or UNSET without one."""
        for at, (operation, old, new) in enumerate(zip(operations, before, after, strict=True)):
            lacks_old, lacks_new = self._placeholders_in(old), self._placeholders_in(new)
            if not (lacks_old or lacks_new):
                continue
            if operation in _NEW_ROWS or not self._key_positions.isdisjoint({*lacks_old, *lacks_new}):
                raise NotColumnar
            if old is not None:
                old = before[at] = tuple(UNSET if place in lacks_old else value for place, value in enumerate(old))
            if new is not None:
                known = [UNSET if old is None or old[place] is None else old[place] for place in range(len(new))]
                after[at] = tuple(known[place] if place in lacks_new else value for place, value in enumerate(new))

    def _may_hide_values(self, operations: Sequence[Operation | None], after: Sequence[_Row | None]) -> bool:
        """Return True if an update has NULL where it can be a value that the connector could not read."""
        updated = [row for operation, row in zip(operations, after, strict=True) if row and operation not in _NEW_ROWS]
        return any(row[at] is None for row in updated for at in self._hiding)

    def _placeholders_in(self, row: _Row | None) -> Sequence[int]:
        texts = self._placeholders
        return [at for at, value in enumerate(row or ()) if type(value) is str and value in texts]

    def _shapes_of(
        self,
        operations: Sequence[Operation | None],
        before: Sequence[_Row | None],
        after: Sequence[_Row | None],
        *,
        is_full: bool,
    ) -> Sequence[Shape]:
        """Return the shape of each change, one object for equal ones."""
        given = [self._all if row else None for row in after] if is_full else [*map(self._given, after)]
        is_new = {*operations} <= _NEW_ROWS
        if not is_new and not self._keys:
            raise NotColumnar
        old = [None] * len(given) if is_new else [*map(self._old_given, operations, before, after)]
        return self._shapes.of(operations, old, given)

    def _given(self, row: _Row | None) -> _Names | None:
        """Return the columns that an image gives, None without one."""
        if row is None or UNSET not in row:
            return None if row is None else self._all
        return frozenset(compress(self._names, (value is not UNSET for value in row))) or None

    def _old_given(self, operation: Operation | None, old: _Row | None, new: _Row | None) -> _Names | None:
        """Return what of the image before it a change gives: the key, and all of it if an update changes the key."""
        if operation not in {Operation.UPDATE, Operation.DELETE}:
            return None
        key: _Row | None = None if old is None else self._key_of(old)
        if operation is Operation.DELETE:
            if key is None or None in key or UNSET in key:
                raise NotColumnar
            return self._keys
        if key is None or UNSET in key:
            return None
        new_key: _Row = key if new is None else self._key_of(new)
        is_same = all(one == other or other is UNSET for one, other in zip(key, new_key, strict=True))
        return self._keys if is_same else self._given(old)

    def _shape(self, operation: Operation | None, before: _Names | None, after: _Names | None) -> Shape:
        """Return the shape of changes with these images, as the exact path sees them. Raises NotColumnar."""
        if operation is None or (operation is not Operation.DELETE and after is None):
            raise NotColumnar
        if operation is Operation.DELETE:
            return Shape(operation, before, None)
        return Shape(operation, before, after, source_columns=self._source_columns)

    def _check_old_values(self, shapes: Sequence[Shape], before: Sequence[_Row | None]) -> None:
        """Raise NotColumnar for a wrong value before a change of the key: it lands nowhere, but is read."""
        old = [row for shape, row in zip(shapes, before, strict=True) if row and shape.before is not self._keys]
        for at, type_column in self._typed_by.items() if old else ():
            try:
                type_column([None if row[at] is UNSET else row[at] for row in old])
            except BadValues:
                raise NotColumnar from None

    def _read_values(self, rows: list[_Row | None], mixed: Sequence[int], *, is_full: bool) -> list[_Row | None]:
        """Return rows as columns of the table read their values, None for UNSET.

        `mixed` columns may have lists and objects, which are not read.
        """
        given = [row for row in rows if row is not None]
        for at in mixed:
            if not CONTAINERS.isdisjoint({type(row[at]) for row in given}):
                raise NotColumnar
        if is_full and not self._readers:
            return rows
        columns: list[Sequence[Any]] = [*zip(*given, strict=True)]
        for at, values in enumerate(columns):
            if not is_full and UNSET in values:
                columns[at] = values = [None if value is UNSET else value for value in values]
            if at in self._readers:
                columns[at] = self._readers[at](values)
        found = zip(*columns, strict=True)
        return [None if row is None else next(found) for row in rows]


def _given(images: Sequence[_Image]) -> Sequence[_Image]:
    """Return the images that are not absent; usually all are, or none, which counting finds out three times as fast."""
    absent = sum(map(images.count, _NO_IMAGE))
    if absent in {0, len(images)}:
        return () if absent else images
    return [image for image in images if image not in _NO_IMAGE]


def _rows_of(images: Sequence[_Image], given: Sequence[_Image], found: Iterator[_Row]) -> list[_Row | None]:
    """Return the next row of `found` for each image that is given, None for an absent one."""
    if len(given) in {0, len(images)}:
        return [*islice(found, len(given))] if given else [None] * len(images)
    return [None if image in _NO_IMAGE else next(found) for image in images]


def _decoder(
    names: Sequence[str], types: Sequence[Any], others: Sequence[str], *default: Any
) -> msgspec.json.Decoder[list[msgspec.Struct]]:
    """Return a decoder of images with values of these types, all of which are required unless there is a default.

    They can have the `others` as well, as strings, integers or booleans: the exact path bounds nested values.
    """
    image = image_type(names, types, *default, others=others)
    return msgspec.json.Decoder(GenericAlias(list, (image,)), float_hook=exact_fraction)
