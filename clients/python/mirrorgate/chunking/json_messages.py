"""Cut JSON streams into chunks: an array, or concatenated objects, with or without line breaks between them.

Only strings and brackets are examined. Any other error remains in the body, and the gateway reports it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from mirrorgate.chunking.chunks import Chunk, Extent, Frame, Limits, StreamBuffer, group_into_chunks
from mirrorgate.errors import Code, RejectedInput

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANK: Final = re.compile(rb"[ \t\r\n]*+")
_BETWEEN: Final = re.compile(rb"[ \t\r\n,]*+")
_REST_OF_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_OBJECTS: Final = msgspec.json.Decoder(msgspec.Raw)
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_BETWEEN_OBJECTS: Final = (b"},{", b"}, {", b"},\n{", b"},\r\n{")
_QUOTE, _COMMA, _OPEN, _CLOSE, _END_OF_ARRAY = b'",{}]'


def _up_to(signs: str) -> re.Pattern[bytes]:
    """Match everything before the next of `signs` outside strings, or before a string that is not complete yet."""
    other = f'[^"{signs}]*+'
    return re.compile(rf'{other}(?:"{_REST_OF_STRING.pattern.decode()}"{other})*+'.encode(), re.DOTALL)


_TO_BRACE: Final = _up_to(r"{}")
_TO_BRACKET: Final = _up_to(r"{}\[\]")
_TO_COMMA: Final = _up_to(r"{}\[\],")


def split_json(blocks: Iterable[bytes], limits: Limits, skip: int = 0) -> Iterator[Chunk]:
    """Yield the chunks of a JSON stream, without its first `skip` messages. An array is cut into arrays."""
    buffer = StreamBuffer(blocks, limits.max_message_bytes)
    start = _start_of_text(buffer)
    if start == buffer.end:
        return
    match buffer.text(start, start + 1):
        case b"{":
            yield from group_into_chunks(_objects(buffer, start), buffer, limits, skip, Frame(b"", b""))
        case b"[":
            yield from group_into_chunks(_elements(buffer, start + 1), buffer, limits, skip, Frame(b"[", b"]"))
        case _:
            raise RejectedInput(Code.MALFORMED_JSON, "the file starts with neither { nor [")


def _start_of_text(buffer: StreamBuffer) -> int:
    """Return the position of the text after a byte order mark and blanks; the end of an empty stream."""
    while len(buffer.data) < len(_BYTE_ORDER_MARK) and buffer.read_more(0):
        pass
    position = len(_BYTE_ORDER_MARK) if buffer.data.startswith(_BYTE_ORDER_MARK) else 0
    return _skip_blanks(buffer, position)


def _skip_blanks(buffer: StreamBuffer, start: int) -> int:
    position = start
    while True:
        position = buffer.match(_BLANK, position) or position
        if position < buffer.end or not buffer.read_more(start):
            return position


def _objects(buffer: StreamBuffer, start: int) -> Iterator[Extent]:
    """Yield each object with the text that follows it: text between two objects belongs to the first."""
    depth, end, position, tried = 0, start, start, start
    while (sign := _next_sign(buffer, position, _TO_BRACE, start)) is not None:
        if buffer.byte(sign) == _OPEN:
            if depth == 0 and sign > start:
                yield _object(buffer, start, end, sign)
                start = sign
            if depth == 0 and tried < buffer.end:
                tried = buffer.end
                for extent in _buffered_objects(buffer, start):
                    yield extent
                    start = sign = extent.end
            depth += 1
        elif depth:
            depth -= 1
            end = sign + 1
        position = sign + 1
    if depth:
        raise _unfinished(f"the object that starts at byte {start} does not end")
    yield _object(buffer, start, end, buffer.end)


def _buffered_objects(buffer: StreamBuffer, start: int) -> Iterator[Extent]:
    """Yield the complete objects in the buffer at once: those before the last line that starts with a brace."""
    block = buffer.text(start, buffer.rfind(b"\n{", start) + 1)
    first = messages = 0
    for begin, _ in _values(_OBJECTS.decode_lines, block):
        if block[begin] == _OPEN and messages:
            yield Extent(start + first, start + begin, messages)
            first, messages = begin, 0
        messages += 1
    if messages:
        yield Extent(start + first, start + len(block), messages)


def _buffered_elements(buffer: StreamBuffer, start: int) -> list[Extent]:
    """Return the complete elements in the buffer at once, then an empty extent where the next element starts.

    Complete are those before the last comma between two braces, if that comma separates elements.
    """
    comma = 1 + max(buffer.rfind(sign, start) for sign in _BETWEEN_OBJECTS)
    values = _values(_ARRAY.decode, b"[" + buffer.text(start, comma) + b"]")
    known = [Extent(start + begin - 1, start + end - 1, 1) for begin, end in values]
    return [*known, Extent(comma + 1 if known else start, start, 0)]


def _values(decode: Callable[[bytes], list[msgspec.Raw]], block: bytes) -> list[tuple[int, int]]:
    """Return start and end of each value of a block; nothing unless the block holds complete values only."""
    try:
        values = decode(block)
    except (msgspec.DecodeError, RecursionError):
        return []
    positions: list[tuple[int, int]] = []
    end = int(block.startswith(b"["))
    for value in values:
        between = _BETWEEN.match(block, end)  # a search of the value itself would first analyze it, for microseconds
        assert between is not None
        begin, end = between.end(), between.end() + len(value)
        positions.append((begin, end))
    return positions


def _object(buffer: StreamBuffer, start: int, end: int, following: int) -> Extent:
    """Count a `null` on its own line of NDJSON as a message: the gateway does, too."""
    return Extent(start, following, 1 + len(buffer.text(end, following).split()))


def _elements(buffer: StreamBuffer, start: int) -> Iterator[Extent]:
    """Yield the elements of an array, without the commas between them. An empty element counts."""
    depth, position, tried, only = 0, start, start, True
    while True:
        if position == start and tried < buffer.end:
            tried = buffer.end
            *known, last = _buffered_elements(buffer, start)
            yield from known
            start = position = last.start
            only = only and not known
        sign = _next_sign(buffer, position, _TO_BRACKET if depth else _TO_COMMA, start)
        if sign is None:
            raise _unfinished("the array does not end")
        byte, position = buffer.byte(sign), sign + 1
        if depth:
            depth += 1 if byte in b"{[" else -1
        elif byte == _COMMA:
            yield _element(buffer, start, sign)
            start, only = position, False
        elif byte == _END_OF_ARRAY:
            break
        elif byte != _CLOSE:
            depth = 1
    last = _element(buffer, start, sign)
    if last.start < last.end or not only:
        yield last
    rest = _skip_blanks(buffer, position)
    if rest < buffer.end:
        raise RejectedInput(Code.MALFORMED_JSON, f"unexpected text after the array at byte {rest}")


def _element(buffer: StreamBuffer, start: int, end: int) -> Extent:
    """Strip the blanks around an element, so that its end does not depend on how the stream was cut into blocks."""
    start = min(buffer.match(_BLANK, start) or start, end)
    return Extent(start, start + len(buffer.text(start, end).rstrip(b" \t\r\n")), 1)


def _next_sign(buffer: StreamBuffer, position: int, pattern: re.Pattern[bytes], since: int) -> int | None:
    """Return the position of the next sign that `pattern` stops at; None if the stream ends before it."""
    while True:
        position = buffer.match(pattern, position) or position
        if position < buffer.end:
            if buffer.byte(position) != _QUOTE:
                return position
            after = _end_of_string(buffer, position + 1, since)
            if after is None:
                return None
            position = after
        elif not buffer.read_more(since):
            return None


def _end_of_string(buffer: StreamBuffer, position: int, since: int) -> int | None:
    """Return the position after the closing quote of the string around `position`. Each byte is read once."""
    while True:
        position = buffer.match(_REST_OF_STRING, position) or position
        if position < buffer.end and buffer.byte(position) == _QUOTE:
            return position + 1
        if not buffer.read_more(since):
            return None


def _unfinished(detail: str) -> RejectedInput:
    return RejectedInput(Code.MALFORMED_JSON, detail, remedy="Check whether the file was cut off.")
