"""Arcion CSV streams -> parts, cut between records; a header record stands again in every part.

A record ends where the gateway sees it end: line ends within quotes are data, whichever way quotes are escaped.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from app.client.chunking.parts import Extent, Frame, Limits, Part, gather
from app.client.chunking.window import Window
from app.errors import Code, RejectedInput
from app.formats.arcion.csv_layout import CsvLayout, CsvMode

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def split_csv(chunks: Iterable[bytes], limits: Limits, skip: int = 0, *, layout: CsvLayout) -> Iterator[Part]:
    """The parts of a CSV stream in order, without its first `skip` records; blank lines count as the mode says."""
    layout.checked()
    window, grammar = Window(chunks, limits.message_bytes), _Grammar(layout)
    while len(window.data) < len(_BYTE_ORDER_MARK) and window.more(0):
        pass
    place = len(_BYTE_ORDER_MARK) if window.data.startswith(_BYTE_ORDER_MARK) else 0
    header, columns = b"", len(layout.columns)
    if layout.header:
        end = grammar.end_of_record(window, place) or place
        header, place = window.text(place, end), end
        columns = columns or (1 if grammar.one_field.fullmatch(header) else 2)
        if header and not header.endswith(b"\n"):
            return
    blank_counts = layout.mode is CsvMode.SNAPSHOT and columns == 1
    # One byte order mark is not read as data, so that a record that begins with another one keeps it.
    frame = Frame(_BYTE_ORDER_MARK + header, b"")
    yield from gather(_records(window, grammar, place, blank_counts), window, limits, skip, frame)


def _records(window: Window, grammar: "_Grammar", place: int, blank_counts: bool) -> Iterator[Extent]:
    while (end := grammar.end_of_record(window, place)) is not None:
        counts = blank_counts or end - place > 2 or window.text(place, end).strip(b"\r\n")
        yield Extent(place, end, 1 if counts else 0)
        place = end


class _Grammar:
    """Patterns of records. `Q` is a quoted field, `B` JSON in quotes with backslashes before its own, `P` plain."""

    def __init__(self, layout: CsvLayout) -> None:
        delimiter, quote, escape = (re.escape(sign) for sign in (layout.delimiter, layout.quote, layout.escape))
        if layout.escape == layout.quote:
            quoted = f"{quote}[^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+"
            json = rf"{quote}\{{[^{quote}\\]*+(?:\\.[^{quote}\\]*+)*+"
        else:
            quoted = f"{quote}[^{quote}{escape}]*+(?:{escape}.[^{quote}{escape}]*+)*+"
            json = "(?!)"
        plain = f"[^{quote}{delimiter}\r\n]*+"

        def field(behind: str, certain: str) -> str:
            return f"(?:{plain}(?={behind})|{quoted}{quote}(?={behind})|{certain}{json}{quote}(?={behind}))"

        # Where more is to come, B is certain only if Q has ended: what follows might make the field a Q.
        within = field(rf"{delimiter}|\r?\n", rf"(?!{quoted}{quote}?\r?\Z)")
        last = field(rf"{delimiter}|\r?\n|\Z", "")
        self._whole = _compiled(rf"(?:{within}{delimiter})*+{within}\r?\n")
        self._last = _compiled(rf"(?:{last}{delimiter})*+{last}(?:\r?\n|\Z)")
        self._fields = _compiled(f"(?:{within}{delimiter})*+")
        self._open = _compiled(rf"(?:{plain}\r?|{quoted}(?:{quote}\r?|{escape})?|{json}(?:{quote}\r?|\\)?)\Z")
        self.one_field: Final = _compiled(rf"{last}(?:\r?\n|\Z)")

    def end_of_record(self, window: Window, start: int) -> int | None:
        """Where the record at `start` ends, None at the end of the stream.

        Raises RejectedInput `malformed_csv` as soon as nothing that may follow makes it a record.
        """
        while (end := window.match(self._whole, start)) is None:
            fields = window.match(self._fields, start) or start
            if window.match(self._open, fields) is None:
                raise _malformed(window, fields)
            # Twice as much each time, because a record is read again from its start.
            if not window.more(start, at_least=window.end - start):
                return self._end_of_last(window, start)
        return end

    def _end_of_last(self, window: Window, start: int) -> int | None:
        if start == window.end:
            return None
        end = window.match(self._last, start)
        if end is None:
            raise _malformed(window, start)
        return end


def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.DOTALL)


def _malformed(window: Window, place: int) -> RejectedInput:
    return RejectedInput(Code.MALFORMED_CSV, f"line {window.line_of(place)} has a field whose quotes do not fit")
