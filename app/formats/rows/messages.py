"""Plain rows, read one by one: the exact path, which explains each rejection.

JSON has rows as objects, CSV has a header that names the columns. An empty field of CSV without quotes is NULL, as an
unquoted `NULL` is; `""` is the empty string.
"""

from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass, field
from typing import Any, Final

from app.domain.model.change import UNLIMITED, Change, Image, InputLimits, Operation
from app.domain.model.dead_letter import RejectedMessage
from app.formats.csv import CsvRecord, read_records, written_records
from app.formats.foreign_forms import Form, foreign_problem, remedy_of
from app.formats.json.decoder import MessageDecoder
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to
from mirrorgate.parameters import CsvDialect, RowOperation

OPERATION_COLUMN: Final = "__op__"
"""The key of a JSON row, or the column of a CSV file, that has the operation of its row."""

BAD_OPERATION: Final = f"{OPERATION_COLUMN} must be upsert, insert, update or delete, or R, I, U or D"

_AT: Final = ""
"""JSON Pointer of the row: a message is the row itself."""


OPERATIONS: Final = {
    "upsert": Operation.MERGE,
    "insert": Operation.INSERT,
    "update": Operation.UPDATE,
    "delete": Operation.DELETE,
    "r": Operation.MERGE,
    "i": Operation.INSERT,
    "u": Operation.UPDATE,
    "d": Operation.DELETE,
}
"""An upsert keeps the values that its row does not give, so it is a merge."""


def operation_of(written: Any, default: RowOperation) -> Operation | None:
    """Return the operation that a row has in `__op__`, the default for NULL or nothing, None if there is no such."""
    return OPERATIONS[default] if written is None else written_operation(written)


def written_operation(written: Any) -> Operation | None:
    """Return the operation that a row has in `__op__`, None if there is no such."""
    return OPERATIONS.get(written.lower()) if isinstance(written, str) and written.isascii() else None


def row_change(index: int, operation: Operation, row: Image) -> Change:
    """Return the change that a row without its operation becomes. A delete uses the key only."""
    if operation is Operation.DELETE:
        return Change(index, operation, row, None, _AT, _AT)
    return Change(index, operation, None, row, _AT, _AT)


_DECODER: Final = MessageDecoder(dict[str, Any])
_UNWRAP: Final = "Send the array of rows itself as the body. Parameters, such as the table, are part of the address."


@dataclass(slots=True)
class RowChanges:
    """The changes of a body in order, and the rows that are set aside or wrong."""

    changes: list[Change] = field(default_factory=list)
    rejected: list[RejectedMessage] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def add(self, index: int, row: dict[str, Any], default: RowOperation, *, keep: bool, prefix: str = "") -> None:
        """Add the change of a row, or the problem of its operation; with `keep`, the row is set aside for it.

        `prefix` is in front of the detail of a problem, such as a line number.
        """
        operation = operation_of(row.pop(OPERATION_COLUMN, None), default)
        if operation is not None:
            self.changes.append(row_change(index, operation, row))
            return
        problem = Problem(
            Code.BAD_OP, prefix + BAD_OPERATION, index, pointer_to("", OPERATION_COLUMN), OPERATION_COLUMN
        )
        if keep:
            self.rejected.append(RejectedMessage(index, (problem,)))
        else:
            self.problems.append(problem)


def decode_rows(
    body: bytes,
    operation: RowOperation,
    columns: Set[str],
    limits: InputLimits = UNLIMITED,
    *,
    keep_rejected: bool = False,
) -> RowChanges:
    """Return the changes of a JSON body for a table with these columns, in order.

    Raises RejectedInput naming every wrong row. With `keep_rejected`, rows with a wrong operation are set aside.
    """
    decoded = RowChanges()
    known = columns | {OPERATION_COLUMN}
    for index, row in enumerate(_DECODER.decode(body, limits)):
        if wrapper := _wrapper(row, columns):
            raise RejectedInput.of((_wrapped_rows(index, wrapper),), remedy=_UNWRAP)
        foreign = foreign_problem(index, row, Form.ROWS, known)
        if foreign is not None:
            raise RejectedInput.of(
                (*decoded.problems, foreign), remedy=None if decoded.problems else remedy_of(foreign.detail)
            )
        decoded.add(index, row, operation, keep=keep_rejected)
    if decoded.problems:
        raise RejectedInput.of(tuple(decoded.problems))
    return decoded


def _wrapper(row: dict[str, Any], columns: Set[str]) -> str | None:
    """Return the key that has a list of rows, for an object around rows; None for a row."""
    if not columns.isdisjoint(row):
        return None
    lists = (name for name, value in row.items() if isinstance(value, list) and value and isinstance(value[0], dict))
    return next(lists, None)


def _wrapped_rows(index: int, wrapper: str) -> Problem:
    detail = "the rows are in a list inside an object; the body must be the rows themselves"
    return Problem(Code.MALFORMED_MESSAGE, detail, index, pointer_to("", wrapper))


_MAX_PROBLEMS: Final = 100
_DELIMITERS: Final = {";": "%3B", "\t": "%09", "|": "%7C", ",": "%2C", ":": "%3A"}
"""Delimiters of files, and how an address has them."""


@dataclass(frozen=True, slots=True)
class RowsLayout:
    """The CSV layout that a request declares."""

    operation: RowOperation = RowOperation.UPSERT
    dialect: CsvDialect = field(default_factory=CsvDialect)
    columns: tuple[str, ...] = ()
    """The columns in file order; empty if the first record names them, as it does in every request."""


@dataclass(slots=True)
class CsvRowChanges(RowChanges):
    """The changes of a CSV body, with the line, from 1, on which the record of each row begins, and the columns."""

    lines: list[int] = field(default_factory=list)
    columns: tuple[str, ...] = ()


def decode_csv_rows(
    body: bytes,
    layout: RowsLayout,
    trimmed: frozenset[str] = frozenset(),
    limits: InputLimits = UNLIMITED,
    *,
    known: Set[str] = frozenset(),
    keep_rejected: bool = False,
) -> CsvRowChanges:
    """Read a body for a table with the `known` columns. Blanks around values of the `trimmed` ones, no strings, go.

    Raises RejectedInput naming records by index and line. With `keep_rejected`, wrong records are set aside.
    """
    columns, records = _start(body, layout, known)
    _check_delimiter(columns, known, layout)
    decoded = CsvRowChanges(columns=columns)
    has_empty_lines = layout.dialect.has_empty_lines(len(columns))
    index = 0
    for read, record in enumerate(records):
        limits.check_messages(read + 1)  # an empty line takes as long as a record
        if not record.values:
            if not has_empty_lines:
                continue
            record.values.append(None)
        decoded.lines.append(record.line)
        wrong = _wrong(index, record, columns)
        if wrong is None:
            row = _row(columns, record.values, trimmed)
            decoded.add(index, row, layout.operation, keep=keep_rejected, prefix=f"line {record.line}: ")
        elif keep_rejected and wrong.code is Code.CSV_FIELD_COUNT:
            decoded.rejected.append(RejectedMessage(index, (wrong,)))
        else:
            decoded.problems.append(wrong)
        if len(decoded.problems) >= _MAX_PROBLEMS:
            break
        index += 1
    if decoded.problems:
        raise RejectedInput.of(tuple(decoded.problems))
    if not index:
        raise RejectedInput(Code.EMPTY_REQUEST, "the body contains no row")
    return decoded


def csv_row_records(body: bytes, layout: RowsLayout, indexes: Collection[int]) -> dict[int, bytes]:
    """Return the records with these indexes as they are written, line ends included. The body was read before."""
    columns, records = _start(body, layout)
    return written_records(body, records, indexes, empty_counts=layout.dialect.has_empty_lines(len(columns)))


def _start(
    body: bytes, layout: RowsLayout, known: Set[str] = frozenset()
) -> tuple[tuple[str, ...], Iterator[CsvRecord]]:
    """Return the columns, and the records after the header. Raises RejectedInput `malformed_csv`."""
    records = read_records(body, layout.dialect.checked(), empty_is_null=True)
    if layout.columns:
        return layout.columns, records
    try:
        header = next(records, None)
    except RejectedInput:  # in quotes, names with another delimiter between them are not a field of CSV
        first = body.split(b"\n", 1)[0].decode(errors="replace")
        _check_delimiter((first.strip("\ufeff\r"),), known, layout)
        raise
    if header is None or not header.values:
        raise RejectedInput(Code.EMPTY_REQUEST, "the body does not begin with a header")
    columns = tuple((name or "").strip() for name in header.values)
    if len({*columns}) < len(columns):
        raise RejectedInput(Code.BAD_REQUEST, "the header names a column twice")
    return columns, records


def _check_delimiter(columns: tuple[str, ...], known: Set[str], layout: RowsLayout) -> None:
    """Raise RejectedInput `malformed_csv` for a header that looks like several columns with another delimiter."""
    if len(columns) > 1 or columns[0] in known:
        return
    for delimiter, written in _DELIMITERS.items():
        names = {name.strip(' "') for name in columns[0].split(delimiter)}
        if delimiter != layout.dialect.delimiter and not known.isdisjoint(names):
            shown = "a tab" if delimiter == "\t" else f"`{delimiter}`"
            detail = f"the header is one column whose name has {shown} between names of columns"
            remedy = f"Name the delimiter of the file: `delimiter={written}` for {shown}."
            raise RejectedInput(Code.MALFORMED_CSV, detail, remedy=remedy)


def _wrong(index: int, record: CsvRecord, columns: tuple[str, ...]) -> Problem | None:
    line = f"line {record.line}: "
    if len(record.values) != len(columns):
        detail = f"the record has {len(record.values)} fields, and the header has {len(columns)}"
        return Problem(Code.CSV_FIELD_COUNT, line + detail, index)
    if record.backslashed is not None:
        detail = "a quote has a backslash before it; set the parameter `escape`"
        return Problem(Code.MALFORMED_CSV, line + detail, index)
    return None


def _row(columns: tuple[str, ...], values: list[str | None], trimmed: frozenset[str]) -> Image:
    return {
        name: value.strip(" \t") if value is not None and name in trimmed else value
        for name, value in zip(columns, values, strict=True)
    }
