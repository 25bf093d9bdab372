"""The lock of the place that a mirror writes to: one mirror per folder.

`exclusive_target` locks a folder with `flock` on `<target>/_mirrorgate.lock`; an object store has no lock. A second
mirror on a target would do the work twice and contradict the first one in reports. The rows are safe from it: the Delta
log of a table rejects a second commit of one landing file (decision 0037).

The kernel releases the lock when its process ends, however it ends. The file remains and names the last owner. Children
of the process do not inherit the lock.
"""

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

import structlog
from deltalake.exceptions import DeltaError

from app.mirror.target import MirrorTarget, store_error
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable

log = structlog.get_logger()

LOCK_FILE: Final = "_mirrorgate.lock"
_MAX_OWNER_BYTES: Final = 4096
_RETRY_SECONDS: Final = 0.5
_STORE_CHECK_SECONDS: Final = 20.0
"""Seconds between a running mirror's checks that its object store answers."""


HeldTarget: TypeAlias = "_AnsweringStore | _FolderLock"
"""A target that this process writes to."""


@contextmanager
def exclusive_target(
    location: str, storage_options: Mapping[str, str], *, wait_seconds: float = 0.0
) -> Iterator[HeldTarget]:
    """Hold a folder until the block ends, or require that an object store answers.

    Wait up to `wait_seconds` for a mirror that is about to end. Raise Misconfigured `mirror_running` with the owner of
    a folder, or `bad_setting` for a target that cannot be used, and TemporarilyUnavailable `mirror_away` if a store
    fails.
    """
    target = MirrorTarget(location, storage_options)
    if target.is_remote:
        store = _AnsweringStore(target)
        store.require()
        yield store
        return
    lock = _FolderLock(Path(location))
    lock.acquire(wait_seconds)
    try:
        yield lock
    finally:
        lock.release()


class _AnsweringStore:
    """An object store that answers."""

    def __init__(self, target: MirrorTarget) -> None:
        self._target = target
        self._next_check = 0.0

    def require(self) -> None:
        """List the target. Raise Misconfigured `bad_setting` or TemporarilyUnavailable `mirror_away`."""
        try:
            self._target.tables()
        except (OSError, DeltaError) as error:
            raise store_error(f"the mirror's target {self._target.location}", error) from error
        self._next_check = time.monotonic() + _STORE_CHECK_SECONDS

    def check(self) -> None:
        """Raise TemporarilyUnavailable `mirror_away` while the store fails.

        Rejected credentials count as away too: they can be valid again when they are rotated.
        """
        if time.monotonic() < self._next_check:
            return
        try:
            self.require()
        except Misconfigured as error:
            raise TemporarilyUnavailable(Code.MIRROR_AWAY, error.detail, remedy=error.remedy) from error


class _FolderLock:
    """The lock of a folder, from the call of `acquire` until `release`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self, wait_seconds: float) -> None:
        """Create the folder if it is missing, and lock it. A file system without locks is used without one."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise Misconfigured(
                Code.BAD_SETTING,
                f"the mirror's target {self._folder} cannot be used: {error.strerror}",
                remedy="Give a folder with --to or MIRRORGATE_MIRROR_TARGET that this user can create and write.",
            ) from error
        give_up = time.monotonic() + wait_seconds
        while not self._lock(self._descriptor):
            if time.monotonic() >= give_up:
                owner = _owner(os.pread(self._descriptor, _MAX_OWNER_BYTES, 0))
                self.release()
                raise Misconfigured(Code.MIRROR_RUNNING, f"another mirror writes to {self._folder}: {owner}")
            threading.Event().wait(_RETRY_SECONDS)
        with suppress(OSError):  # a full disk: the lock holds without its owner's name
            os.ftruncate(self._descriptor, 0)
            owned = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
            os.pwrite(self._descriptor, owned.encode() + b"\n", 0)

    def _lock(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            log.warning("mirror_target_unlocked", target=str(self._folder), detail=error.strerror)
        return True

    def release(self) -> None:
        """Release the lock. The file remains."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def check(self) -> None:
        """Raise TemporarilyUnavailable `mirror_away` when the folder is gone, or is another one than the locked one.

        A lost mount leaves an empty folder. Without this check, the mirror would start all tables again there.
        """
        assert self._descriptor is not None
        try:
            is_same = os.path.samestat(os.fstat(self._descriptor), (self._folder / LOCK_FILE).stat())
        except OSError as error:
            raise _away(f"{self._folder}: {error.strerror}") from error
        if not is_same:
            raise _away(f"{self._folder} is not the folder that this mirror has locked")


def _owner(content: bytes) -> str:
    try:
        owner = json.loads(content)
        return f"pid {owner['pid']} on {owner['host']}"
    except (ValueError, KeyError, TypeError):
        return "an unknown process"


def _away(detail: str) -> TemporarilyUnavailable:
    return TemporarilyUnavailable(
        Code.MIRROR_AWAY,
        f"the mirror's target {detail}",
        remedy="Mount the folder again, and the mirror continues. To begin a new mirror there, restart the mirror.",
    )
