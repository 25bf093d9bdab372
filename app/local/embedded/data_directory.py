"""The data directory of `mirrorgate up`, and the lock that keeps a second gateway out of it."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from app.errors import Code, Misconfigured


class DataDirectory:
    """Holds a data directory for this process; entering it creates the directory (mode 0700) when missing.

    The lock belongs to the open file, so the kernel gives it back when the process dies, however it dies;
    the file stays and only says whose lock it was.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._descriptor: int | None = None

    def check(self) -> None:
        """Raise Misconfigured as entering would, and make nothing."""
        present = next(path for path in (self.path, *self.path.parents) if path.exists())
        if not present.is_dir() or not os.access(present, os.W_OK | os.X_OK):
            why = "cannot be written by this user" if present.is_dir() else "is not a folder"
            raise self._unusable(f"{present} {why}")
        if (self.path / "lock").exists():
            with self:
                pass

    def __enter__(self) -> Self:
        """Take the lock. Raises Misconfigured `already_running` naming the directory and the pid that has it."""
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise Misconfigured(
                Code.ALREADY_RUNNING, f"a gateway with pid {holder} runs on the data directory {self.path}"
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
            remedy="Give a --data-dir that this user may create and write.",
        )
