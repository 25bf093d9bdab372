"""Files of a folder: list them with their subfolders, and read them.

`mirrorgate send` and the bridge of object storage read folders with it, so they know the same files by the same paths.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

from mirrorgate.errors import Code, MirrorgateError, Misconfigured, RejectedInput, TemporarilyUnavailable

BLOCK_BYTES: Final = 2**18


@dataclass(frozen=True, slots=True)
class Found:
    """A file or object of a listing. `key` is its path below the source, `modified` in milliseconds since 1970."""

    key: str
    size: int
    etag: str
    """A string that changes with the content."""
    modified: int


class ObjectGone(Exception):
    """The file or object was deleted since it was listed."""


class FileChanged(RejectedInput):
    """The file was written while it was read, so its last message may be incomplete."""


def found_file(key: str, status: os.stat_result) -> Found:
    """Return a file as a listing shows it: size and modification time show whether it is still the same."""
    return Found(key, status.st_size, f"{status.st_size}-{status.st_mtime_ns}", status.st_mtime_ns // 1_000_000)


class FileBlocks:
    """The blocks of a file that is open; `file` is for readers that need another order.

    Raises FileChanged in place of the end of a file that was written meanwhile.
    """

    def __init__(self, file: FileIO, errors: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self.file = file
        self.on_read: Callable[[int], None] = lambda _: None
        """Called with the size of each block."""
        self._errors = errors
        self._state = self._present()

    @property
    def is_changed(self) -> bool:
        """True if the file has another size or modification time than when it was opened."""
        return self._present() != self._state

    def __iter__(self) -> Iterator[bytes]:
        with self._errors():
            while block := os.read(self.file.fileno(), BLOCK_BYTES):
                self.on_read(len(block))
                yield block
            if self.is_changed and stat.S_ISREG(os.fstat(self.file.fileno()).st_mode):
                detail = "the file was changed while it was read, so its end is not sent"
                raise FileChanged(Code.BAD_REQUEST, detail, remedy="Send only complete files.")

    def _present(self) -> str:
        return found_file("", os.fstat(self.file.fileno())).etag


class FolderStore:
    """A folder whose files are read. Threads share it. Links to folders are not followed.

    Methods raise TemporarilyUnavailable `source_unavailable` for a folder that cannot be read now, and Misconfigured
    `source_rejected` for one that does not exist or denies access.
    """

    def __init__(self, path: Path) -> None:
        self.url = str(path)
        self._path = path
        if not path.is_dir():
            raise Misconfigured(Code.SOURCE_REJECTED, f"{path} is not a folder", remedy="Correct the path.")

    def objects(self, prefix: str = "", after: str | None = None) -> Iterator[Found]:
        """Yield the files below a prefix (`a/` or empty), in any order; with `after`, only keys that sort after it."""
        with self._errors():
            for key, entry in self._files(prefix):
                if after is None or key > after:
                    with suppress(FileNotFoundError):  # it was deleted since the listing
                        if entry.is_file():
                            yield found_file(key, entry.stat())

    def folders(self, prefix: str = "") -> list[str]:
        """Return the folders directly below a prefix, each with a slash at its end."""
        with self._errors(), os.scandir(self._path / prefix) as entries:
            return sorted(f"{prefix}{entry.name}/" for entry in entries if entry.is_dir(follow_symlinks=False))

    def found(self, key: str) -> Found:
        """Return a file as a listing shows it. Raises ObjectGone."""
        with self._errors():
            try:
                return found_file(key, (self._path / key).stat())
            except FileNotFoundError:
                raise ObjectGone(key) from None

    @contextmanager
    def reading(self, key: str) -> Iterator[tuple[str, Iterable[bytes]]]:
        """Yield the ETag of a file and the blocks of its content. Raises ObjectGone."""
        with self._errors():
            try:
                stream = (self._path / key).open("rb", buffering=0)
            except FileNotFoundError:
                raise ObjectGone(key) from None
        with stream:
            yield found_file(key, os.fstat(stream.fileno())).etag, FileBlocks(stream, self._errors)

    def _files(self, below: str) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
        with os.scandir(self._path / below) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield below + entry.name, entry
                else:
                    with suppress(FileNotFoundError):  # it was deleted since the listing
                        yield from self._files(f"{below}{entry.name}/")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> MirrorgateError:
        detail = f"{error.filename or self.url} cannot be read: {error.strerror}"
        if isinstance(error, PermissionError):
            return Misconfigured(Code.SOURCE_REJECTED, detail, remedy="Let this user read the folder and its files.")
        return TemporarilyUnavailable(Code.SOURCE_UNAVAILABLE, detail)
