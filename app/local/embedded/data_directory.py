"""The data directory of `mirrorgate up`, locked so that only one gateway uses it."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from app.errors import Code, Misconfigured


class DataDirectory:
    """Locks a data directory for this process; creates it (mode 0700) if it is missing.

    The kernel releases the lock when the process ends, however it ends. The lock file stays and holds the pid of its
    last owner.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._descriptor: int | None = None

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error

    def _unusable(self, why: str) -> Misconfigured:
        return Misconfigured(
            Code.BAD_SETTING,
            f"the data directory {self.path} cannot be used: {why}",
            remedy="Give a --data-dir that this user can create and write.",
        )
