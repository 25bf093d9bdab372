"""The DFS service (create, append, flush, rename, list, delete, read) and the blob service.

The blob service has properties, reads, leases, and operations that other readers use.
"""

import base64
import hashlib
import json
from email.utils import format_datetime
from urllib.parse import unquote
from uuid import uuid4
from xml.sax.saxutils import escape

from mirrorgate_zone.emulator.faults import Switches
from mirrorgate_zone.emulator.storage_tree import (
    Node,
    Rejected,
    Request,
    Response,
    Tree,
    changed_headers,
    read_response,
)

_ROOT = {"ETag": '"0x1"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
_IGNORED = ("x-ms-owner", "x-ms-group", "x-ms-permissions", "x-ms-umask", "x-ms-acl", "x-ms-encryption-key")


class Dfs:
    """Answers DFS requests from a tree."""

    def __init__(self, tree: Tree, switches: Switches, aliases: "Aliases") -> None:
        self._tree = tree
        self._switches = switches
        self._aliases = aliases
        self._frozen: list[tuple[str, Node]] | None = None
        self._paged_deletes: dict[str, int] = {}

    def answer(self, request: Request) -> Response:
        """Answer a request. Raises Rejected for what the service rejects."""
        match request.method:
            case "GET" if request.query.get("resource") == "filesystem":
                return self._list(request)
            case "HEAD" if request.query.get("resource") == "filesystem":
                return Response(200, {"x-ms-namespace-enabled": "true"})
            case "HEAD" if request.query.get("action") == "getAccessControl":
                return self._access_control(request)
            case "GET" | "HEAD" if request.query.get("action", "getStatus") == "getStatus":
                return read_response(request, self._tree.find(request.path))
            case "PUT" | "DELETE" if request.query.get("resource") == "filesystem" or not request.path:
                raise Rejected(403, "OperationNotAllowed", "Workspaces are managed in Fabric.")
            case "PUT" if "x-ms-rename-source" in request.headers:
                return self._rename(request)
            case "PUT":
                return self._create(request)
            case "PATCH":
                return self._patch(request)
            case "DELETE":
                return self._delete(request)
        raise Rejected(400, "UnsupportedQueryParameter", request.query.get("action", request.method))

    def _access_control(self, request: Request) -> Response:
        """Return the same permissions for every path, because Fabric decides on access."""
        headers = changed_headers(self._tree.find(request.path)) if request.path else _ROOT
        acl = "user::rwx,group::r-x,other::---"
        owner = {"x-ms-owner": "$superuser", "x-ms-group": "$superuser", "x-ms-permissions": "rwxr-x---"}
        return Response(200, headers | owner | {"x-ms-acl": acl})

    def _create(self, request: Request) -> Response:
        resource = request.query.get("resource")
        if resource not in ("file", "directory"):
            raise Rejected(400, "InvalidQueryParameterValue", "resource")
        if request.body:
            raise Rejected(400, "InvalidHeaderValue", "Content-Length must be 0")
        if self._switches.user_metadata == "rejected" and "x-ms-properties" in request.headers:
            raise Rejected(400, "UnsupportedHeader", "x-ms-properties")
        node = self._tree.create(
            request.path,
            folder=resource == "directory",
            new_only=request.new_only,
            metadata=_metadata(request) if self._switches.user_metadata == "kept" else {},
            etag=request.etag("if-match"),
            below_files=self._switches.files_hold_files,
        )
        rejected = [name for name in _IGNORED if name in request.headers]
        extra = {"x-ms-rejected-headers": ",".join(rejected)} if rejected else {}
        return Response(201, changed_headers(node) | {"x-ms-request-server-encrypted": "true"} | extra)

    def _rename(self, request: Request) -> Response:
        if "resource" in request.query:
            raise Rejected(400, "UnsupportedHeader", "x-ms-rename-source")
        workspace, _, path = unquote(request.headers["x-ms-rename-source"]).strip("/").partition("/")
        source = self._aliases.path(workspace, path)
        condition, replace, extra = self._switches.rename_condition, not request.new_only, {}
        if not replace and condition == "rejected":
            raise Rejected(400, "UnsupportedHeader", "If-None-Match")
        if not replace and condition == "ignored":
            replace, extra = True, {"x-ms-rejected-headers": "If-None-Match"}
        node = self._tree.get(source)
        if node is not None and node.folder and not self._switches.folder_rename:
            raise Rejected(400, "OperationNotSupported", "directory rename")
        renamed = self._tree.rename(
            source,
            request.path,
            replace=replace,
            source_etag=request.etag("x-ms-source-if-match") if self._switches.heeds_etags else None,
            keeps_etag=self._switches.rename_keeps_etag,
            lease=request.headers.get("x-ms-source-lease-id"),
        )
        return Response(201, changed_headers(renamed) | {"x-ms-request-server-encrypted": "true"} | extra)

    def _patch(self, request: Request) -> Response:
        action, lease = request.query.get("action"), request.headers.get("x-ms-lease-id")
        if action == "append":
            self._append(request, lease)
            return Response(202, {"x-ms-request-server-encrypted": "true"})
        if action == "flush":
            if request.body or request.headers.get("content-length") != "0":
                raise Rejected(400, "InvalidHeaderValue", "Content-Length must be 0")
            retain = request.query.get("retainUncommittedData") == "true"
            position, etag = request.number("position"), request.etag("if-match")
            node = self._tree.flush(request.path, position, etag=etag, lease=lease, retain=retain)
            return Response(200, changed_headers(node) | {"x-ms-request-server-encrypted": "true"})
        raise Rejected(400, "UnsupportedQueryParameter", f"action {action}")

    def _append(self, request: Request, lease: str | None) -> None:
        if not request.body:
            raise Rejected(400, "InvalidHeaderValue", "Content-Length must not be 0")
        stated = request.headers.get("content-md5")
        if stated is not None and stated != base64.b64encode(hashlib.md5(request.body).digest()).decode():
            raise Rejected(400, "Md5Mismatch")
        self._tree.append(request.path, request.number("position"), request.body, lease)

    def _delete(self, request: Request) -> Response:
        node = self._tree.find(request.path)
        recursive = request.query.get("recursive") == "true"
        if node.folder and self._switches.folder_in_use > 0:
            self._switches.folder_in_use -= 1
            raise Rejected(409, "PathInUse", "The folder is being read.")
        if recursive and request.query.get("paginated") == "true":
            done = self._paged_deletes.get(request.path, 0) + 1
            if done < self._switches.delete_pages:
                self._paged_deletes[request.path] = done
                return Response(200, {"x-ms-continuation": f"page-{done}"})
            self._paged_deletes.pop(request.path, None)
        lease = request.headers.get("x-ms-lease-id")
        etag = request.etag("if-match") if self._switches.heeds_etags else None
        self._tree.delete(request.path, recursive=recursive, etag=etag, lease=lease)
        return Response(200)

    def freeze_listing(self) -> None:
        """From now on, while `stale_listing` is on, listings show this moment."""
        self._switches.stale_listing = True
        self._frozen = self._tree.below("", recursive=True)

    def _list(self, request: Request) -> Response:
        if request.query.get("recursive") not in ("true", "false"):
            raise Rejected(400, "MissingRequiredQueryParameter", "recursive")
        _, folder = self._aliases.split(request.query.get("directory", "").strip("/"))
        folder = folder or request.path  # OneLake lists a folder of the path too: pyfabric 0.1.15 relies on it
        if folder:
            self._tree.find(folder)
        entries = self._entries(folder, recursive=request.query["recursive"] == "true")
        size = min(request.number("maxResults", "5000"), self._switches.page_size)
        start = request.number("continuation", "0")
        if size == 0:
            raise Rejected(400, "OutOfRangeQueryParameterValue", "maxResults")
        first = start - 1 if start and self._switches.listing_changes else start
        body = {"paths": [_entry(path, node) for path, node in entries[first : start + size]]}
        more = {"x-ms-continuation": str(start + size)} if start + size < len(entries) else {}
        return Response(200, {"Content-Type": "application/json;charset=utf-8", **more}, json.dumps(body).encode())

    def _entries(self, folder: str, *, recursive: bool) -> list[tuple[str, Node]]:
        if not self._switches.stale_listing or self._frozen is None:
            return self._tree.below(folder, recursive=recursive)
        start = f"{folder}/" if folder else ""
        inside = [entry for entry in self._frozen if entry[0].startswith(start)]
        return [entry for entry in inside if recursive or "/" not in entry[0][len(start) :]]


class Aliases:
    """The GUIDs and the names of the workspace and its items; one address must use one kind for both."""

    def __init__(self, workspace: tuple[str, str]) -> None:
        """Begin without items."""
        self._workspace = workspace
        self.items: dict[str, str] = {}
        """Names by GUID."""

    def path(self, workspace: str, path: str) -> str:
        """Return the path with the item's GUID. Raises Rejected for another workspace or a mix of GUID and name."""
        if workspace not in self._workspace:
            raise Rejected(404, "FilesystemNotFound", "The specified filesystem does not exist.")
        item, found = self.split(path)
        if item and (item in self.items) != (workspace == self._workspace[0]):
            raise Rejected(400, "InvalidUri", "GUIDs and names cannot be mixed")
        return found

    def split(self, path: str) -> tuple[str, str]:
        """Return the item as written (empty if unknown), and the path with its GUID."""
        head, slash, rest = path.partition("/")
        for identity, name in self.items.items():
            if head in (identity, name):
                return head, f"{identity}{slash}{rest}"
        return "", path


def _entry(path: str, node: Node) -> dict[str, str]:
    """Return one path of a listing: numbers and booleans are strings, a file has no `isDirectory`."""
    entry = {"isDirectory": "true"} if node.folder else {}
    return entry | {
        "name": path,
        "contentLength": str(node.size),
        "etag": node.etag,
        "lastModified": format_datetime(node.changed, usegmt=True),
        "creationTime": "133000000000000000",
        "owner": "$superuser",
        "group": "$superuser",
        "permissions": "rwxr-x---",
    }


def _metadata(request: Request) -> dict[str, str]:
    """`x-ms-properties: name=base64,…`."""
    text = request.headers.get("x-ms-properties", "")
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    try:
        return {name: base64.b64decode(value).decode() for name, _, value in pairs}
    except ValueError:
        raise Rejected(400, "InvalidHeaderValue", "x-ms-properties") from None


_CONTAINER = {
    "ETag": '"0x1"',
    "x-ms-has-immutability-policy": "false",
    "x-ms-has-legal-hold": "false",
    "x-ms-default-encryption-scope": "$account-encryption-key",
    "x-ms-deny-encryption-scope-override": "false",
    "x-ms-lease-status": "unlocked",
    "x-ms-lease-state": "available",
}


class Blob:
    """Answers blob requests from a tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def answer(self, request: Request) -> Response:
        """Answer a request. Raises Rejected for what the service rejects."""
        query = request.query
        match request.method:
            case "GET" | "HEAD" if query.get("restype") == "container" and query.get("comp") is None:
                return Response(200, _CONTAINER | {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"})
            case "GET" if query.get("restype") == "container" and query.get("comp") == "list":
                return self._list(request)
            case "PUT" | "DELETE" if query.get("restype") == "container" or not request.path:
                raise Rejected(403, "OperationNotAllowed", "Workspaces are managed in Fabric.")
            case "GET" | "HEAD" if query.get("comp") is None:
                return self._read(request)
            case "PUT" if query.get("comp") == "lease":
                return self._lease(request)
            case "PUT" if query.get("comp") == "block":
                return self._put_block(request)
            case "PUT" if query.get("comp") is None:
                return self._put(request)
            case "DELETE" if query.get("comp") is None:
                self._tree.delete(request.path, recursive=False, etag=request.etag("if-match"), lease=None)
                return Response(202)
        raise Rejected(400, "UnsupportedQueryParameter", query.get("comp", request.method))

    def _read(self, request: Request) -> Response:
        node = self._tree.get(request.path)
        if node is None or (node.folder and request.method == "GET"):
            raise Rejected(404, "BlobNotFound", "The specified blob does not exist.")
        return read_response(request, node)

    def _put(self, request: Request) -> Response:
        if request.headers.get("x-ms-blob-type") != "BlockBlob":
            raise Rejected(400, "InvalidHeaderValue", "x-ms-blob-type")
        prefix = "x-ms-meta-"
        metadata = {name[len(prefix) :]: value for name, value in request.headers.items() if name.startswith(prefix)}
        node = self._tree.put(request.path, request.body, new_only=request.new_only, metadata=metadata)
        return Response(201, changed_headers(node) | {"x-ms-request-server-encrypted": "true"})

    def _put_block(self, request: Request) -> Response:
        """Reject a block: blocks cannot be mixed with what the DFS service wrote, and no test stages new ones."""
        if self._tree.get(request.path) is not None:
            raise Rejected(409, "InvalidBlobOrBlock", "The path was not written with blocks.")
        raise Rejected(400, "UnsupportedQueryParameter", "comp=block")

    def _lease(self, request: Request) -> Response:
        with self._tree.lock:
            node = self._tree.get(request.path)
            if node is None:
                raise Rejected(404, "BlobNotFound", "The specified blob does not exist.")
            given, action = request.headers.get("x-ms-lease-id"), request.headers.get("x-ms-lease-action")
            if action == "acquire":
                if node.lease is not None and node.lease != request.headers.get("x-ms-proposed-lease-id"):
                    raise Rejected(409, "LeaseAlreadyPresent", "There is already a lease present.")
                node.lease = request.headers.get("x-ms-proposed-lease-id") or str(uuid4())
                return Response(201, changed_headers(node) | {"x-ms-lease-id": node.lease})
            if action == "break":
                if node.lease is None:
                    raise Rejected(409, "LeaseNotPresentWithLeaseOperation")
                node.lease = None
                return Response(202, changed_headers(node) | {"x-ms-lease-time": "0"})
            if node.lease is None or node.lease != given:
                raise Rejected(409, "LeaseIdMismatchWithLeaseOperation")
            if action == "renew":
                return Response(200, changed_headers(node) | {"x-ms-lease-id": node.lease})
            if action == "release":
                node.lease = None
                return Response(200, changed_headers(node))
        raise Rejected(400, "InvalidHeaderValue", "x-ms-lease-action")

    def _list(self, request: Request) -> Response:
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter")
        entries = [entry for entry in self._tree.below("", recursive=True) if entry[0].startswith(prefix)]
        blobs, prefixes = [], []
        for path, node in entries:
            rest = path[len(prefix) :]
            if delimiter and (node.folder or delimiter in rest):
                name = f"{prefix}{rest.split(delimiter)[0]}{delimiter}"
                if name not in prefixes and rest.split(delimiter)[0]:
                    prefixes.append(name)
            else:
                blobs.append(_blob_entry(path, node))
        named = "".join(f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in prefixes)
        body = (
            '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="https://onelake/" '
            f'ContainerName="workspace"><Prefix>{escape(prefix)}</Prefix><Blobs>{"".join(blobs)}{named}</Blobs>'
            "<NextMarker /></EnumerationResults>"
        )
        return Response(200, {"Content-Type": "application/xml"}, body.encode())


def _blob_entry(path: str, node: Node) -> str:
    changed = format_datetime(node.changed, usegmt=True)
    folder = "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>" if node.folder else ""
    return (
        f"<Blob><Name>{escape(path)}</Name><Properties><Creation-Time>{changed}</Creation-Time>"
        f"<Last-Modified>{changed}</Last-Modified><Etag>{node.etag}</Etag>"
        f"<Content-Length>{node.size}</Content-Length><Content-Type>application/octet-stream</Content-Type>"
        "<BlobType>BlockBlob</BlobType><AccessTier>Hot</AccessTier><LeaseStatus>unlocked</LeaseStatus>"
        "<LeaseState>available</LeaseState><ServerEncrypted>true</ServerEncrypted></Properties>"
        f"{folder}</Blob>"
    )
