"""Columnar reading of plain rows as JSON: bodies of one table -> tuples with shapes, without an object per value.

The table is known before the body is read, so msgspec decodes a body straight into a type made of its columns.

Invariant: the changes equal those of `decode_rows`, or NotColumnar is raised. Quote accounting proves that every key
and text was decoded; what is unusual is not read.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, compress
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from app.domain.model.change import Operation
from app.domain.model.written_number import as_json, keep_minus_zeros
from app.domain.rows.shaped_changes import Shape, ShapedChanges, Values
from app.formats.json.decoder import MessageDecoder
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.json.texts import has_suspicious_escape
from app.formats.not_columnar import NotColumnar
from app.formats.rows.operations import OPERATION_COLUMN, written_operation

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_json)
_CONTAINERS: Final = {dict, list}
_SCALAR: Final = str | int | bool | None
_OPERATION_FIELD: Final = ("operation", str | UnsetType | None, UNSET)
_MAX_SHAPES: Final = 256
"""Shapes of a table that are kept, and shapes of rows that are read together; more take the exact path."""


class RowsBody(NamedTuple):
    """The body of a request, the operation of rows without one, and how many rows the request may have."""

    body: bytes
    operation: Operation
    max_rows: int
    is_plain: bool = True
    """False for rows that a CDC tool wrote: they have no operations, and the text `null` is NULL in them."""


class _Decoder(NamedTuple):
    """A decoder of bodies, and what is known of what it decodes."""

    decoder: MessageDecoder[Any]
    is_full: bool
    """True if all rows have all columns; otherwise they have UNSET in the place of the others."""
    is_scalar: bool
    """True if no value is a list or an object."""


class RowShapes:
    """Makes changes of rows; rows with the same operation and columns share a shape."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[Operation, frozenset[str]], Shape] = {}

    def shaped(
        self, rows: Sequence[Values], operations: Sequence[Operation | None], given: Sequence[frozenset[str]]
    ) -> ShapedChanges:
        """Return the changes of rows, in the order of the columns. Raises NotColumnar for an unknown operation."""
        if operations.count(operations[0]) == len(rows) and given.count(given[0]) == len(rows):
            shapes = [self._shape(operations[0], given[0])] * len(rows)
        else:
            keys = [*zip(operations, given, strict=True)]
            distinct = {*keys}
            if len(distinct) > _MAX_SHAPES:
                raise NotColumnar
            shape_of = {key: self._shape(*key) for key in distinct}
            shapes = [*map(shape_of.__getitem__, keys)]
        are_deletes = [shape.before is not None for shape in shapes]
        if not any(are_deletes):
            return ShapedChanges(shapes, [None] * len(rows), rows)
        before = [row if is_delete else None for row, is_delete in zip(rows, are_deletes, strict=True)]
        after = [None if is_delete else row for row, is_delete in zip(rows, are_deletes, strict=True)]
        return ShapedChanges(shapes, before, after)

    def _shape(self, operation: Operation | None, given: frozenset[str]) -> Shape:
        if operation is None:
            raise NotColumnar
        shape = self._shapes.get((operation, given))
        if shape is None:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            is_delete = operation is Operation.DELETE
            shape = Shape(operation, given if is_delete else None, None if is_delete else given)
            self._shapes[operation, given] = shape
        return shape


class RowReader:
    """Reads rows of tables with these columns."""

    def __init__(self, columns: Sequence[str]) -> None:
        """Prepare. Raises ValueError if msgspec cannot have a name, or if a column has the name of the operation."""
        if OPERATION_COLUMN in columns:
            raise ValueError
        self._names = tuple(columns)
        self._all = frozenset(columns)
        self._decoders = {has_operations: self._decoders_of(has_operations) for has_operations in (False, True)}
        self._shapes = RowShapes()

    def read(self, parts: Sequence[RowsBody]) -> list[ShapedChanges]:
        """Return the changes of each part. Raises NotColumnar."""
        return [self._read(*part) for part in parts]

    def _read(self, body: bytes, operation: Operation, max_rows: int, is_plain: bool) -> ShapedChanges:
        has_operations = is_plain and OPERATION_COLUMN.encode() in body
        rows, is_full = self._decoded(body, has_operations)
        if len(rows) > max_rows:
            raise NotColumnar
        operations: Sequence[Operation | None] = [operation] * len(rows)
        if has_operations:
            written = [None if row[-1] is UNSET else row[-1] for row in rows]
            known = {text: operation if text is None else written_operation(text) for text in {*written}}
            operations, rows = [*map(known.__getitem__, written)], [row[:-1] for row in rows]
        given = [self._all] * len(rows)
        if not is_full:
            presence = [tuple(value is not UNSET for value in row) for row in rows]
            names = {present: frozenset(compress(self._names, present)) for present in {*presence}}
            given = [names[present] for present in presence]
            rows = [tuple(None if value is UNSET else value for value in row) for row in rows]
        changes = self._shapes.shaped(rows, operations, given)
        return changes if is_plain else replace(changes, null_text=True)

    def _decoded(self, body: bytes, has_operations: bool) -> tuple[list[tuple[Any, ...]], bool]:
        """Return the values of each row, and whether all rows have all columns."""
        kept = keep_minus_zeros(body)
        for decoder in self._decoders[has_operations]:
            if found := decoder.decoder.decode_well_formed(kept):
                return self._checked(body, found, decoder), decoder.is_full
        raise NotColumnar

    def _checked(self, body: bytes, found: Sequence[msgspec.Struct], decoder: "_Decoder") -> list[tuple[Any, ...]]:
        """Return the values of decoded rows if the body has nothing else."""
        rows = [*map(astuple, found)]
        if not decoder.is_scalar and not _CONTAINERS.isdisjoint(map(type, chain.from_iterable(rows))):
            raise NotColumnar
        try:
            written_again = _ENCODER.encode(found) if body.startswith(b"[") else _ENCODER.encode_lines(found)
        except DECODE_ERRORS:
            raise NotColumnar from None
        if has_suspicious_escape(body) or not is_all_decoded(body, written_again):
            raise NotColumnar
        return rows

    def _decoders_of(self, has_operations: bool) -> Sequence[_Decoder]:
        """Return decoders to try in turn."""
        types = (((_SCALAR,), True, True), ((Any,), True, False), ((Any, UNSET), False, False))
        return [_Decoder(MessageDecoder(self._row_type(has_operations, *of)), *known) for of, *known in types]

    def _row_type(self, has_operations: bool, *type_and_default: Any) -> type[msgspec.Struct]:
        names = {f"column_{at}": name for at, name in enumerate(self._names)}
        fields: list[Any] = [(field, *type_and_default) for field in names]
        if has_operations:
            fields.append(_OPERATION_FIELD)
            names["operation"] = OPERATION_COLUMN
        return msgspec.defstruct("Row", fields, rename=names, gc=False, forbid_unknown_fields=True)
