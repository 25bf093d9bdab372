"""Cut CSV streams into chunks between records; a header record is repeated in every chunk.

Records end where the gateway sees their end: line ends within quotes are data, however quotes are escaped.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mirrorgate.chunking.chunks import Chunk, Extent, Frame, Limits, StreamBuffer, group_into_chunks
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvLayout, CsvMode

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def split_csv(blocks: Iterable[bytes], limits: Limits, skip: int = 0, *, layout: CsvLayout) -> Iterator[Chunk]:
    """Yield the chunks of a CSV stream, without its first `skip` records."""
    layout.checked()
    buffer, grammar = StreamBuffer(blocks, limits.max_message_bytes), _Grammar(layout)
    while len(buffer.data) < len(_BYTE_ORDER_MARK) and buffer.read_more(0):
        pass
    position = len(_BYTE_ORDER_MARK) if buffer.data.startswith(_BYTE_ORDER_MARK) else 0
    header, columns = b"", len(layout.columns)
    if layout.header:
        end = grammar.end_of_record(buffer, position) or position
        header, position = buffer.text(position, end), end
        columns = columns or (1 if grammar.one_field.fullmatch(header) else 2)
        if header and not header.endswith(b"\n"):
            return
    blank_counts = layout.mode is CsvMode.SNAPSHOT and layout.dialect.has_empty_lines(columns)
    # One byte order mark is not read as data, so that a record that begins with another one keeps it.
    frame = Frame(_BYTE_ORDER_MARK + header, b"")
    yield from group_into_chunks(_records(buffer, grammar, position, blank_counts), buffer, limits, skip, frame)


def _records(buffer: StreamBuffer, grammar: "_Grammar", position: int, blank_counts: bool) -> Iterator[Extent]:
    while (end := grammar.end_of_record(buffer, position)) is not None:
        counts = blank_counts or end - position > 2 or buffer.text(position, end).strip(b"\r\n")
        yield Extent(position, end, 1 if counts else 0)
        position = end


class _Grammar:
    """Patterns of records: plain fields, quoted fields, and quoted JSON that escapes its quotes with backslashes."""

    def __init__(self, layout: CsvLayout) -> None:
        delimiter, quote, escape = (re.escape(sign) for sign in (layout.delimiter, layout.quote, layout.escape))
        if layout.escape == layout.quote:
            quoted = f"{quote}[^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+"
            json = rf"{quote}\{{[^{quote}\\]*+(?:\\.[^{quote}\\]*+)*+"
        else:
            quoted = f"{quote}[^{quote}{escape}]*+(?:{escape}.[^{quote}{escape}]*+)*+"
            json = "(?!)"
        plain = f"[^{quote}{delimiter}\r\n]*+"

        def field(followed_by: str, if_certain: str) -> str:
            ahead = f"(?={followed_by})"
            return f"(?:{plain}{ahead}|{quoted}{quote}{ahead}|{if_certain}{json}{quote}{ahead})"

        # While more may follow, a field is JSON only if no quoted field is still open: what follows might close that.
        within = field(rf"{delimiter}|\r?\n", rf"(?!{quoted}{quote}?\r?\Z)")
        last = field(rf"{delimiter}|\r?\n|\Z", "")
        self._whole = _compiled(rf"(?:{within}{delimiter})*+{within}\r?\n")
        self._last = _compiled(rf"(?:{last}{delimiter})*+{last}(?:\r?\n|\Z)")
        self._fields = _compiled(f"(?:{within}{delimiter})*+")
        self._open = _compiled(rf"(?:{plain}\r?|{quoted}(?:{quote}\r?|{escape})?|{json}(?:{quote}\r?|\\)?)\Z")
        self.one_field: Final = _compiled(rf"{last}(?:\r?\n|\Z)")

    def end_of_record(self, buffer: StreamBuffer, start: int) -> int | None:
        """Return the end of the record at `start`; None at the end of the stream.

        Raises RejectedInput `malformed_csv` as soon as no continuation can make it a valid record.
        """
        while (end := buffer.match(self._whole, start)) is None:
            fields = buffer.match(self._fields, start) or start
            if buffer.match(self._open, fields) is None:
                raise _malformed(buffer, fields)
            # Doubled each time: a record is matched again from its start, which would be quadratic otherwise.
            if not buffer.read_more(start, at_least=buffer.end - start):
                return self._end_of_last(buffer, start)
        return end

    def _end_of_last(self, buffer: StreamBuffer, start: int) -> int | None:
        if start == buffer.end:
            return None
        end = buffer.match(self._last, start)
        if end is None:
            raise _malformed(buffer, start)
        return end


def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.DOTALL)


def _malformed(buffer: StreamBuffer, position: int) -> RejectedInput:
    return RejectedInput(Code.MALFORMED_CSV, f"line {buffer.line_of(position)} has a field with unbalanced quotes")
