"""The files and folders of one OneLake workspace, in a local folder, with the rules of a hierarchical namespace.

Other code may read, write and delete in the folder: the replicator does. A change of a file appears in one step.
Leases, metadata, ETags and appended data that is not flushed are in memory, and a new process begins without them.
"""

import itertools
import json
import os
import re
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Final
from uuid import uuid4
from xml.sax.saxutils import escape

MAX_NAME_BYTES: Final = 255
"""Of a local file system."""
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


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
    place: Path
    size: int = 0
    stamp: tuple[int, ...] = ()
    """Tells whether other code has replaced it."""
    pending: dict[int, bytes] = field(default_factory=dict)
    """Appended and not yet flushed, by position."""
    lease: str | None = None
    identity: str = field(default_factory=lambda: uuid4().hex)

    @property
    def content(self) -> bytes:
        """The bytes of a file. Raise FileNotFoundError if it has gone."""
        return b"" if self.folder else self.place.read_bytes()

    def read(self, first: int, end: int) -> bytes:
        """Return a part of a file. Raise FileNotFoundError if it has gone."""
        with self.place.open("rb") as file:
            file.seek(first)
            return file.read(end - first)


class Tree:
    """Paths to nodes below one workspace. Every method is one atomic step; `on_change` runs inside it."""

    def __init__(self, folder: Path | None = None) -> None:
        """Open the tree in a folder, or in a temporary one, which `close` removes."""
        self.lock = threading.RLock()
        self._is_temporary = folder is None
        self._folder = Path(tempfile.mkdtemp(prefix="mirrorgate-emulator-")) if folder is None else folder
        self.root = self._folder / "onelake"
        self.root.mkdir(parents=True, exist_ok=True)
        self._etags = itertools.count(time.time_ns())
        self._nodes: dict[str, Node] = {}
        self._managed: set[str] = set()
        self.on_change: Callable[[], None] = lambda: None

    def close(self) -> None:
        """Remove a temporary folder."""
        if self._is_temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def manage(self, paths: list[str]) -> None:
        """Create an item and its first level, which only Fabric changes."""
        with self.lock:
            self._managed |= {*paths}
            for path in paths:
                self._at(path).mkdir(parents=True, exist_ok=True)

    def remove_item(self, item: str) -> None:
        """Remove an item with all its folders."""
        with self.lock:
            self._managed = {path for path in self._managed if path.partition("/")[0] != item}
            self._forget(item)
            shutil.rmtree(self._at(item), ignore_errors=True)

    def get(self, path: str) -> Node | None:
        """Return the node at a path."""
        with self.lock:
            place = self._at(path)
            try:
                state = place.stat()
            except (FileNotFoundError, NotADirectoryError):
                self._nodes.pop(path, None)
                return None
            is_folder = stat.S_ISDIR(state.st_mode)
            stamp = (state.st_ino,) if is_folder else (state.st_ino, state.st_mtime_ns, state.st_size)
            node = self._nodes.get(path)
            if node is None or node.folder != is_folder or node.stamp != stamp:
                changed = datetime.fromtimestamp(state.st_mtime, UTC)
                node = self._nodes[path] = Node(is_folder, self._next_etag(), {}, changed, place, stamp=stamp)
            node.size = 0 if is_folder else state.st_size
            return node

    def find(self, path: str) -> Node:
        """Return the node at a path. Raises Rejected PathNotFound."""
        node = self.get(path)
        if node is None:
            raise Rejected(404, "PathNotFound", "The specified path does not exist.")
        return node

    def below(self, folder: str, *, recursive: bool) -> list[tuple[str, Node]]:
        """Return the entries of a folder by path, in the order of a listing."""
        with self.lock:
            return sorted(self._entries(folder, recursive=recursive), key=lambda entry: entry[0])

    def _entries(self, folder: str, *, recursive: bool) -> Iterator[tuple[str, Node]]:
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(self._at(folder)):  # noqa: PTH208  # names, not paths
                path = f"{folder}/{name}" if folder else name
                node = self.get(path)
                if node is not None:
                    yield path, node
                    if recursive and node.folder:
                        yield from self._entries(path, recursive=True)

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
            self._require_parents(path, may_be_files=below_files)
            there = self.get(path)
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
            place = self._at(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            if folder:
                place.mkdir()
                node = self._taken_over(path)
            else:
                node = self._write(path, b"")
            node.metadata = metadata
            self.on_change()
            return node

    def append(self, path: str, position: int, data: bytes, lease: str | None) -> None:
        """Keep data of a file until it is flushed."""
        with self.lock:
            node = self._file(path)
            self._check(node, None, lease)
            if position < node.size:
                raise Rejected(400, "InvalidQueryParameterValue", "position lies within what is flushed")
            node.pending[position] = data

    def flush(self, path: str, position: int, *, etag: str | None, lease: str | None, retain: bool) -> Node:
        """Make what was appended up to `position` the file's content; rejects a hole or a wrong length."""
        with self.lock:
            node = self._file(path)
            self._check(node, etag, lease)
            added, length = [], node.size
            while length < position and length in node.pending:
                added.append(node.pending[length])
                length += len(node.pending[length])
            if length != position:
                raise Rejected(400, "InvalidFlushPosition", "The uploaded data is not contiguous up to this position.")
            left = {at: data for at, data in node.pending.items() if retain and at >= position}
            node = self._write(path, b"".join([node.content, *added]), node)
            node.pending = left
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
            node = self._write(path, content, node)
            self.on_change()
            return node

    def rename(
        self, source: str, target: str, *, replace: bool, source_etag: str | None, keeps_etag: bool, lease: str | None
    ) -> Node:
        """Move a file, or a folder with all that is in it, in one step."""
        with self.lock:
            self._reject_managed(source)
            self._reject_managed(target)
            node, there = self.get(source), self.get(target)
            if node is None:
                raise Rejected(404, "SourcePathNotFound", "The source path for a rename operation does not exist.")
            if source_etag is not None and node.etag != source_etag:
                raise Rejected(412, "SourceConditionNotMet")
            parent = self.get(target.rpartition("/")[0])
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
            inside = self.below(source, recursive=True)
            if node is not there:
                self._forget(target)
                self._move(source, target)
            if not keeps_etag:
                for moved in [node, *(below for _, below in inside)]:
                    self._touch(moved)
            self.on_change()
            return node

    def delete(self, path: str, *, recursive: bool, etag: str | None, lease: str | None) -> None:
        """Delete a file or a folder."""
        with self.lock:
            self._reject_managed(path)
            node = self.find(path)
            self._check(node, etag, lease)
            if not recursive and self.below(path, recursive=False):
                raise Rejected(409, "DirectoryNotEmpty")
            if node.folder:
                shutil.rmtree(node.place)
            else:
                node.place.unlink()
            self._forget(path)
            self.on_change()

    def move_inside(self, source: str, target: str) -> None:
        """Move a path as the service itself does (mirroring cleaning up): without conditions or notifications."""
        with self.lock:
            self._at(target).parent.mkdir(parents=True, exist_ok=True)
            self._move(source, target)

    def remove_inside(self, path: str) -> None:
        """Remove one file as the service itself does."""
        with self.lock:
            self._at(path).unlink()
            self._forget(path)

    def write_inside(self, path: str, content: bytes) -> None:
        """Write a file as the service itself does, such as Files/Monitoring."""
        with self.lock:
            self._at(path).parent.mkdir(parents=True, exist_ok=True)
            self._write(path, content)

    def _write(self, path: str, content: bytes, kept: Node | None = None) -> Node:
        """Write a whole file in one step. `kept`: the node that gets this content, instead of a new one."""
        new = self._folder / f"incoming-{uuid4().hex}"
        new.write_bytes(content)
        new.replace(self._at(path))
        return self._taken_over(path, kept)

    def _taken_over(self, path: str, kept: Node | None = None) -> Node:
        """Return the node of a path that was just written."""
        self._nodes.pop(path, None)
        node = self.get(path)
        assert node is not None
        if kept is None:
            node.changed = datetime.now(UTC)
            return node
        kept.stamp, kept.size = node.stamp, node.size
        self._nodes[path] = kept
        self._touch(kept)
        return kept

    def _move(self, source: str, target: str) -> None:
        self._at(source).replace(self._at(target))
        for path in [path for path in self._nodes if path == source or path.startswith(f"{source}/")]:
            node = self._nodes.pop(path)
            moved = target + path[len(source) :]
            node.place = self._at(moved)
            self._nodes[moved] = node

    def _forget(self, path: str) -> None:
        for gone in [known for known in self._nodes if known == path or known.startswith(f"{path}/")]:
            del self._nodes[gone]

    def _at(self, path: str) -> Path:
        """Return the place of a path. Raise Rejected for one that no folder can have."""
        parts = path.split("/") if path else []
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise Rejected(400, "InvalidUri", "The path has an empty or a relative element.")
        if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in parts):
            raise Rejected(400, "InvalidUri", f"A name is longer than {MAX_NAME_BYTES} bytes.")
        return self.root.joinpath(*parts)

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

    def _require_parents(self, path: str, *, may_be_files: bool) -> None:
        parents = list(_parents(path))
        for parent in parents:
            node = self.get(parent)
            if node is not None and not node.folder:
                if not may_be_files:
                    raise Rejected(409, "PathConflict", "An element of the path exists and is not a directory.")
                node.place.unlink()
        if self._managed and (not parents or parents[0] not in self._managed):
            raise Rejected(404, "PathNotFound", "The item does not exist.")

    def _reject_managed(self, path: str) -> None:
        """Reject a change of the item and its first level, which belong to Fabric."""
        if self._managed and path.count("/") < 2:
            raise Rejected(403, "AuthorizationPermissionMismatch", "Managed folders cannot be changed.")

    def _touch(self, node: Node) -> None:
        node.etag, node.changed = self._next_etag(), datetime.now(UTC)

    def _next_etag(self) -> str:
        return f"0x{next(self._etags):X}"


def _parents(path: str) -> Iterator[str]:
    """`a/b/c` -> `a`, `a/b`."""
    parts = path.split("/")[:-1]
    return itertools.accumulate(parts, lambda front, part: f"{front}/{part}")


@dataclass(frozen=True)
class Request:
    """One request after routing: `path` is decoded and lies below the workspace; header names are lower case."""

    service: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def etag(self, header: str) -> str | None:
        """Return the bare ETag of a condition header; None without a condition or for any (`*`)."""
        value = self.headers.get(header)
        return None if value is None or value == "*" else value.strip('"')

    @property
    def new_only(self) -> bool:
        """`If-None-Match: *`; any other value is rejected, as no writer has a use for it."""
        value = self.headers.get("if-none-match")
        if value not in (None, "*"):
            raise Rejected(400, "InvalidHeaderValue", "If-None-Match takes only * here")
        return value == "*"

    def number(self, name: str, default: str | None = None) -> int:
        """Return a non-negative number of the query, which is required if it has no default."""
        text = self.query.get(name) or default
        if text is None:
            raise Rejected(400, "MissingRequiredQueryParameter", name)
        if not text.isdecimal():
            raise Rejected(400, "InvalidQueryParameterValue", name)
        return int(text)

    @property
    def operation(self) -> str:
        """The name under which faults are planned."""
        query, method = self.query, self.method
        if method == "HEAD":
            return "head"
        if method == "GET":
            return "list" if "filesystem" in query.values() or query.get("comp") == "list" else "read"
        if method == "DELETE":
            return "delete"
        if method == "PATCH":
            return query.get("action", "append") if query.get("action") in ("append", "flush") else "head"
        if query.get("comp") == "lease":
            return "lease"
        if "x-ms-rename-source" in self.headers:
            return "rename"
        if self.service == "blob":
            return "put"
        return "create_folder" if query.get("resource") == "directory" else "create"


@dataclass
class Response:
    """An answer before the headers that each answer has."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def error_response(request: Request, rejected: Rejected) -> Response:
    """DFS errors are JSON, blob errors XML; a HEAD has the code in its header only."""
    headers = {"x-ms-error-code": rejected.code, **rejected.headers}
    if request.method == "HEAD":
        return Response(rejected.status, headers)
    if request.service == "dfs":
        body = json.dumps({"error": {"code": rejected.code, "message": rejected.message}})
        return Response(rejected.status, headers | {"Content-Type": "application/json;charset=utf-8"}, body.encode())
    xml = f"<Error><Code>{rejected.code}</Code><Message>{escape(rejected.message)}</Message></Error>"
    text = f'<?xml version="1.0" encoding="utf-8"?>{xml}'
    return Response(rejected.status, headers | {"Content-Type": "application/xml"}, text.encode())


def changed_headers(node: Node) -> dict[str, str]:
    """Return the headers of every answer about a path."""
    return {"ETag": f'"{node.etag}"', "Last-Modified": format_datetime(node.changed, usegmt=True)}


def content_headers(request: Request, node: Node) -> dict[str, str]:
    """Return the headers of HEAD and GET, with metadata in the form of the service that was asked."""
    headers = changed_headers(node) | {
        "Accept-Ranges": "bytes",
        "Content-Type": "application/octet-stream",
        "x-ms-resource-type": "directory" if node.folder else "file",
        "x-ms-creation-time": format_datetime(node.changed, usegmt=True),
        "x-ms-lease-state": "available" if node.lease is None else "leased",
        "x-ms-lease-status": "unlocked" if node.lease is None else "locked",
        "x-ms-server-encrypted": "true",
    }
    if request.service == "blob":
        headers["x-ms-blob-type"] = "BlockBlob"
        metadata = node.metadata | ({"hdi_isfolder": "true"} if node.folder else {})
        return headers | {f"x-ms-meta-{name}": value for name, value in metadata.items()}
    return headers


def read_response(request: Request, node: Node) -> Response:
    """HEAD or GET of a path, whole or one range."""
    wanted = request.etag("if-match")
    if wanted is not None and wanted != node.etag:
        raise Rejected(412, "ConditionNotMet")
    headers, size = content_headers(request, node), node.size
    if request.method == "HEAD":
        return Response(200, headers | {"Content-Length": str(size)})
    asked = request.headers.get("x-ms-range") or request.headers.get("range")
    if asked is None:
        return Response(200, headers, node.content)
    span = _RANGE.fullmatch(asked)
    if span is None:
        raise Rejected(400, "InvalidHeaderValue", "Range")
    first, last = span.groups()
    if not first or int(first) >= size or (last and int(last) < int(first)):
        raise Rejected(416, "InvalidRange", headers={"Content-Range": f"bytes */{size}"})
    end = min(int(last) + 1 if last else size, size)
    part = node.read(int(first), end)
    return Response(206, headers | {"Content-Range": f"bytes {first}-{end - 1}/{size}"}, part)
