"""The blob service: properties, reads, leases, and operations that other readers use."""

from email.utils import format_datetime
from uuid import uuid4
from xml.sax.saxutils import escape

from app.emulator.storage_tree import Node, Rejected, Tree
from app.emulator.wire import Request, Response, changed_headers, read_response

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
