"""JSON streams -> parts: an array, or objects one after the other, on lines of their own or not.

Only strings and brackets are looked at. Whatever else is wrong with the text stays in it, for the gateway to name.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from app.client.chunking.parts import Extent, Frame, Limits, Part, gather
from app.client.chunking.window import Window
from app.errors import Code, RejectedInput

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANK: Final = re.compile(rb"[ \t\r\n]*+")
_REST_OF_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_OBJECTS: Final = msgspec.json.Decoder(msgspec.Raw)
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_BETWEEN_OBJECTS: Final = (b"},{", b"}, {", b"},\n{", b"},\r\n{")
_QUOTE, _COMMA, _OPEN, _CLOSE, _END_OF_ARRAY = b'",{}]'


def _up_to(signs: str) -> re.Pattern[bytes]:
    """Everything before the next of `signs` outside of strings, or before a string that does not end yet."""
    other = f'[^"{signs}]*+'
    return re.compile(rf'{other}(?:"{_REST_OF_STRING.pattern.decode()}"{other})*+'.encode(), re.DOTALL)


_TO_BRACE: Final = _up_to(r"{}")
_TO_BRACKET: Final = _up_to(r"{}\[\]")
_TO_COMMA: Final = _up_to(r"{}\[\],")


def split_json(chunks: Iterable[bytes], limits: Limits, skip: int = 0) -> Iterator[Part]:
    """The parts of a JSON stream in order, without its first `skip` messages; an array becomes arrays."""
    window = Window(chunks, limits.message_bytes)
    start = _first_sign(window)
    if start == window.end:
        return
    match window.text(start, start + 1):
        case b"{":
            yield from gather(_objects(window, start), window, limits, skip, Frame(b"", b""))
        case b"[":
            yield from gather(_elements(window, start + 1), window, limits, skip, Frame(b"[", b"]"))
        case _:
            raise RejectedInput(Code.MALFORMED_JSON, "the file starts with neither { nor [")


def _first_sign(window: Window) -> int:
    """Where the text begins after a byte order mark and blanks; the end of the stream if there is none."""
    while len(window.data) < len(_BYTE_ORDER_MARK) and window.more(0):
        pass
    place = len(_BYTE_ORDER_MARK) if window.data.startswith(_BYTE_ORDER_MARK) else 0
    return _end_of_blank(window, place)


def _end_of_blank(window: Window, start: int) -> int:
    place = start
    while True:
        place = window.match(_BLANK, place) or place
        if place < window.end or not window.more(start):
            return place


def _objects(window: Window, start: int) -> Iterator[Extent]:
    """Each object with what stands behind it: a text between two objects belongs to the first of them."""
    depth, end, place, tried = 0, start, start, start
    while (sign := _next_sign(window, place, _TO_BRACE, start)) is not None:
        if window.byte(sign) == _OPEN:
            if depth == 0 and sign > start:
                yield _object(window, start, end, sign)
                start = sign
            if depth == 0 and tried < window.end:
                tried = window.end
                for extent in _objects_at_hand(window, start):
                    yield extent
                    start = sign = extent.end
            depth += 1
        elif depth:
            depth -= 1
            end = sign + 1
        place = sign + 1
    if depth:
        raise _unfinished(f"the object that starts at byte {start} does not end")
    yield _object(window, start, end, window.end)


def _objects_at_hand(window: Window, start: int) -> Iterator[Extent]:
    """Many objects at once: those before the last line that begins with a brace, if that is where one begins."""
    block = window.text(start, window.last(b"\n{", start) + 1)
    first = messages = 0
    for begin, _ in _values(_OBJECTS.decode_lines, block):
        if block[begin] == _OPEN and messages:
            yield Extent(start + first, start + begin, messages)
            first, messages = begin, 0
        messages += 1
    if messages:
        yield Extent(start + first, start + len(block), messages)


def _elements_at_hand(window: Window, start: int) -> list[Extent]:
    """Many elements at once: those before the last comma between two braces, if that is one between elements; then
    one of which only the start is known."""
    comma = 1 + max(window.last(sign, start) for sign in _BETWEEN_OBJECTS)
    values = _values(_ARRAY.decode, b"[" + window.text(start, comma) + b"]")
    known = [Extent(start + begin - 1, start + end - 1, 1) for begin, end in values]
    return [*known, Extent(comma + 1 if known else start, start, 0)]


def _values(decode: Callable[[bytes], list[msgspec.Raw]], block: bytes) -> list[tuple[int, int]]:
    """Where the values of a block begin and end; none unless it holds whole values only."""
    try:
        values = decode(block)
    except (msgspec.DecodeError, RecursionError):
        return []
    places: list[tuple[int, int]] = []
    end = int(block.startswith(b"["))
    for value in values:
        begin = block.index(value, end)
        end = begin + len(value)
        places.append((begin, end))
    return places


def _object(window: Window, start: int, end: int, following: int) -> Extent:
    """NDJSON may have a `null` on a line: it counts as the message that it is."""
    return Extent(start, following, 1 + len(window.text(end, following).split()))


def _elements(window: Window, start: int) -> Iterator[Extent]:
    """The elements of an array, without the commas between them; one without text is still one."""
    depth, place, tried, only = 0, start, start, True
    while True:
        if place == start and tried < window.end:
            tried = window.end
            *known, last = _elements_at_hand(window, start)
            yield from known
            start = place = last.start
            only = only and not known
        sign = _next_sign(window, place, _TO_BRACKET if depth else _TO_COMMA, start)
        if sign is None:
            raise _unfinished("the array does not end")
        byte, place = window.byte(sign), sign + 1
        if depth:
            depth += 1 if byte in b"{[" else -1
        elif byte == _COMMA:
            yield _element(window, start, sign)
            start, only = place, False
        elif byte == _END_OF_ARRAY:
            break
        elif byte != _CLOSE:
            depth = 1
    last = _element(window, start, sign)
    if last.start < last.end or not only:
        yield last
    behind = _end_of_blank(window, place)
    if behind < window.end:
        raise RejectedInput(Code.MALFORMED_JSON, f"unexpected text after the array at byte {behind}")


def _element(window: Window, start: int, end: int) -> Extent:
    """Without the blanks around it: where it ends must not depend on the pieces in which the stream came."""
    start = min(window.match(_BLANK, start) or start, end)
    return Extent(start, start + len(window.text(start, end).rstrip(b" \t\r\n")), 1)


def _next_sign(window: Window, place: int, pattern: re.Pattern[bytes], since: int) -> int | None:
    """Where the next sign that `pattern` stops at stands; None when the stream ends before one."""
    while True:
        place = window.match(pattern, place) or place
        if place < window.end:
            if window.byte(place) != _QUOTE:
                return place
            after = _end_of_string(window, place + 1, since)
            if after is None:
                return None
            place = after
        elif not window.more(since):
            return None


def _end_of_string(window: Window, place: int, since: int) -> int | None:
    """Behind the closing quote of a string within which `place` is; the string is read once, however it is cut."""
    while True:
        place = window.match(_REST_OF_STRING, place) or place
        if place < window.end and window.byte(place) == _QUOTE:
            return place + 1
        if not window.more(since):
            return None


def _unfinished(detail: str) -> RejectedInput:
    return RejectedInput(Code.MALFORMED_JSON, detail, remedy="Check whether the file was cut off.")
