"""A landing zone in a folder of a POSIX file system."""

import ctypes
import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, cast
from uuid import uuid4

from app.landing.zone import PathKind, RenameOutcome, ScratchRevoked

_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1
_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})


class LocalZone:
    """The folder `root`; created when missing."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def kind(self, path: str) -> PathKind:
        try:
            mode = (self._root / path).stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return PathKind.ABSENT
        return PathKind.FOLDER if stat.S_ISDIR(mode) else PathKind.FILE

    def names(self, folder: str) -> list[str]:
        target = self._root / folder
        return sorted(os.listdir(target)) if target.is_dir() else []  # noqa: PTH208  # names, not paths

    def kinds(self, folder: str) -> dict[str, PathKind]:
        try:
            with os.scandir(self._root / folder) as entries:
                # An entry that is gone meanwhile is neither, where the listing itself does not tell.
                return {
                    entry.name: PathKind.FOLDER if entry.is_dir() else PathKind.FILE
                    for entry in entries
                    if entry.is_dir() or entry.is_file()
                }
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def modified_at(self, path: str) -> datetime | None:
        try:
            return datetime.fromtimestamp((self._root / path).lstat().st_mtime, UTC)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def create_folder(self, path: str) -> None:
        target = self._root / path
        try:
            target.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ScratchRevoked(path) from error
        _sync_folder(target.parent)

    def create_file(self, path: str, content: bytes) -> None:
        with self.write_file(path) as file:
            file.write(content)

    @contextmanager
    def write_file(self, path: str) -> Iterator[BinaryIO]:
        target = self._root / path
        try:
            file = target.open("xb")
        except NotADirectoryError as error:
            raise ScratchRevoked(path) from error
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                target.unlink()
            raise
        _sync_folder(target.parent)

    @contextmanager
    def read_file(self, path: str) -> Iterator[BinaryIO]:
        with (self._root / path).open("rb") as file:
            yield cast("BinaryIO", file)

    def rename(self, source: str, destination: str) -> RenameOutcome:
        origin, target = self._root / source, self._root / destination
        try:
            rename_without_replacing(origin, target)
        except FileExistsError:
            return RenameOutcome.DESTINATION_EXISTS
        except (FileNotFoundError, NotADirectoryError):
            if not target.parent.is_dir():
                raise
            return RenameOutcome.SOURCE_MISSING
        _sync_folder(target.parent)
        return RenameOutcome.RENAMED

    def make_durable(self, path: str) -> None:
        with suppress(FileNotFoundError):
            _sync_folder((self._root / path).parent)

    def replace_file(self, source: str, destination: str) -> None:
        target = self._root / destination
        (self._root / source).replace(target)
        _sync_folder(target.parent)

    def stamp(self, path: str) -> str:
        return ""

    def remove_folder(self, path: str, aside: str, stamp: str) -> None:
        target, hidden = self._root / path, self._root / aside
        target.rename(hidden)
        _sync_folder(target.parent)
        shutil.rmtree(hidden)

    def remove(self, path: str) -> None:
        target = self._root / path
        if target.is_dir() and not target.is_symlink():
            with suppress(FileNotFoundError):  # a revocation deletes what it took away at the same time
                shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def revoke_folder(self, path: str) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        while not target.is_file():
            aside = target.with_name(f"revoked-{target.name}-{uuid4().hex}")
            # The slash makes the system refuse anything but a folder: not the plain file of another revocation.
            with suppress(FileNotFoundError, NotADirectoryError):
                os.rename(f"{target}/", aside)  # noqa: PTH104  # a Path has no final slash
            # A stale worker may recreate its folder between the two steps: the loop takes that one away too.
            with suppress(FileExistsError), target.open("xb"):
                pass
            shutil.rmtree(aside, ignore_errors=True)
        _sync_folder(target.parent)


def rename_without_replacing(source: Path, target: Path) -> None:
    """`renameat2(RENAME_NOREPLACE)`; a file system without it gets link + unlink for files.

    Both are atomic for what mirroring sees; with link + unlink a process that dies in between leaves a second,
    hidden name in scratch. Raises FileExistsError, FileNotFoundError, NotADirectoryError.
    """
    if _renameat2 is not None:
        if _renameat2(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE) == 0:
            return
        code = ctypes.get_errno()
        if code not in _UNSUPPORTED:
            raise OSError(code, os.strerror(code), str(source), None, str(target))
    if source.is_dir():
        if target.exists():
            raise FileExistsError(str(target))
        source.rename(target)
        return
    os.link(source, target)
    source.unlink()


def _load_renameat2() -> "ctypes._NamedFuncPointer | None":
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function


_renameat2 = _load_renameat2()


def _sync_folder(folder: Path) -> None:
    """Make a folder's entries durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
