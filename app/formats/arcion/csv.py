"""Arcion's internal CDC format as CSV: records -> changes of one table (docs/reference/arcion-csv.md).

A snapshot record has one field per column. A realtime record has NEW, OLD and EXISTS per column, then operation,
cursor and operation counts. Unquoted `NULL` is SQL NULL, quoted it is a string. The column names are in the request or
from a header; they are never guessed.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from app.domain.model.change import UNLIMITED, Change, Image, InputLimits, Operation
from app.domain.model.dead_letter import RejectedMessage, is_kept
from app.formats.arcion.messages import OPERATIONS, WrongMessage, facts_of_cursor, images, operation_count
from app.formats.csv import CsvRecord, read_records, written_records
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.parameters import CsvLayout, CsvMode, check_columns, columns_of_triplets

_MAX_PROBLEMS: Final = 100


@dataclass(frozen=True, slots=True)
class CsvChanges:
    """The changes in order, and the line, from 1, on which the record of each begins."""

    changes: list[Change]
    lines: list[int]
    rejected: list[RejectedMessage] = field(default_factory=list)
    """Records that are set aside."""
    columns: tuple[str, ...] = ()
    """The columns in file order, as declared or as the header names them."""


def decode_arcion_csv(
    body: bytes,
    layout: CsvLayout,
    trimmed: frozenset[str] = frozenset(),
    limits: InputLimits = UNLIMITED,
    *,
    keep_rejected: bool = False,
) -> CsvChanges:
    """Read a body. In the `trimmed` columns, which are not strings, blanks around a value are ignored.

    Raises RejectedInput naming records by index and line. With `keep_rejected`, wrong records are set aside.
    """
    columns, records, has_empty_lines = _start(body, layout)
    decoded = CsvChanges([], [], columns=columns)
    problems: list[Problem] = []
    index = blanks = 0
    for record in records:
        if not record.values:  # an empty line
            if not has_empty_lines:
                blanks += 1
                limits.check_messages(index + blanks)  # it takes as long as a record
                continue
            record.values.append(None)
        decoded.lines.append(record.line)
        try:
            decoded.changes.append(_change(index, record, columns, layout.mode, trimmed))
        except WrongMessage as wrong:
            found = tuple(wrong.at(index, f"line {record.line}: "))
            if keep_rejected and is_kept(found):
                decoded.rejected.append(RejectedMessage(index, found))
            else:
                problems.extend(found)
            if len(problems) >= _MAX_PROBLEMS:
                break
        index += 1
        limits.check_messages(index)
    if problems:
        raise RejectedInput.of(tuple(problems))
    if not index:
        raise RejectedInput(Code.EMPTY_REQUEST, "the body contains no record")
    return decoded


def csv_records(body: bytes, layout: CsvLayout, indexes: Collection[int]) -> dict[int, bytes]:
    """Return the records with these indexes as they are written, line ends included. The body was read before."""
    _, records, has_empty_lines = _start(body, layout)
    return written_records(body, records, indexes, empty_counts=has_empty_lines)


def _start(body: bytes, layout: CsvLayout) -> tuple[tuple[str, ...], Iterator[CsvRecord], bool]:
    """Return the columns, the records after a header, and whether an empty line is a record."""
    columns = layout.checked().columns
    records = read_records(body, layout.dialect)
    if layout.header:
        columns, records = _header(records, columns, layout.mode)
    return columns, records, layout.mode is CsvMode.SNAPSHOT and layout.dialect.has_empty_lines(len(columns))


def _header(
    records: Iterator[CsvRecord], declared: tuple[str, ...], mode: CsvMode
) -> tuple[tuple[str, ...], Iterator[CsvRecord]]:
    """Return the columns, as declared or as the first record names them, and the other records.

    A realtime header can name each column once, or each field of its records.
    """
    first = next(records, None)
    if declared or first is None:
        return declared, records
    names = tuple("" if name is None else name.strip() for name in first.values)
    if mode is CsvMode.REALTIME and len(names) > 3 and len(names) % 3 == 0:
        second = next((record for record in records if record.values), None)
        if second is not None:
            records = chain([second], records)
            if len(second.values) == len(names):
                return columns_of_triplets(names), records
    check_columns(names)
    return names, records


def _change(index: int, record: CsvRecord, columns: tuple[str, ...], mode: CsvMode, trimmed: frozenset[str]) -> Change:
    values, single, triple = record.values, len(columns), 3 * len(columns) + 3
    wanted, other = (single, triple) if mode is CsvMode.SNAPSHOT else (triple, single)
    if len(values) != wanted:
        code = Code.MODE_MISMATCH if len(values) == other else Code.CSV_FIELD_COUNT
        raise WrongMessage(code, f"the record has {len(values)} fields, and mode {mode} needs {wanted}", None)
    if record.backslashed is not None and (mode is CsvMode.SNAPSHOT or record.backslashed < triple - 2):
        raise WrongMessage(Code.MALFORMED_CSV, "a quote has a backslash before it; set the parameter `escape`", None)
    if mode is CsvMode.SNAPSHOT:
        image = _image(columns, values, trimmed)
        return Change(index, Operation.SNAPSHOT, None, image, "/before", "/after")
    op, cursor = values[-3], values[-2]
    operation = OPERATIONS.get((op or "").strip())
    if operation is None:
        raise WrongMessage(Code.BAD_OP, "the operation must be I, U, D or R", None)
    exists = {column: (flag or "").strip() for column, flag in zip(columns, values[2:-3:3], strict=True)}
    before, after = images(
        operation,
        before=_image(columns, values[1:-3:3], trimmed),
        after=_image(columns, values[0:-3:3], trimmed),
        exists=exists,
    )
    facts = facts_of_cursor(cursor)
    return Change(
        index,
        operation,
        None if operation is Operation.INSERT else before,
        None if operation is Operation.DELETE else after,
        "/before",
        "/after",
        cursor,
        source_time=facts.time,
        extracted_time=facts.extracted,
        log_position=facts.log_position,
        operation_count=operation_count(values[-1]),
    )


def _image(columns: tuple[str, ...], values: list[str | None], trimmed: frozenset[str]) -> Image:
    image: Image = dict(zip(columns, values, strict=True))
    for column in trimmed:
        value = image.get(column)
        if isinstance(value, str):
            image[column] = value.strip(" \t")
    return image
