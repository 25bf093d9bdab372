"""What a landing zone must guarantee, whatever store it lives in.

Paths are relative to the zone's root, with `/` between parts. Every write is durable when the call returns.
"""

from contextlib import AbstractContextManager
from datetime import datetime
from enum import StrEnum
from typing import BinaryIO, Protocol

from app.errors import Code, InvariantBroken


class RenameOutcome(StrEnum):
    """What came of a rename that never replaces."""

    RENAMED = "renamed"
    DESTINATION_EXISTS = "destination_exists"
    SOURCE_MISSING = "source_missing"


class PathKind(StrEnum):
    """What stands at a path."""

    ABSENT = "absent"
    FILE = "file"
    FOLDER = "folder"
    SPECIAL = "special"
    """Neither a regular file nor a folder, nor a link to a folder: a FIFO, socket, device or other symbolic link. It is
    never opened: that can block forever."""


class ScratchRevoked(InvariantBroken):
    """The folder cannot be written because a newer epoch has turned it into a plain file."""

    def __init__(self, path: str) -> None:
        super().__init__(Code.STALE_EPOCH, f"{path} is revoked: a newer epoch owns the table")


class FolderRenameUnsupported(OSError):
    """The store cannot move a folder in one step."""


class StorageError(OSError):
    """A remote store did not do what it was asked; the text says what was asked and answered, and holds no row."""


class LandingZone(Protocol):
    """A store of files. All methods raise OSError when the store itself fails: what was asked for may then have
    been done all the same, or be done later.
    """

    def kind(self, path: str) -> PathKind:
        """What stands at the path now, by one look: what changes meanwhile is never taken for something else."""
        ...

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; empty for a missing one."""
        ...

    def kinds(self, folder: str) -> dict[str, PathKind]:
        """What stands in a folder, by name; empty for a missing one. It may show an older state than `kind` does."""
        ...

    def modified_at(self, path: str) -> datetime | None:
        """When what stands at the path was last changed, by the store's clock; None for a missing one."""
        ...

    def create_folder(self, path: str) -> None:
        """Create a folder and its parents; no-op when it exists. Raises ScratchRevoked below or on a plain file."""
        ...

    def create_file(self, path: str, content: bytes) -> None:
        """Create a small file. Raises FileExistsError, or ScratchRevoked when its folder was revoked."""
        ...

    def write_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Stream a new file; it is complete and durable when the block ends, removed when the block raises.

        Raises FileExistsError, or ScratchRevoked when its folder was revoked; a store that notices only later
        raises nothing, and the file is not there.
        """
        ...

    def read_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for random reads. Raises FileNotFoundError."""
        ...

    def rename(self, source: str, destination: str) -> RenameOutcome:
        """Move a file or folder in one atomic step that never replaces; durable when it returns.

        DESTINATION_EXISTS may also mean that this very move was done and its answer lost: look. Raises
        FolderRenameUnsupported.
        """
        ...

    def make_durable(self, path: str) -> None:
        """Make durable what stands at a path, or that nothing does, whoever died before it was durable."""
        ...

    def replace_file(self, source: str, destination: str) -> None:
        """Move a file over another in one atomic step; only for metadata, never for landing files."""
        ...

    def etag(self, path: str) -> str:
        """What tells the folder at a path from one that comes there later; empty where `aside` does that."""
        ...

    def remove_folder(self, path: str, aside: str, etag: str) -> None:
        """Take a folder out of sight in one step, by way of `aside` in scratch where the store can, and delete it.

        Only the folder that `etag` was taken of: once the scratch is revoked, another one may stand there.
        A process that dies inside leaves the folder whole, or out of sight. Raises OSError while it is in use.
        """
        ...

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with all in it; no-op for a missing one. Only for scratch."""
        ...

    def revoke_folder(self, path: str) -> None:
        """Make the path a plain file for good, whatever stood there: nothing below it can be written or renamed.

        A plain file that another process has put there meanwhile is never taken away again.
        A process that dies inside leaves the folder as it was or moved away; doing it again completes it.
        """
        ...
