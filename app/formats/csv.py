"""Records of a CSV body: bytes -> fields, each a string or NULL, without a meaning yet.

Unquoted `NULL`, or the text that the request says, is NULL, and quoted it is a string; so this reader, unlike that of
the standard library, knows what is quoted. Blanks around values count in columns of strings only.

Invariant: the records are the whole body. What cannot be read is rejected with its line, and never repaired.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from app.domain.model.table_schema import TableSchema, TypeName
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvDialect

_TEXT: Final = frozenset({TypeName.STRING, TypeName.JSON})
"""Types whose values can begin or end with blanks."""


def trimmed_columns(schema: TableSchema) -> frozenset[str]:
    """Return the columns in which blanks around a value are ignored."""
    return frozenset(column.name for column in schema.columns if column.type.name not in _TEXT)


MAX_FIELDS: Final = 2**16
"""Fields of a record; a realtime record of Arcion with 20,000 columns has fewer."""

_NEW_LINE: Final = b"\n"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(slots=True)
class CsvRecord:
    """One record; an empty line has no values."""

    line: int
    """The line on which it begins, from 1."""
    values: list[str | None]
    backslashed: int | None
    """The first field whose quotes have backslashes although another escape is declared."""


def written_records(
    body: bytes, records: Iterable[CsvRecord], indexes: Collection[int], *, empty_counts: bool
) -> dict[int, bytes]:
    """Return those of the records with these indexes as they are written, line ends included.

    `records` are those of the body from the first one on; empty lines have an index only if `empty_counts`.
    """
    begins = [(record.line - 1, bool(record.values) or empty_counts) for record in records]
    lines = [line + _NEW_LINE for line in body.split(_NEW_LINE)]
    lines[0], lines[-1] = lines[0].removeprefix(_BYTE_ORDER_MARK), lines[-1].removesuffix(_NEW_LINE)
    ends = [begin for begin, _ in begins[1:]] + [len(lines)]
    written = [b"".join(lines[begin:end]) for (begin, counts), end in zip(begins, ends, strict=True) if counts]
    return {index: written[index] for index in indexes}


def read_records(body: bytes, dialect: CsvDialect, *, empty_is_null: bool = False) -> Iterator[CsvRecord]:
    """Yield the records. With `empty_is_null`, an empty field without quotes is NULL, unless the dialect says another.

    Raises RejectedInput `malformed_csv` with the line.
    """
    if (null := body.find(b"\0")) >= 0:
        raise _malformed(body, null, "has the character U+0000")
    field, unescaped, delimiter = _field_pattern(dialect), _unescaper(dialect), dialect.delimiter.encode()
    nulls = {null.encode() for null in dialect.nulls(empty_is_null=empty_is_null)}
    position = len(_BYTE_ORDER_MARK) if body.startswith(_BYTE_ORDER_MARK) else 0
    line = 1
    while position < len(body):
        start = position
        record = CsvRecord(line, [], None)
        for _ in range(MAX_FIELDS):
            match = field.match(body, position)
            if match is None:
                if b"\r" in body and _NEW_LINE not in body:
                    raise _malformed(body, position, "ends with CR only; end lines with LF or with CR and LF")
                raise _malformed(body, position, "has a field with unbalanced quotes")
            quoted, backslashed, plain, separator = match.groups()
            if backslashed is not None and record.backslashed is None:
                record.backslashed = len(record.values)
            if quoted is not None:
                value = unescaped(quoted)
            else:
                value = plain if plain is not None else backslashed.replace(b'\\"', b'"')
            try:
                record.values.append(None if plain in nulls else value.decode())
            except UnicodeDecodeError:
                raise _malformed(body, position, "has a field that is not UTF-8") from None
            position = match.end()
            if separator != delimiter:
                break
        else:
            raise _malformed(body, position, f"has more than {MAX_FIELDS} fields")
        if len(record.values) == 1 and not body[start:position].strip(b"\r\n"):
            record.values.clear()
        yield record
        line += body.count(_NEW_LINE, start, position)


def _field_pattern(dialect: CsvDialect) -> re.Pattern[bytes]:
    """Return the pattern of a field and its end: quoted, quoted JSON with backslashed quotes, or unquoted."""
    delimiter, quote, escape = (re.escape(one) for one in (dialect.delimiter, dialect.quote, dialect.escape))
    if dialect.escape == dialect.quote:
        inner, json = f"[^{quote}]++|{quote}{quote}", rf"\{{(?:[^{quote}\\]++|\\.)*+"
    else:
        inner, json = f"[^{quote}{escape}]++|{escape}.", "(?!)"
    pattern = f"(?:{quote}((?:{inner})*+){quote}|{quote}({json}){quote}|([^{quote}{delimiter}\r\n]*+))"
    return re.compile(rf"{pattern}({delimiter}|\r?\n|\Z)".encode(), re.DOTALL)


def _unescaper(dialect: CsvDialect) -> Callable[[bytes], bytes]:
    """Return the function that removes the escapes of a quoted field."""
    escape, quote = dialect.escape.encode(), dialect.quote.encode()
    if escape == quote:
        return lambda field: field.replace(quote + quote, quote)
    pattern = re.compile(re.escape(escape) + b"(.)", re.DOTALL)
    return lambda field: pattern.sub(rb"\1", field) if escape in field else field


def _malformed(body: bytes, position: int, what: str) -> RejectedInput:
    return RejectedInput(Code.MALFORMED_CSV, f"line {body.count(_NEW_LINE, 0, position) + 1} {what}")
