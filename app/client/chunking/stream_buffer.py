"""A buffer over the part of a stream that is still needed, addressed by positions in the whole stream."""

import re
from collections.abc import Iterable

from app.errors import Code, RejectedInput


class StreamBuffer:
    """Holds the bytes from `start` to `end` of a stream; `read_more` appends to them, `discard` drops the front."""

    def __init__(self, blocks: Iterable[bytes], max_message_bytes: int) -> None:
        self._blocks = iter(blocks)
        self._max_message_bytes = max_message_bytes
        self.data = bytearray()
        self.start = 0
        self.line = 1
        """The line of the stream that contains `start`, from 1."""

    @property
    def end(self) -> int:
        """The position after the last byte held."""
        return self.start + len(self.data)

    def read_more(self, since: int, at_least: int = 1) -> bool:
        """Append `at_least` more bytes to the message that starts at `since`; return False at the end of the stream.

        Raises RejectedInput `body_too_large` for a message above the maximum size.
        """
        if self.end - since > self._max_message_bytes:
            detail = f"the message that starts at byte {since} does not end within {self._max_message_bytes} bytes"
            raise RejectedInput(Code.BODY_TOO_LARGE, detail, remedy="Check how the file is quoted at that byte.")
        before = self.end
        for block in self._blocks:
            self.data += block
            if self.end - before >= max(1, at_least):
                break
        return self.end > before

    def discard(self, until: int) -> None:
        """Drop the bytes before `until`."""
        length = until - self.start
        if length > 0:
            self.line += self.data.count(b"\n", 0, length)
            del self.data[:length]
            self.start = until

    def byte(self, position: int) -> int:
        """Return the byte at a position."""
        return self.data[position - self.start]

    def text(self, start: int, end: int) -> bytes:
        """Return the bytes between two positions."""
        with memoryview(self.data) as held:
            return bytes(held[start - self.start : end - self.start])

    def match(self, pattern: re.Pattern[bytes], position: int) -> int | None:
        """Return the end of a match that starts exactly at `position`; None if there is none."""
        found = pattern.match(self.data, position - self.start)
        return None if found is None else found.end() + self.start

    def rfind(self, sign: bytes, start: int) -> int:
        """Return the last position of `sign` at or after `start`; `start` - 1 if there is none."""
        found = self.data.rfind(sign, start - self.start)
        return start - 1 if found < 0 else found + self.start

    def line_of(self, position: int) -> int:
        """Return the line of the stream that contains a position, from 1."""
        return self.line + self.data.count(b"\n", 0, position - self.start)
