"""A landing zone in OneLake or ADLS Gen2, its files as streams, and a probe of the conditions that the service obeys.

`AdlsZone` is the landing zone. A lost answer says nothing about what was done. So every step reads what is at the path
before it is repeated; a file that a lost request may have created is recognized by the attempt's name in its metadata,
or by its ETag. A process that dies inside a call leaves at most a hidden file in scratch.

`supported_conditions` probes which conditions on ETags a DFS service obeys. `Upload` and `Download` are files of a
storage service as Python streams, with one block in memory at a time.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, BinaryIO, Final, cast
from uuid import uuid4

import structlog

from app.domain.preflight import Seen, ZoneCheck
from app.landing.adls.client import AdlsClient, PathProperties
from app.landing.adls.retries import Retries, StorageRejected, TransientStorageError
from app.landing.zone import Entry, FolderRenameUnsupported, LandingZone, PathKind, RenameOutcome, ScratchRevoked
from mirrorgate.errors import StorageError


def supported_conditions(zone: LandingZone, client: AdlsClient, retries: Retries, folder: str) -> Iterator[Seen]:
    """Yield one result per condition that renames and deletes rely on; stop at the service's first failure.

    The requests are such that the service must not carry them out. After each one the path is read again: its content
    proves more than the service's answer.
    """
    probe = _Probe(zone, client, retries, folder)
    tries = {
        ZoneCheck.RENAME_CONDITION: probe.rename_onto_existing,
        ZoneCheck.SOURCE_ETAG: probe.rename_of_changed,
        ZoneCheck.CONDITIONAL_DELETE: probe.delete_of_changed,
    }
    for check, attempt in tries.items():
        try:
            yield Seen(check, attempt())
        except OSError as error:
            yield Seen(check, f"it could not be tried: {error}")
            return


class _Probe:
    def __init__(self, zone: LandingZone, client: AdlsClient, retries: Retries, folder: str) -> None:
        self._zone, self._client, self._retries, self._folder = zone, client, retries, folder

    def rename_onto_existing(self) -> str | None:
        source, _, found = self._changed_file()
        target, _, existing = self._changed_file()
        status = self._attempt(lambda: self._client.rename(source, target, found.etag, new_only=True))
        if not self._is_unchanged(target, existing) or not self._is_unchanged(source, found):
            return "the service ignores the condition that a rename must not replace"
        return f"the service rejects the condition that a rename must not replace: {status}" if status == 400 else None

    def rename_of_changed(self) -> str | None:
        source, stale, found = self._changed_file()
        self._attempt(lambda: self._client.rename(source, f"{source}-moved", stale, new_only=False))
        return None if self._is_unchanged(source, found) else "a file that had changed was renamed nevertheless"

    def delete_of_changed(self) -> str | None:
        file, stale, found = self._changed_file()
        self._attempt(lambda: self._client.delete(file, PathProperties(False, found.size, stale, None)))
        if not self._is_unchanged(file, found):
            return "a file that had changed was deleted nevertheless"
        below = self._properties(self._folder)
        self._attempt(lambda: self._client.delete(self._folder, PathProperties(True, 0, stale, None)))
        return (
            None if below and self._properties(self._folder) else "a folder that had changed was deleted nevertheless"
        )

    def _changed_file(self) -> tuple[str, str, PathProperties]:
        """Return the path of a file that replaced another one, the former ETag, and the present properties."""
        path = f"{self._folder}/{uuid4().hex}"
        self._zone.create_file(path, b"old")
        old = self._found(path)
        self._zone.create_file(f"{path}-new", b"new")
        self._zone.replace_file(f"{path}-new", path)
        return path, old.etag, self._found(path)

    def _found(self, path: str) -> PathProperties:
        found = self._properties(path)
        if found is None:
            raise FileNotFoundError(path)
        return found

    def _attempt(self, request: Callable[[], None]) -> int:
        """Return the status with which the service rejected the request, 0 if it did not."""

        def step(_: bool) -> int:
            try:
                request()
            except StorageRejected as rejected:
                return rejected.status
            return 0

        return self._retries.run(step)

    def _is_unchanged(self, path: str, before: PathProperties) -> bool:
        now = self._properties(path)
        return now is not None and now.etag == before.etag

    def _properties(self, path: str) -> PathProperties | None:
        return self._retries.run(lambda _: self._client.head(path))


class Upload(io.RawIOBase):
    """Writes collected into blocks and appended; `send` appends the rest."""

    def __init__(self, append: Callable[[bytes, int], None], block_bytes: int) -> None:
        self._append = append
        self._block_bytes = block_bytes
        self._block = bytearray()
        self.sent = 0

    def writable(self) -> bool:
        """Return True: the stream is for writing."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.sent + len(self._block)

    def write(self, data: Any) -> int:
        """Collect data, and append each full block."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), self._block_bytes):
            self._block += view[start : start + self._block_bytes]
            if len(self._block) >= self._block_bytes:
                self.send()
        return len(view)

    def send(self) -> None:
        """Append the collected block."""
        if self._block:
            self._append(bytes(self._block), self.sent)
            self.sent += len(self._block)
            self._block.clear()


class Download(io.RawIOBase):
    """Ranges of a file of known size, read on demand."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, block_bytes: int) -> None:
        self._read = read
        self._size = size
        self._block_bytes = block_bytes
        self._position = 0

    def readable(self) -> bool:
        """Return True: the stream is for reading."""
        return True

    def seekable(self) -> bool:
        """Return True: any position can be read."""
        return True

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position; the next read uses it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read one range into the buffer; return its length, 0 at the end."""
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        buffer[:length] = self._read(self._position, length)
        self._position += length
        return length

    def readall(self) -> bytes:
        """Read from the position to the end, block after block."""
        blocks = []
        while (length := min(self._block_bytes, self._size - self._position)) > 0:
            blocks.append(self._read(self._position, length))
            self._position += length
        return b"".join(blocks)


log = structlog.get_logger()

_READ_BUFFER: Final = 64 * 2**10
_BLOCKED: Final = frozenset({"PathConflict", "PathAlreadyExists"})


class AdlsZone:
    """A landing zone in the folder of `client`. Nothing is created until something is written.

    Methods keep the contract of `LandingZone`.
    """

    def __init__(self, client: AdlsClient, retries: Retries, *, block_bytes: int) -> None:
        """Make no request. `block_bytes` is the size of appended and read blocks."""
        self._client = client
        self._retries = retries
        self._block_bytes = block_bytes
        self._names_attempts = True
        """True if new files get the attempt's name; False once the service has rejected metadata on a new file."""
        self._unconditional: set[bool] = set()
        """For files (False) or folders (True): the service rejects the condition that a rename must not replace."""

    def kind(self, path: str) -> PathKind:
        """Return what is at the path, by one request."""
        return _kind(self._properties(path))

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(self.kinds(folder))

    def kinds(self, folder: str) -> dict[str, PathKind]:
        """Return the kinds in a folder by name, from a listing."""
        return {name: entry.kind for name, entry in self.entries(folder).items()}

    def entries(self, folder: str) -> dict[str, Entry]:
        """Return what a listing shows, by name."""
        listed = self._retries.run(lambda _: self._client.listed(folder))
        return {
            name: Entry(_kind(found), 0 if found.folder else found.size, found.modified)
            for name, found in listed.items()
        }

    def modified_at(self, path: str) -> datetime | None:
        """Return the service's time of the last change."""
        found = self._properties(path)
        return found.modified if found is not None else None

    def create_folder(self, path: str) -> None:
        """Create a folder and its parents unless it exists."""

        def create(_: bool) -> None:
            try:
                self._client.create_folder(path)
            except StorageRejected as rejected:
                if rejected.status != 409:
                    raise
                there = self._client.head(path)
                if there is None or not there.folder:
                    raise self._revoked_or_transient(path, rejected) from rejected

        self._retries.run(create)

    def create_file(self, path: str, content: bytes) -> None:
        """Create a small file."""
        with self.write_file(path) as file:
            file.write(content)

    @contextmanager
    def write_file(self, path: str) -> Iterator[BinaryIO]:
        """Stream a new file in blocks; one flush makes its content visible."""
        attempt = uuid4().hex
        etag = self._create(path, attempt)
        upload = Upload(lambda data, at: self._append(path, data, at), self._block_bytes)
        try:
            yield cast("BinaryIO", upload)
            upload.send()
            if upload.sent:
                self._flush(path, upload.sent, etag, attempt)
        except BaseException:
            with suppress(OSError):
                self._discard(path, etag, attempt)
            raise

    @contextmanager
    def read_file(self, path: str) -> Iterator[BinaryIO]:
        """Open a file for random reads, all of the same version."""
        found = self._properties(path)
        if found is None:
            raise FileNotFoundError(path)
        if found.folder:
            raise IsADirectoryError(path)
        raw = Download(lambda start, length: self._read(path, start, length, found.etag), found.size, self._block_bytes)
        with io.BufferedReader(raw, _READ_BUFFER) as file:
            yield cast("BinaryIO", file)

    def rename(self, source: str, destination: str) -> RenameOutcome:
        """Move without replacing.

        Each attempt reads the destination first. So a service that ignores the condition replaces a file only if
        another writer acts in between; there is none, because one drain owns a table.
        """
        moving: PathProperties | None = None

        def move(unclear: bool) -> RenameOutcome:
            nonlocal moving
            there, here = self._client.head(destination), self._client.head(source)
            if there is not None:
                moved = unclear and here is None and moving is not None and _same(there, moving)
                return RenameOutcome.RENAMED if moved else RenameOutcome.DESTINATION_EXISTS
            if here is None:
                self._require_parent(destination)
                return RenameOutcome.SOURCE_MISSING
            moving = here
            return self._rename(source, destination, here, unclear)

        return self._retries.run(move)

    def make_durable(self, path: str) -> None:
        """Do nothing: what the service shows is durable."""

    def replace_file(self, source: str, destination: str) -> None:
        """Move a file over another; after a lost answer, an equal size at the destination counts as success."""
        moving: PathProperties | None = None

        def move(unclear: bool) -> None:
            nonlocal moving
            here = self._client.head(source)
            if here is None:
                there = self._client.head(destination)
                if unclear and moving is not None and there is not None and there.size == moving.size:
                    return
                raise FileNotFoundError(source)
            moving = here
            self._client.rename(source, destination, here.etag, new_only=False)

        self._retries.run(move)

    def etag(self, path: str) -> str:
        """Return the folder's ETag."""
        there = self._properties(path)
        return there.etag if there is not None else ""

    def remove_folder(self, path: str, aside: str, etag: str) -> None:
        """Delete a folder by one conditional request: the service hides the folder and its contents at once."""

        def remove(unclear: bool) -> None:
            there = self._client.head(path)
            if there is None:
                if unclear:
                    return
                raise FileNotFoundError(path)
            if not there.folder:
                raise NotADirectoryError(path)
            if there.etag != etag:
                raise StorageError(f"another folder is at {path}")
            try:
                self._client.delete(path, there)
            except StorageRejected as rejected:
                if rejected.status not in (404, 409, 412):
                    raise
                raise TransientStorageError(str(rejected), unclear=rejected.status == 404) from rejected

        self._retries.run(remove)

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with its contents."""

        def remove(_: bool) -> None:
            there = self._client.head(path)
            if there is None:
                return
            try:
                self._client.delete(path, there)
            except StorageRejected as rejected:
                if rejected.status not in (404, 409, 412):
                    raise
                raise TransientStorageError(str(rejected), unclear=False) from rejected

        self._retries.run(remove)

    def revoke_folder(self, path: str) -> None:
        """Delete the folder and create a plain file in its place, until that file is there."""

        def revoke(_: bool) -> None:
            there = self._client.head(path)
            if there is not None and not there.folder:
                return
            try:
                if there is not None:
                    self._client.delete(path, there)
                self._client.create_file(path, None)
            except StorageRejected as rejected:
                # A stale owner created the folder again, or wrote into it: the next attempt deletes that too.
                if rejected.status not in (404, 409, 412):
                    raise
                raise TransientStorageError(str(rejected), unclear=False) from rejected

        self._retries.run(revoke)

    def supported_conditions(self, folder: str) -> Iterator[Seen]:
        """Yield a result for each condition on ETags that the service should obey, tried in a folder that exists."""
        return supported_conditions(self, self._client, self._retries, folder)

    def _properties(self, path: str) -> PathProperties | None:
        return self._retries.run(lambda _: self._client.head(path))

    def _create(self, path: str, attempt: str) -> str:
        """Create an empty file; return its ETag. Raise FileExistsError and ScratchRevoked."""

        def create(unclear: bool) -> str:
            named = self._names_attempts
            try:
                return self._client.create_file(path, attempt if named else None)
            except StorageRejected as rejected:
                if rejected.status == 400 and named:
                    self._names_attempts = False
                    log.warning(
                        "file_metadata_rejected", detail="from now on, a lost answer to a creation fails the attempt"
                    )
                    raise TransientStorageError(str(rejected), unclear=False) from rejected
                if rejected.status != 409:
                    raise
                there = self._client.head(path)
                if there is None:
                    raise self._revoked_or_transient(path, rejected) from rejected
                if unclear and there.attempt == attempt:
                    return there.etag
                raise FileExistsError(path) from rejected

        return self._retries.run(create)

    def _append(self, path: str, data: bytes, position: int) -> None:
        def append(_: bool) -> None:
            with self._while_owned(path):
                self._client.append(path, data, position)

        self._retries.run(append)

    def _flush(self, path: str, size: int, etag: str, attempt: str) -> None:
        def flush(unclear: bool) -> None:
            try:
                with self._while_owned(path):
                    self._client.flush(path, size, etag)
            except StorageRejected as rejected:
                there = self._client.head(path) if unclear and rejected.status in (400, 412) else None
                if there is None or there.size != size or there.attempt not in (attempt, None):
                    raise

        self._retries.run(flush)

    def _read(self, path: str, start: int, length: int, etag: str) -> bytes:
        try:
            return self._retries.run(lambda _: self._client.read(path, start, length, etag))
        except StorageRejected as rejected:
            if rejected.status == 404:
                raise FileNotFoundError(path) from rejected
            raise

    def _rename(self, source: str, destination: str, here: PathProperties, unclear: bool) -> RenameOutcome:
        """Make one attempt; if an earlier, lost one may be the cause of a rejection, ask for another attempt."""
        conditional = here.folder not in self._unconditional
        try:
            self._client.rename(source, destination, here.etag, new_only=conditional)
        except StorageRejected as rejected:
            if rejected.status == 400 and conditional:
                self._unconditional.add(here.folder)
                log.warning(
                    "rename_condition_rejected",
                    detail="from now on, only a check before each rename keeps it from replacing a file",
                )
                raise TransientStorageError(str(rejected), unclear=False) from rejected
            if rejected.status == 400 and here.folder:
                raise FolderRenameUnsupported(str(rejected)) from rejected
            if rejected.code == "RenameDestinationParentPathNotFound":
                raise NotADirectoryError(f"Not a directory: the folder of {destination}") from rejected
            if unclear and rejected.status in (404, 409, 412):
                raise TransientStorageError(str(rejected), unclear=True) from rejected
            if rejected.code == "PathAlreadyExists":
                return RenameOutcome.DESTINATION_EXISTS
            if rejected.code == "SourcePathNotFound":
                return RenameOutcome.SOURCE_MISSING
            raise
        return RenameOutcome.RENAMED

    def _discard(self, path: str, etag: str, attempt: str) -> None:
        """Delete an unfinished file of this attempt, in one request: the store may be what failed."""
        there = self._client.head(path)
        if there is not None and (there.etag == etag or there.attempt == attempt):
            self._client.delete(path, there)

    @contextmanager
    def _while_owned(self, path: str) -> Iterator[None]:
        """Raise ScratchRevoked or FileNotFoundError for a file that is gone, instead of the service's rejection."""
        try:
            yield
        except StorageRejected as rejected:
            if rejected.status != 404 and rejected.code not in _BLOCKED:
                raise
            if self._is_revoked(path):
                raise ScratchRevoked(path) from rejected
            raise FileNotFoundError(path) from rejected

    def _revoked_or_transient(self, path: str, rejected: StorageRejected) -> Exception:
        """Return the error for a creation that was rejected although nothing is there: revoked, or transient."""
        return ScratchRevoked(path) if self._is_revoked(path) else TransientStorageError(str(rejected), unclear=False)

    def _is_revoked(self, path: str) -> bool:
        """Return whether the path is, or is below, a plain file."""
        parts = path.split("/")
        found = (self._client.head("/".join(parts[:depth])) for depth in range(1, len(parts) + 1))
        return any(there is not None and not there.folder for there in found)

    def _require_parent(self, path: str) -> None:
        parent = self._client.head(path.rpartition("/")[0])
        if "/" in path and (parent is None or not parent.folder):
            raise NotADirectoryError(f"Not a directory: the folder of {path}")


def _kind(found: PathProperties | None) -> PathKind:
    if found is None:
        return PathKind.ABSENT
    return PathKind.FOLDER if found.folder else PathKind.FILE


def _same(one: PathProperties, other: PathProperties) -> bool:
    """Return whether a file is the one from before a rename, as far as the service shows that."""
    by_name = one.attempt is not None and one.attempt == other.attempt
    return one.folder == other.folder and one.size == other.size and (by_name or one.etag == other.etag)
