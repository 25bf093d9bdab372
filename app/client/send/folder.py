"""Watch a folder into which a tool writes files of changes: which are complete, and in which order to send them."""

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from app.client.file_paths import FileNames, FileOrder, sort_key
from app.errors import Code, Misconfigured


@dataclass(frozen=True, slots=True)
class FileState:
    """Size and modification time: they show whether a file is still the one that was sent."""

    size: int
    modified: int
    """Nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A file that was not sent yet."""

    name: str
    state: FileState
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a folder that hold changes, by their path in the folder, and the paths of all files."""

    states: dict[str, FileState]
    names: set[str]


@dataclass(frozen=True, slots=True)
class WatchedFolder:
    """A folder to list, with its subfolders if it is `recursive`. Links to folders are not followed."""

    path: Path
    names: FileNames = field(default_factory=FileNames)
    recursive: bool = False
    excluded: Path | None = None
    """A subfolder that holds no files to send, such as that of the sent files."""

    def list(self) -> Listing:
        """List the folder. Raises Misconfigured `bad_setting`."""
        listing = Listing({}, set())
        try:
            for name, entry in self._files(""):
                listing.names.add(name)
                if self.names.holds_changes(name):
                    with suppress(FileNotFoundError):  # it was removed since the listing
                        if entry.is_file():
                            listing.states[name] = state_of(entry.stat())
        except OSError as error:
            remedy = "Check that the folder is mounted and can be read, then run the same command again."
            detail = f"{error.filename or self.path} cannot be read: {error.strerror}"
            raise Misconfigured(Code.BAD_SETTING, detail, remedy=remedy) from error
        return listing

    def _files(self, below: str) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
        with os.scandir(self.path / below) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield below + entry.name, entry
                elif self.recursive and self.names.is_open(entry.name) and not self._is_excluded(below + entry.name):
                    with suppress(FileNotFoundError):  # it was removed since the listing
                        yield from self._files(f"{below}{entry.name}/")

    def _is_excluded(self, name: str) -> bool:
        return self.excluded is not None and (self.path / name).resolve() == self.excluded.resolve()


@dataclass
class PendingFiles:
    """Tells which files are complete, and in which order to send them.

    A file is complete when it has not changed for `settle_seconds`. With `done_marker` it is complete as soon as a file
    with its name and that suffix exists.
    """

    settle_seconds: float
    order: FileOrder = FileOrder.NAME
    done_marker: str | None = None
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, tuple[FileState, float]] = field(default_factory=dict)
    """The last state of each waiting file, and the time when it was first seen in that state."""

    def waiting(self, listing: Listing, sent: Collection[str]) -> list[WaitingFile]:
        """Return the files that were not sent yet, in the order in which to send them."""
        now = self.clock()
        unsent = {name: state for name, state in listing.states.items() if name not in sent}
        self._seen = {
            name: (state, self._seen[name][1] if self._seen.get(name, (None,))[0] == state else now)
            for name, state in unsent.items()
        }
        files = [WaitingFile(name, state, self._is_complete(name, listing, now)) for name, state in unsent.items()]
        return sorted(files, key=lambda file: sort_key(self.order, file.name, file.state.modified))

    def _is_complete(self, name: str, listing: Listing, now: float) -> bool:
        if self.done_marker is not None:
            return name + self.done_marker in listing.names
        return now - self._seen[name][1] >= self.settle_seconds


def state_of(status: os.stat_result) -> FileState:
    """Return size and modification time of a file."""
    return FileState(status.st_size, status.st_mtime_ns)
