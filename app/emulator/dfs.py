"""The DFS service: create, append, flush, rename, list, delete, read."""

import base64
import hashlib
import json
from email.utils import format_datetime
from urllib.parse import unquote

from app.emulator.faults import Switches
from app.emulator.storage_tree import Node, Rejected, Tree
from app.emulator.wire import Request, Response, changed_headers, read_response

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
        size = min(int(request.query.get("maxResults", 5_000)), self._switches.page_size)
        start = int(request.query.get("continuation") or 0)
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
    return {name: base64.b64decode(value).decode() for name, _, value in pairs}
