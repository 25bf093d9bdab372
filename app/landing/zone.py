"""The contract of a landing zone, which every store keeps.

Paths are relative to the zone's root, with `/` between parts. Every write is durable when the call returns, but see
`write_file`.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import BinaryIO, Protocol

from mirrorgate.errors import Code, InvariantBroken


class RenameOutcome(StrEnum):
    """The result of a rename that never replaces."""

    RENAMED = "renamed"
    DESTINATION_EXISTS = "destination_exists"
    SOURCE_MISSING = "source_missing"


class PathKind(StrEnum):
    """The kind of entry at a path."""

    ABSENT = "absent"
    FILE = "file"
    FOLDER = "folder"
    SPECIAL = "special"
    """Neither a regular file nor a folder, nor a link to a folder: a FIFO, socket, device or other symbolic link. It is
    never opened, because that can block forever."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a listing: its kind, its size in bytes (0 unless it is a file) and its last change."""

    kind: PathKind
    size: int
    modified: datetime | None
    """By the store's clock; None if the store does not say."""


class ScratchRevoked(InvariantBroken):
    """The folder cannot be written because a newer epoch has turned it into a plain file."""

    def __init__(self, path: str) -> None:
        """Name the path that cannot be written."""
        super().__init__(Code.STALE_EPOCH, f"{path} is revoked: a newer epoch owns the table")


class FolderRenameUnsupported(OSError):
    """The store cannot move a folder in one step."""


class LandingZone(Protocol):
    """A store of files. Every method raises OSError when the store fails.

    The request may have been carried out nevertheless, or be carried out later.
    """

    def kind(self, path: str) -> PathKind:
        """Return what is at the path now, by a single request, so that a change cannot mix two states."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; empty for a missing folder."""
        ...

    def kinds(self, folder: str) -> dict[str, PathKind]:
        """Return the kinds in a folder by name; empty for a missing folder. The state may be older than `kind`'s."""
        ...

    def entries(self, folder: str) -> dict[str, Entry]:
        """Return what is in a folder by name; empty for a missing folder. As fresh as `kinds`."""
        ...

    def modified_at(self, path: str) -> datetime | None:
        """Return when the path was last changed, by the store's clock; None for a missing path."""
        ...

    def create_folder(self, path: str) -> None:
        """Create a folder and its parents unless it exists. Raise ScratchRevoked on or below a plain file."""
        ...

    def create_file(self, path: str, content: bytes) -> None:
        """Create a small file. Raise FileExistsError, or ScratchRevoked if its folder was revoked."""
        ...

    def write_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Stream a new file; its content is complete and durable when the block ends, and removed if the block raises.

        Its name may be lost with the machine's power until `rename` moves it, which then finds SOURCE_MISSING.
        Raise FileExistsError, or ScratchRevoked if its folder was revoked. A store that notices a revocation only
        later raises nothing, and the file does not exist.
        """
        ...

    def read_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for random reads. Raise FileNotFoundError."""
        ...

    def rename(self, source: str, destination: str) -> RenameOutcome:
        """Move a file or folder in one atomic step that never replaces; it is durable when the call returns.

        DESTINATION_EXISTS may also mean that this very move was carried out and its answer lost: the caller verifies
        the destination. Raise FolderRenameUnsupported.
        """
        ...

    def make_durable(self, path: str) -> None:
        """Make what is at a path durable, or its absence, whichever process died before that."""
        ...

    def replace_file(self, source: str, destination: str) -> None:
        """Move a file over another in one atomic step; only for metadata and repairs."""
        ...

    def etag(self, path: str) -> str:
        """Return what tells the folder at a path from a later one; empty if `remove_folder` uses `aside` instead."""
        ...

    def remove_folder(self, path: str, aside: str, etag: str) -> None:
        """Hide a folder in one step, by a move to `aside` in scratch if the store can, and delete it.

        Delete only the folder that `etag` was taken of: once the scratch is revoked, another folder may be there.
        A process that dies inside leaves the folder whole, or hidden. Raise OSError while it is in use.
        """
        ...

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with its contents, unless it is missing. Only for scratch."""
        ...

    def revoke_folder(self, path: str) -> None:
        """Make the path a plain file for good, so that nothing below it can be written or renamed.

        A plain file that another process has put there meanwhile remains. A process that dies inside leaves the folder
        as it was, or moved away; a repeated call completes the revocation.
        """
        ...
