"""Columnar reading of plain rows as JSON, CSV or Arrow: bodies of one table -> rows, without an object per value.

`RowReader` reads JSON into tuples with shapes. The table is known before the body is read, so msgspec decodes a body
straight into a type made of its columns. Invariant: the changes equal those of `decode_rows`, or NotColumnar is raised.
Quote accounting proves that every key and text was decoded; unusual bodies are not read.

`CsvReader` reads CSV: lines are split at once, and each column is read as a whole. A line with quotes is read by the
grammar of the exact path, if it is one complete record. Invariant: the changes equal those of `decode_csv_rows`, or
NotColumnar is raised: for a record of several lines, a wrong number of fields, an unknown column or operation, and
everything else that has to be rejected.

`split_operations` reads the operation of each row from a column of strings beside the others, for rows that are Arrow
columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET
from msgspec.structs import astuple

from app.domain.model.change import Operation, SourceValue
from app.domain.model.written_values import JSON_ENCODER, keep_minus_zeros
from app.domain.rows.from_arrow import RowOperations
from app.domain.rows.row_rules import Shape, ShapedChanges, Values
from app.formats.columnar import CONTAINERS, SCALAR, NotColumnar, Shapes, given_columns, image_type, without_unset
from app.formats.csv import MAX_FIELDS, read_records
from app.formats.json.decoder import MessageDecoder
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.json.texts import has_suspicious_escape
from app.formats.rows.messages import BAD_OPERATION, OPERATION_COLUMN, operation_of, written_operation
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to
from mirrorgate.parameters import CsvDialect, RowOperation

MAX_ROWS_NAMED: Final = 100


def split_operations(given: pa.Table, default: RowOperation) -> tuple[pa.Table, RowOperations]:
    """Return the columns of values, and the operation of each row; NULL or no column means the default.

    Only different strings are read, not each row's. Raises RejectedInput `bad_op` naming the rows.
    """
    if OPERATION_COLUMN not in given.schema.names:
        return given, _all(default, given.num_rows)
    column = given.column(OPERATION_COLUMN)
    rest = given.drop_columns([OPERATION_COLUMN])
    if pa.types.is_null(column.type):
        return rest, _all(default, given.num_rows)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        detail = f"{OPERATION_COLUMN} is {column.type} in the stream; write it as a string column"
        raise RejectedInput.of((_problem(Code.SCHEMA_MISMATCH, detail),))
    written = column.dictionary_encode(null_encoding="encode").combine_chunks()
    texts = written.dictionary.to_pylist()
    found = [operation_of(text, default) for text in texts]
    if None in found:
        wrong = pa.array([operation is None for operation in found]).take(written.indices)
        rows = pc.indices_nonzero(wrong).slice(0, MAX_ROWS_NAMED).to_pylist()
        raise RejectedInput.of(tuple(_problem(Code.BAD_OP, BAD_OPERATION, row) for row in rows))
    kinds = [*dict.fromkeys(operation for operation in found if operation is not None)]
    codes = pa.array([kinds.index(operation) for operation in found if operation is not None], pa.int32())
    return rest, RowOperations(kinds, codes.take(written.indices))


def _all(default: RowOperation, rows: int) -> RowOperations:
    operation: Operation | None = operation_of(None, default)
    assert operation is not None
    return RowOperations([operation], pa.repeat(pa.scalar(0, pa.int32()), rows))


def _problem(code: Code, detail: str, row: int | None = None) -> Problem:
    return Problem(code, detail, row, pointer_to("", OPERATION_COLUMN), OPERATION_COLUMN)


class RowsBody(NamedTuple):
    """The body of a request, the operation of rows without one, and how many rows the request may have."""

    body: bytes
    operation: Operation
    max_rows: int
    is_plain: bool = True
    """False for rows that a CDC tool wrote: they have no operations, and the string `null` is NULL in them."""


class _Decoder(NamedTuple):
    """A decoder of bodies, and what is known of what it decodes."""

    decoder: MessageDecoder[Any]
    is_full: bool
    """True if all rows have all columns; otherwise they have UNSET in the place of the others."""
    is_scalar: bool
    """True if no value is a list or an object."""


def _shape(operation: Operation | None, given: frozenset[str]) -> Shape:
    if operation is None:
        raise NotColumnar
    is_delete = operation is Operation.DELETE
    return Shape(operation, given if is_delete else None, None if is_delete else given)


def _shaped(rows: Sequence[Values], shapes: Sequence[Shape]) -> ShapedChanges:
    """Return the changes of rows, in the order of the columns."""
    are_deletes = [shape.before is not None for shape in shapes]
    if not any(are_deletes):
        return ShapedChanges(shapes, [None] * len(rows), rows)
    before = [row if is_delete else None for row, is_delete in zip(rows, are_deletes, strict=True)]
    after = [None if is_delete else row for row, is_delete in zip(rows, are_deletes, strict=True)]
    return ShapedChanges(shapes, before, after)


class RowReader:
    """Reader of rows of tables with these columns."""

    def __init__(self, columns: Sequence[str]) -> None:
        """Prepare. Raises ValueError if msgspec cannot have a name, or if a column has the name of the operation."""
        if OPERATION_COLUMN in columns:
            raise ValueError
        self._names = tuple(columns)
        self._all = frozenset(columns)
        self._decoders = {has_operations: self._decoders_of(has_operations) for has_operations in (False, True)}
        self._shapes = Shapes(_shape)

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
            given, rows = given_columns(self._names, rows), without_unset(rows)
        changes = _shaped(rows, self._shapes.of(operations, given))
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
        if not decoder.is_scalar and not CONTAINERS.isdisjoint(map(type, chain.from_iterable(rows))):
            raise NotColumnar
        try:
            written_again = JSON_ENCODER.encode(found) if body.startswith(b"[") else JSON_ENCODER.encode_lines(found)
        except DECODE_ERRORS:
            raise NotColumnar from None
        if has_suspicious_escape(body) or not is_all_decoded(body, written_again):
            raise NotColumnar
        return rows

    def _decoders_of(self, has_operations: bool) -> Sequence[_Decoder]:
        """Return decoders to try in turn."""
        types = (((SCALAR,), True, True), ((Any,), True, False), ((Any, UNSET), False, False))
        return [_Decoder(MessageDecoder(self._row_type(has_operations, *of)), *known) for of, *known in types]

    def _row_type(self, has_operations: bool, *type_and_default: Any) -> type[msgspec.Struct]:
        of_value, *default = type_and_default
        operation = [OPERATION_COLUMN] if has_operations else []
        types = [of_value] * len(self._names)
        return image_type(self._names, types, *default, others=operation, of_others=str | None)


_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANKS: Final = " \t"

Field = str | None


class CsvBody(NamedTuple):
    """The body of a request, how it is written, the operation of rows without one, and how many rows it may have."""

    body: bytes
    dialect: CsvDialect
    operation: Operation
    max_rows: int


class CsvReader:
    """Reader of CSV rows of tables with these columns. In the `trimmed` columns, blanks around a value are ignored."""

    def __init__(self, columns: Sequence[str], trimmed: frozenset[str]) -> None:
        """Prepare for a table."""
        self._names, self._trimmed = tuple(columns), trimmed
        self._shapes = Shapes(_shape)

    def read(self, parts: Sequence[CsvBody]) -> list[ShapedChanges]:
        """Return the changes of each part. Raises NotColumnar."""
        return [self._read(*part) for part in parts]

    def _read(self, body: bytes, dialect: CsvDialect, operation: Operation, max_rows: int) -> ShapedChanges:
        header, by_column = _columns(body, dialect, max_rows)
        given = {name.strip(): values for name, values in zip(header, by_column, strict=True)}
        written = given.pop(OPERATION_COLUMN, None)
        if len(given) + (written is not None) < len(header) or not given.keys() <= {*self._names}:
            raise NotColumnar
        height = len(by_column[0])
        operations: Sequence[Operation | None] = [operation] * height
        if written is not None:
            known = {text: operation if text is None else written_operation(text) for text in {*written}}
            operations = [*map(known.__getitem__, written)]
        nothing: Sequence[SourceValue] = [None] * height
        columns = [self._column(name, given) or nothing for name in self._names]
        rows: Sequence[Values] = [*zip(*columns, strict=True)]
        return _shaped(rows, self._shapes.of(operations, [frozenset(given)] * height))

    def _column(self, name: str, given: Mapping[str, Sequence[Field]]) -> Sequence[Field] | None:
        values = given.get(name)
        if values is None or name not in self._trimmed:
            return values
        return [value and value.strip(_BLANKS) for value in values]


def _columns(body: bytes, dialect: CsvDialect, max_rows: int) -> tuple[Sequence[str], Sequence[Sequence[Field]]]:
    """Return the header, and the fields by column. Raises NotColumnar."""
    has_returns = b"\r" in body
    if b"\0" in body or (has_returns and body.count(b"\r") != body.count(b"\r\n")):
        raise NotColumnar
    text = _text(body.removeprefix(_BYTE_ORDER_MARK))
    first, *others = (text.replace("\r\n", "\n") if has_returns else text).split("\n")
    header = [name or "" for name in _fields(first, dialect)]
    if not first or len(others) > max_rows or len(header) >= MAX_FIELDS:
        raise NotColumnar
    if dialect.has_empty_lines(len(header)):
        lines = others if others[-1:] != [""] else others[:-1]
    else:
        lines = [line for line in others if line]
    if dialect.quote in text:
        records = [_fields(line, dialect) for line in lines]
        if {*map(len, records)} != {len(header)}:
            raise NotColumnar
        return header, [*zip(*records, strict=True)]
    split = [line.split(dialect.delimiter) for line in lines]
    if {*map(len, split)} != {len(header)}:
        raise NotColumnar
    nulls = dialect.nulls(empty_is_null=True)
    return header, [_with_nulls(column, nulls) for column in zip(*split, strict=True)]


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise NotColumnar from None


def _fields(line: str, dialect: CsvDialect) -> Sequence[Field]:
    """Return the fields of a line. Raises NotColumnar if it has quotes and is not one complete record."""
    if dialect.quote not in line:
        return _with_nulls(line.split(dialect.delimiter), dialect.nulls(empty_is_null=True))
    try:
        [record] = read_records(line.encode(), dialect, empty_is_null=True)
    except RejectedInput:
        raise NotColumnar from None
    if record.backslashed is not None:
        raise NotColumnar
    return record.values


def _with_nulls(column: Sequence[str], nulls: Sequence[str]) -> Sequence[Field]:
    if not any(null in column for null in nulls):
        return column
    return [None if value in nulls else value for value in column]
