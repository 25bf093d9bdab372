"""Files of a storage service as Python streams, with one block in memory at a time."""

import io
from collections.abc import Callable
from typing import Any


class Upload(io.RawIOBase):
    """Collects writes and appends them in blocks; `send` appends the rest."""

    def __init__(self, append: Callable[[bytes, int], None], block_bytes: int) -> None:
        self._append = append
        self._block_bytes = block_bytes
        self._block = bytearray()
        self.sent = 0

    def writable(self) -> bool:
        """Return True: the stream is for writing."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.sent + len(self._block)

    def write(self, data: Any) -> int:
        """Collect data, and append each full block."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), self._block_bytes):
            self._block += view[start : start + self._block_bytes]
            if len(self._block) >= self._block_bytes:
                self.send()
        return len(view)

    def send(self) -> None:
        """Append the collected block."""
        if self._block:
            self._append(bytes(self._block), self.sent)
            self.sent += len(self._block)
            self._block.clear()


class Download(io.RawIOBase):
    """Reads ranges of a file of known size."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, block_bytes: int) -> None:
        self._read = read
        self._size = size
        self._block_bytes = block_bytes
        self._position = 0

    def readable(self) -> bool:
        """Return True: the stream is for reading."""
        return True

    def seekable(self) -> bool:
        """Return True: any position can be read."""
        return True

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position; the next read uses it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read one range into the buffer; return its length, 0 at the end."""
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        buffer[:length] = self._read(self._position, length)
        self._position += length
        return length

    def readall(self) -> bytes:
        """Read from the position to the end, block after block."""
        blocks = []
        while (length := min(self._block_bytes, self._size - self._position)) > 0:
            blocks.append(self._read(self._position, length))
            self._position += length
        return b"".join(blocks)
