"""Requests and answers as both services of the endpoint see them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import format_datetime
from xml.sax.saxutils import escape

from app.emulator.storage_tree import Node, Rejected


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

    def number(self, name: str) -> int:
        """Return a required non-negative number of the query."""
        text = self.query.get(name)
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
    first, last = asked.removeprefix("bytes=").split("-")
    if not first.isdecimal() or int(first) >= size:
        raise Rejected(416, "InvalidRange", headers={"Content-Range": f"bytes */{size}"})
    end = min(int(last) + 1 if last else size, size)
    part = node.read(int(first), end)
    return Response(206, headers | {"Content-Range": f"bytes {first}-{end - 1}/{size}"}, part)
