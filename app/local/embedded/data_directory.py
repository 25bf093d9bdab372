"""The data directory of `mirrorgate up`: locked so that only one gateway uses it, and closed to other accounts."""

import fcntl
import os
import stat
from pathlib import Path
from typing import Final, Self

from mirrorgate.errors import Code, Misconfigured

_OTHER_ACCOUNTS: Final = 0o077
"""The permission bits of the group and of everybody else."""


class DataDirectory:
    """Locks a data directory for this process; creates it (mode 0700) if it is missing.

    The kernel releases the lock when the process ends, however it ends. The lock file stays and holds the pid of its
    last owner.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._descriptor: int | None = None
        self._has_other_folders = False

    def check(self) -> None:
        """Raise Misconfigured as entering would, without creating anything."""
        present = next(path for path in (self.path, *self.path.parents) if path.exists())
        if not present.is_dir() or not os.access(present, os.W_OK | os.X_OK):
            why = "cannot be written by this user" if present.is_dir() else "is not a folder"
            raise self._unusable(f"{present} {why}")
        if (self.path / "lock").exists():
            with self:
                pass

    def __enter__(self) -> Self:
        """Take the lock. Raises Misconfigured `already_running` with the directory and the pid of the owner."""
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise Misconfigured(
                Code.ALREADY_RUNNING, f"a gateway with pid {holder} is running on the data directory {self.path}"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor
        return self

    def close_to_others(self) -> str | None:
        """Take the permissions of other accounts away, and return what was done, None if they had none.

        A folder that no gateway has used and that has folders in it may be one that other programs need, such as /srv.
        It stays as it is, like one that belongs to another account: the files of the gateway are private in themselves.
        Call this with the lock held.
        """
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if not mode & _OTHER_ACCOUNTS:
            return None
        told = f"other accounts could enter the data directory {self.path} (mode {mode:04o})"
        why = "it has folders that are not a gateway's"
        if not self._has_other_folders:
            try:
                self.path.chmod(mode & ~_OTHER_ACCOUNTS)
            except OSError as error:
                why = f"this user cannot change its mode ({error.strerror})"
            else:
                return f"{told}, and no longer can"
        return f"{told}, and still can, because {why}"

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = self.path / "lock"
            self._has_other_folders = not lock.exists() and any(entry.is_dir() for entry in self.path.iterdir())
            return os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error

    def _unusable(self, why: str) -> Misconfigured:
        return Misconfigured(
            Code.BAD_SETTING,
            f"the data directory {self.path} cannot be used: {why}",
            remedy="Give a --data-dir that this user can create and write.",
        )
