"""Files of a storage service as Python streams, one block in memory at a time."""

import io
from collections.abc import Callable
from typing import Any


class Upload(io.RawIOBase):
    """Collects writes and hands them on in blocks; `send` hands on the rest."""

    def __init__(self, append: Callable[[bytes, int], None], block_bytes: int) -> None:
        self._append = append
        self._block_bytes = block_bytes
        self._block = bytearray()
        self.sent = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.sent + len(self._block)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), self._block_bytes):
            self._block += view[start : start + self._block_bytes]
            if len(self._block) >= self._block_bytes:
                self.send()
        return len(view)

    def send(self) -> None:
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
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        buffer[:length] = self._read(self._position, length)
        self._position += length
        return length

    def readall(self) -> bytes:
        blocks = []
        while (length := min(self._block_bytes, self._size - self._position)) > 0:
            blocks.append(self._read(self._position, length))
            self._position += length
        return b"".join(blocks)
