"""The files and folders of one OneLake workspace, in memory, with the rules of a hierarchical namespace."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4


class Rejected(Exception):
    """What the service answers instead of doing it."""

    def __init__(self, status: int, code: str, message: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code
        self.message = message or code
        self.headers = dict(headers or {})


@dataclass(eq=False)
class Node:
    """A file or a folder; `identity` tells one that was deleted and made again from the first."""

    folder: bool
    etag: str
    metadata: dict[str, str]
    changed: datetime
    content: bytes = b""
    pending: dict[int, bytes] = field(default_factory=dict)
    """Appended and not yet flushed, by position."""
    lease: str | None = None
    identity: str = field(default_factory=lambda: uuid4().hex)


class Tree:
    """Paths to nodes below one workspace. Every method is one atomic step; `on_change` runs inside it."""

    def __init__(self, managed: list[str]) -> None:
        """Create the tree; `managed` are the item and its first level, which only Fabric creates."""
        self.lock = threading.RLock()
        self._etags = itertools.count(0x8DC0000000000)
        self._nodes: dict[str, Node] = {}
        self._managed = frozenset(managed)
        self.on_change: Callable[[], None] = lambda: None
        for path in managed:
            self._nodes[path] = self._new(folder=True)

    def get(self, path: str) -> Node | None:
        """Return the node at a path."""
        with self.lock:
            return self._nodes.get(path)

    def find(self, path: str) -> Node:
        """Return the node at a path. Raises Rejected PathNotFound."""
        node = self.get(path)
        if node is None:
            raise Rejected(404, "PathNotFound", "The specified path does not exist.")
        return node

    def below(self, folder: str, *, recursive: bool) -> list[tuple[str, Node]]:
        """Return the entries of a folder by path, in the order of a listing."""
        start = f"{folder}/" if folder else ""
        with self.lock:
            inside = [(path, node) for path, node in self._nodes.items() if path.startswith(start)]
        return sorted(entry for entry in inside if recursive or "/" not in entry[0][len(start) :])

    def create(
        self,
        path: str,
        *,
        folder: bool,
        new_only: bool,
        metadata: dict[str, str],
        etag: str | None,
        below_files: bool = False,
    ) -> Node:
        """Create an empty file or folder with its parents; without `new_only`, empty a file and keep a folder."""
        with self.lock:
            self._reject_managed(path)
            there = self._nodes.get(path)
            if not below_files:
                self._require_parents(path)
            if there is not None:
                if new_only:
                    raise Rejected(409, "PathAlreadyExists", "The specified path already exists.")
                if there.folder != folder:
                    raise Rejected(409, "PathConflict", "The path exists and its resource type is invalid here.")
                self._check(there, etag, None)
                if folder:
                    return there
            elif etag is not None:
                raise Rejected(412, "ConditionNotMet")
            for parent in _parents(path):
                self._nodes.setdefault(parent, self._new(folder=True))
            node = self._nodes[path] = self._new(folder=folder, metadata=metadata)
            self.on_change()
            return node

    def append(self, path: str, position: int, data: bytes, lease: str | None) -> None:
        """Keep data of a file until it is flushed."""
        with self.lock:
            node = self._file(path)
            self._check(node, None, lease)
            if position < len(node.content):
                raise Rejected(400, "InvalidQueryParameterValue", "position lies within what is flushed")
            node.pending[position] = data

    def flush(self, path: str, position: int, *, etag: str | None, lease: str | None, retain: bool) -> Node:
        """Make what was appended up to `position` the file's content; rejects a hole or a wrong length."""
        with self.lock:
            node = self._file(path)
            self._check(node, etag, lease)
            content, length = [node.content], len(node.content)
            while length < position and length in node.pending:
                content.append(node.pending[length])
                length += len(node.pending[length])
            if length != position:
                raise Rejected(400, "InvalidFlushPosition", "The uploaded data is not contiguous up to this position.")
            node.content = b"".join(content)
            node.pending = {at: data for at, data in node.pending.items() if retain and at >= position}
            self._touch(node)
            self.on_change()
            return node

    def put(self, path: str, content: bytes, *, new_only: bool, metadata: dict[str, str]) -> Node:
        """Put Blob: the whole file in one step."""
        with self.lock:
            watcher, self.on_change = self.on_change, lambda: None
            try:
                node = self.create(path, folder=False, new_only=new_only, metadata=metadata, etag=None)
            finally:
                self.on_change = watcher
            node.content = content
            self.on_change()
            return node

    def rename(
        self, source: str, target: str, *, replace: bool, source_etag: str | None, keeps_etag: bool, lease: str | None
    ) -> Node:
        """Move a file, or a folder with all that is in it, in one step."""
        with self.lock:
            self._reject_managed(source)
            self._reject_managed(target)
            node, there = self._nodes.get(source), self._nodes.get(target)
            if node is None:
                raise Rejected(404, "SourcePathNotFound", "The source path for a rename operation does not exist.")
            if source_etag is not None and node.etag != source_etag:
                raise Rejected(412, "SourceConditionNotMet")
            parent = self._nodes.get(target.rpartition("/")[0])
            if "/" in target and (parent is None or not parent.folder):
                raise Rejected(404, "RenameDestinationParentPathNotFound")
            if there is not None and not replace:
                raise Rejected(409, "PathAlreadyExists", "The specified path already exists.")
            if target.startswith(f"{source}/"):
                raise Rejected(409, "InvalidRenameSourcePath")
            if there is not None and there is not node:
                if there.folder != node.folder:
                    raise Rejected(409, "InvalidSourceOrDestinationResourceType")
                if there.folder and self.below(target, recursive=False):
                    raise Rejected(409, "DestinationPathNotEmpty")
            self._check(node, None, lease)
            for path, moved in [(source, node), *self.below(source, recursive=True)]:
                self._nodes[target + path[len(source) :]] = self._nodes.pop(path)
                if not keeps_etag:
                    self._touch(moved)
            self.on_change()
            return node

    def delete(self, path: str, *, recursive: bool, etag: str | None, lease: str | None) -> None:
        """Delete a file or a folder."""
        with self.lock:
            self._reject_managed(path)
            node = self.find(path)
            self._check(node, etag, lease)
            inside = self.below(path, recursive=True)
            if inside and not recursive:
                raise Rejected(409, "DirectoryNotEmpty")
            for gone in [path, *(below for below, _ in inside)]:
                del self._nodes[gone]
            self.on_change()

    def move_inside(self, source: str, target: str) -> None:
        """Move a path as the service itself does (mirroring cleaning up): without conditions or notifications."""
        with self.lock:
            for parent in _parents(target):
                self._nodes.setdefault(parent, self._new(folder=True))
            self._nodes[target] = self._nodes.pop(source)

    def remove_inside(self, path: str) -> None:
        """Remove one file as the service itself does."""
        with self.lock:
            del self._nodes[path]

    def write_inside(self, path: str, content: bytes) -> None:
        """Write a file as the service itself does, such as Files/Monitoring."""
        with self.lock:
            for parent in _parents(path):
                self._nodes.setdefault(parent, self._new(folder=True))
            self._nodes[path] = self._new(folder=False)
            self._nodes[path].content = content

    def _file(self, path: str) -> Node:
        node = self.find(path)
        if node.folder:
            raise Rejected(409, "PathConflict", "The path is a directory.")
        return node

    def _check(self, node: Node, etag: str | None, lease: str | None) -> None:
        if node.lease is not None and lease != node.lease:
            raise Rejected(412, "LeaseIdMissing" if lease is None else "LeaseIdMismatchWithBlobOperation")
        if etag is not None and etag != node.etag:
            raise Rejected(412, "ConditionNotMet")

    def _require_parents(self, path: str) -> None:
        parents = list(_parents(path))
        if any((node := self._nodes.get(parent)) is not None and not node.folder for parent in parents):
            raise Rejected(409, "PathConflict", "An element of the path exists and is not a directory.")
        if self._managed and (not parents or parents[0] not in self._nodes):
            raise Rejected(404, "PathNotFound", "The item does not exist.")

    def _reject_managed(self, path: str) -> None:
        """Reject a change of the item and its first level, which belong to Fabric."""
        if self._managed and path.count("/") < 2:
            raise Rejected(403, "AuthorizationPermissionMismatch", "Managed folders cannot be changed.")

    def _new(self, *, folder: bool, metadata: dict[str, str] | None = None) -> Node:
        return Node(folder, self._next_etag(), metadata or {}, datetime.now(UTC))

    def _touch(self, node: Node) -> None:
        node.etag, node.changed = self._next_etag(), datetime.now(UTC)

    def _next_etag(self) -> str:
        return f"0x{next(self._etags):X}"


def _parents(path: str) -> Iterator[str]:
    """`a/b/c` -> `a`, `a/b`."""
    parts = path.split("/")[:-1]
    return itertools.accumulate(parts, lambda front, part: f"{front}/{part}")
