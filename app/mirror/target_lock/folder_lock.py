"""The lock of a target in a local folder: `flock` on `<target>/_mirrorgate.lock`.

The kernel releases the lock when its process ends, however it ends, so that no stale lock is left. The file stays and
names the last owner. Children of the process do not inherit the lock.
"""

import fcntl
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from app.errors import Code, Misconfigured, TemporarilyUnavailable
from app.mirror.target_lock.held_target import taken

log = structlog.get_logger()

LOCK_FILE: Final = "_mirrorgate.lock"
_MAX_OWNER_BYTES: Final = 4096


class FolderLock:
    """Holds the lock of a target folder, from the call of `acquire` until `release`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Create the folder if it is missing, and lock it.

        Raise Misconfigured `mirror_running` with the pid and host of the owner, or `bad_setting` for a folder that
        cannot be created or written. A file system without locks is used without one, with a warning.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise Misconfigured(
                Code.BAD_SETTING,
                f"the mirror's target {self._folder} cannot be used: {error.strerror}",
                remedy="Give a folder with --to or MIRRORGATE_MIRROR_TARGET that this user can create and write.",
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(os.pread(descriptor, _MAX_OWNER_BYTES, 0))
            os.close(descriptor)
            raise taken(str(self._folder), owner) from None
        except OSError as error:
            log.warning("mirror_target_unlocked", target=str(self._folder), detail=error.strerror)
        self._descriptor = descriptor
        with suppress(OSError):  # a full disk: the lock holds without its owner's name
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode() + b"\n", 0)

    def release(self) -> None:
        """Release the lock. The file stays."""
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
