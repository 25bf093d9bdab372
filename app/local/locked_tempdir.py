"""Private temporary folders that live as long as the process that created them.

The process holds a lock on its folder. A killed process leaves an unlocked folder, which the next process with the same
purpose removes. The folder of a living process is never removed.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_RANDOM_CHARACTERS: Final = 8
"""Number of characters that `mkdtemp` appends."""


@contextmanager
def locked_tempdir(purpose: str, *, max_path_bytes: int | None = None) -> Iterator[Path]:
    """Create a folder that only this account can enter, with a path of at most `max_path_bytes`; remove it afterwards.

    Folders that killed processes of this account left for the same purpose are removed first. After a crash inside the
    block, the next process removes this one.
    """
    prefix = f"mirrorgate-locked-{purpose}-"
    parent = Path(tempfile.gettempdir()).absolute()
    if max_path_bytes is not None and len(bytes(parent / prefix)) + _RANDOM_CHARACTERS > max_path_bytes:
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
        except OSError:  # a file system without locks: it is never swept
            return folder, os.open(folder, os.O_RDONLY)
        if lock is not None and folder.exists():
            return folder, lock
        if lock is not None:  # another process swept it before it was locked
            os.close(lock)


def _sweep(parent: Path, prefix: str) -> None:
    """Remove folders that no process holds; one that cannot be removed remains."""
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            if folder.lstat().st_uid == os.geteuid() and (lock := _lock(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder; return the descriptor that holds it, which children do not inherit.

    None if another process holds the folder, or it is gone.
    """
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
