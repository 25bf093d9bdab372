"""The part of a stream that is still needed, addressed by places in the whole stream."""

import re
from collections.abc import Iterable

from app.errors import Code, RejectedInput


class Window:
    """Holds the bytes from `start` to `end`; `more` reads on, `forget` lets go of the front."""

    def __init__(self, chunks: Iterable[bytes], longest: int) -> None:
        self._chunks = iter(chunks)
        self._longest = longest
        self.data = bytearray()
        self.start = 0
        self.line = 1
        """The line of the stream on which `start` is, from 1."""

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def more(self, since: int, at_least: int = 1) -> bool:
        """Read on within the message that begins at `since`; False when the stream has ended.

        Raises RejectedInput `body_too_large` when the message is longer than any may be.
        """
        if self.end - since > self._longest:
            detail = f"the message that starts at byte {since} does not end within {self._longest} bytes"
            raise RejectedInput(Code.BODY_TOO_LARGE, detail, remedy="Check how the file is quoted at that byte.")
        before = self.end
        for chunk in self._chunks:
            self.data += chunk
            if self.end - before >= max(1, at_least):
                break
        return self.end > before

    def forget(self, until: int) -> None:
        """Let go of what stands before `until`."""
        length = until - self.start
        if length > 0:
            self.line += self.data.count(b"\n", 0, length)
            del self.data[:length]
            self.start = until

    def byte(self, place: int) -> int:
        return self.data[place - self.start]

    def text(self, start: int, end: int) -> bytes:
        return bytes(self.data[start - self.start : end - self.start])

    def match(self, pattern: re.Pattern[bytes], place: int) -> int | None:
        """Where a match that begins at `place` ends."""
        found = pattern.match(self.data, place - self.start)
        return None if found is None else found.end() + self.start

    def last(self, sign: bytes, start: int) -> int:
        """Where `sign` stands for the last time, `start` - 1 if nowhere behind that."""
        found = self.data.rfind(sign, start - self.start)
        return start - 1 if found < 0 else found + self.start

    def line_of(self, place: int) -> int:
        return self.line + self.data.count(b"\n", 0, place - self.start)
