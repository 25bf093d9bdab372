"""Watch a folder into which a tool writes files of changes: which are complete, and in which order to send them."""

import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from app.errors import Code, Misconfigured

UNFINISHED_NAMES: Final = (".*", "_*", "*~", "*.tmp", "*.temp", "*.part", "*.partial", "*.inprogress", "*.crdownload")
"""Name patterns that many tools use for files they are still writing."""


@dataclass(frozen=True, slots=True)
class FileState:
    """Size and modification time: they show whether a file is still the one that was sent."""

    size: int
    modified: int
    """Nanoseconds since 1970."""


class FileOrder(StrEnum):
    """The order in which files are sent."""

    NAME = "name"
    MODIFIED = "modified"


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A file that was not sent yet."""

    name: str
    state: FileState
    is_complete: bool


@dataclass
class WatchedFolder:
    """Lists a folder repeatedly and tells which files are complete.

    A file is complete when it has not changed for `settle_seconds`. With `done_marker` it is complete as soon as a file
    with its name and that suffix exists.
    """

    path: Path
    settle_seconds: float
    order: FileOrder = FileOrder.NAME
    only: Collection[str] = ("*",)
    ignored: Collection[str] = ()
    done_marker: str | None = None
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, tuple[FileState, float]] = field(default_factory=dict)
    """The last state of each waiting file, and the time when it was first seen in that state."""
    _names: set[str] = field(default_factory=set)
    """All names found by the last listing."""

    def states(self) -> dict[str, FileState]:
        """List the files of the folder that hold changes, by name. Raises Misconfigured `bad_setting`."""
        found: dict[str, FileState] = {}
        names: set[str] = set()
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    names.add(entry.name)
                    if self._holds_changes(entry.name):
                        with suppress(FileNotFoundError):  # it was removed since the listing
                            if entry.is_file():
                                found[entry.name] = state_of(entry.stat())
        except OSError as error:
            remedy = "Check that the folder is mounted and can be read, then run the same command again."
            detail = f"{self.path} cannot be read: {error.strerror}"
            raise Misconfigured(Code.BAD_SETTING, detail, remedy=remedy) from error
        self._names = names
        return found

    def waiting(self, states: dict[str, FileState], sent: Collection[str]) -> list[WaitingFile]:
        """Return the files that were not sent yet, in the order in which to send them."""
        now = self.clock()
        unsent = {name: state for name, state in states.items() if name not in sent}
        self._seen = {
            name: (state, self._seen[name][1] if self._seen.get(name, (None,))[0] == state else now)
            for name, state in unsent.items()
        }
        files = [WaitingFile(name, state, self._is_complete(name, now)) for name, state in unsent.items()]
        if self.order is FileOrder.MODIFIED:
            return sorted(files, key=lambda file: (file.state.modified, file.name))
        return sorted(files, key=lambda file: file.name)

    def _is_complete(self, name: str, now: float) -> bool:
        if self.done_marker is not None:
            return name + self.done_marker in self._names
        return now - self._seen[name][1] >= self.settle_seconds

    def _holds_changes(self, name: str) -> bool:
        if self.done_marker is not None and name.endswith(self.done_marker):
            return False
        if any(fnmatchcase(name, pattern) for pattern in (*UNFINISHED_NAMES, *self.ignored)):
            return False
        return any(fnmatchcase(name, pattern) for pattern in self.only)


def state_of(status: os.stat_result) -> FileState:
    """Return size and modification time of a file."""
    return FileState(status.st_size, status.st_mtime_ns)
