"""Columnar reading of plain rows as CSV: lines are split at once, and each column is read as a whole.

A line with quotes is read by the grammar of the exact path, if it is one complete record. Invariant: the changes equal
those of `decode_csv_rows`, or NotColumnar is raised: for a record of several lines, a wrong number of fields, an
unknown column or operation, and whatever else has to be rejected.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from app.domain.model.change import Operation, SourceValue
from app.domain.rows.shaped_changes import ShapedChanges, Values
from app.errors import RejectedInput
from app.formats.csv.records import MAX_FIELDS, CsvDialect, read_records
from app.formats.not_columnar import NotColumnar
from app.formats.rows.columnar import RowShapes
from app.formats.rows.operations import OPERATION_COLUMN, written_operation

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
    """Reads rows of tables with these columns. In the `trimmed` columns, blanks around a value are ignored."""

    def __init__(self, columns: Sequence[str], trimmed: frozenset[str]) -> None:
        """Prepare for a table."""
        self._names, self._trimmed = tuple(columns), trimmed
        self._shapes = RowShapes()

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
        return self._shapes.shaped(rows, operations, [frozenset(given)] * height)

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
