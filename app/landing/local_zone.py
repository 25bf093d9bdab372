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

from app.landing.zone import Entry, PathKind, RenameOutcome, ScratchRevoked

_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1
_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})
_NO_FOLDER: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class LocalZone:
    """A landing zone in the folder `root`, which is created with its first folder: a missing root may be a lost mount.

    Methods keep the contract of `LandingZone`.
    """

    def __init__(self, root: Path) -> None:
        """Keep the path; create nothing."""
        self._root = root

    def kind(self, path: str) -> PathKind:
        """Return what is at the path, by one `lstat`."""
        return _kind_at(self._root / path)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted."""
        target = self._root / folder
        return sorted(os.listdir(target)) if target.is_dir() else []  # noqa: PTH208  # names, not paths

    def kinds(self, folder: str) -> dict[str, PathKind]:
        """Return the kinds in a folder by name, from the folder's entries."""
        try:
            with os.scandir(self._root / folder) as entries:
                kinds = {entry.name: _kind_of(entry) for entry in entries}
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise
            return {}
        return {name: kind for name, kind in kinds.items() if kind is not PathKind.ABSENT}

    def entries(self, folder: str) -> dict[str, Entry]:
        """Return what a folder's entries and their inodes say, by name."""
        found = {}
        for name, kind in self.kinds(folder).items():
            with suppress(FileNotFoundError):
                status = (self._root / folder / name).lstat()
                size = status.st_size if kind is PathKind.FILE else 0
                found[name] = Entry(kind, size, datetime.fromtimestamp(status.st_mtime, UTC))
        return found

    def modified_at(self, path: str) -> datetime | None:
        """Return the path's modification time."""
        try:
            return datetime.fromtimestamp((self._root / path).lstat().st_mtime, UTC)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def create_folder(self, path: str) -> None:
        """Create a folder and its parents, and sync the folder that holds it."""
        target = self._root / path
        try:
            target.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ScratchRevoked(path) from error
        sync_folder(target.parent)

    def create_file(self, path: str, content: bytes) -> None:
        """Create a small file, and sync the folder that holds it."""
        with self.write_file(path) as file:
            file.write(content)
        sync_folder((self._root / path).parent)

    @contextmanager
    def write_file(self, path: str) -> Iterator[BinaryIO]:
        """Stream a new file; sync its content at the end of the block.

        Its name is durable after `rename`, which syncs the folder where it goes. Only after a power failure does anyone
        look into this folder, and then the next owner builds the file again (performance notebook).
        """
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

    @contextmanager
    def read_file(self, path: str) -> Iterator[BinaryIO]:
        """Open a regular file for random reads."""
        with open_regular(self._root / path) as file:
            yield file

    def rename(self, source: str, destination: str) -> RenameOutcome:
        """Move without replacing, and sync the destination's folder.

        A process that dies before the sync may leave a move that a power failure takes back; W3 of the next owner
        makes what it finds durable.
        """
        origin, target = self._root / source, self._root / destination
        try:
            rename_without_replacing(origin, target)
        except FileExistsError:
            return RenameOutcome.DESTINATION_EXISTS
        except (FileNotFoundError, NotADirectoryError):
            if not target.parent.is_dir():
                raise
            return RenameOutcome.SOURCE_MISSING
        sync_folder(target.parent)
        return RenameOutcome.RENAMED

    def make_durable(self, path: str) -> None:
        """Sync the folder that holds the path."""
        with suppress(FileNotFoundError):
            sync_folder((self._root / path).parent)

    def replace_file(self, source: str, destination: str) -> None:
        """Move a file over another, and sync the destination's folder."""
        target = self._root / destination
        (self._root / source).replace(target)
        sync_folder(target.parent)

    def etag(self, path: str) -> str:
        """Return nothing: a move to `aside` in scratch proves that the folder is the owner's."""
        return ""

    def remove_folder(self, path: str, aside: str, etag: str) -> None:
        """Move the folder to `aside`, which fails once the scratch is revoked, and delete it there."""
        target, hidden = self._root / path, self._root / aside
        target.rename(hidden)
        sync_folder(target.parent)
        shutil.rmtree(hidden)

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with its contents."""
        target = self._root / path
        if target.is_dir() and not target.is_symlink():
            with suppress(FileNotFoundError):  # a revocation may delete the same folder at the same time
                shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def revoke_folder(self, path: str) -> None:
        """Move the folder away and create a plain file in its place, until that file is there."""
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        while not _blocks_folder(target):
            aside = target.with_name(f"revoked-{target.name}-{uuid4().hex}")
            # The slash makes the system reject anything but a folder: not the plain file of another revocation.
            with suppress(FileNotFoundError, NotADirectoryError):
                os.rename(f"{target}/", aside)  # noqa: PTH104  # a Path has no final slash
            # A stale owner may recreate its folder between the two steps; the loop moves that one away too.
            with suppress(FileExistsError), target.open("xb"):
                pass
            shutil.rmtree(aside, ignore_errors=True)
        sync_folder(target.parent)


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; never block on anything else at the path.

    A plain `open` of a FIFO blocks until a process writes into it, even across SIGTERM. Raise OSError for anything but
    a regular file, and for a symbolic link to one.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield cast("BinaryIO", file)


def _kind_at(target: Path) -> PathKind:
    try:
        mode = target.lstat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            return PathKind.SPECIAL
        if error.errno not in _NO_FOLDER:
            raise
        return PathKind.ABSENT
    if stat.S_ISLNK(mode):
        return PathKind.FOLDER if target.is_dir() else PathKind.SPECIAL
    return _kind_of_mode(mode)


def _kind_of(entry: os.DirEntry[str]) -> PathKind:
    """Return the kind of a listed entry, ABSENT if it is gone meanwhile."""
    if entry.is_dir(follow_symlinks=False):
        return PathKind.FOLDER
    return PathKind.FILE if entry.is_file(follow_symlinks=False) else _kind_at(Path(entry.path))


def _kind_of_mode(mode: int) -> PathKind:
    if stat.S_ISDIR(mode):
        return PathKind.FOLDER
    return PathKind.FILE if stat.S_ISREG(mode) else PathKind.SPECIAL


def _blocks_folder(target: Path) -> bool:
    """Return whether nothing can be created below the path, because it is neither a folder nor a link to one."""
    kind = _kind_at(target)
    if kind is PathKind.SPECIAL and target.is_symlink():
        target.unlink(missing_ok=True)  # it could lead to a folder later
        return False
    return kind in (PathKind.FILE, PathKind.SPECIAL)


def rename_without_replacing(source: Path, target: Path) -> None:
    """Rename with `renameat2(RENAME_NOREPLACE)`; on a file system without it, link and unlink a file.

    Fabric sees either as one step. With link and unlink, a process that dies in between leaves a second, hidden name in
    scratch. Raise FileExistsError, FileNotFoundError, NotADirectoryError.
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


def sync_folder(folder: Path) -> None:
    """Make a folder's entries durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
