"""Private folders among the system's temporary ones that last as long as the process that made them.

The process holds a lock on its folder. A killed one leaves the folder without it, and the next that starts takes that
away; a folder whose process lives is never taken.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_RANDOM: Final = 8
"""Characters that `mkdtemp` appends."""


@contextmanager
def temporary_folder(purpose: str, *, longest: int | None = None) -> Iterator[Path]:
    """A new folder that only this account can enter, its path of at most `longest` bytes; gone when the block ends.

    First those go that killed processes of this account left behind for the same purpose. A process that dies inside
    leaves its own to the next.
    """
    prefix = f"mirrorgate-held-{purpose}-"
    parent = Path(tempfile.gettempdir()).absolute()
    if longest is not None and len(bytes(parent / prefix)) + _RANDOM > longest:
        parent = Path("/tmp")
    _sweep(parent, prefix)
    folder, lock = _make(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make(parent: Path, prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            lock = _lock(folder)
        except OSError:  # a file system without locks: nobody sweeps it there
            return folder, os.open(folder, os.O_RDONLY)
        if lock is not None and folder.exists():
            return folder, lock
        if lock is not None:  # another process swept it before it was locked
            os.close(lock)


def _sweep(parent: Path, prefix: str) -> None:
    """Remove what nobody holds; what cannot be removed stays."""
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            if folder.lstat().st_uid == os.geteuid() and (lock := _lock(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the folder, which children do not inherit; None when another does, or it is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor
