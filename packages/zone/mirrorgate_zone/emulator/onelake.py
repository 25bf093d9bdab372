"""OneLake's storage services on one port: their addresses, authentication, and the routing of requests.

`OneLake` authenticates and routes the requests to one workspace.

`Server` has one port for everything: TLS and plain HTTP, OneLake's two services, the REST API, and a proxy for Fabric's
hosts. A connection that begins with a TLS handshake is TLS. `CONNECT` to a host of Fabric is answered here instead of
there, so that a program reaches the emulator with production's addresses when HTTPS_PROXY names it.
"""

import json
import os
import socket
import ssl
import struct
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, unquote
from uuid import uuid4

import trustme

from mirrorgate_zone.emulator.fabric_api import HOST as API_HOST
from mirrorgate_zone.emulator.fabric_api import Answer
from mirrorgate_zone.emulator.faults import Effect, Fault, Faults, Switches
from mirrorgate_zone.emulator.storage_services import Aliases, Blob, Dfs
from mirrorgate_zone.emulator.storage_tree import Rejected, Request, Response, Tree, error_response

Api: TypeAlias = Callable[[str, str, Mapping[str, str], bytes], Answer]
"""Answers a request by method, target, headers in lower case, and body."""

API_PATHS: Final = ("v1", "token", "sql", "_emulator")
"""First elements of the paths that the API answers at the emulator's own address."""
_MAX_SILENCE_SECONDS: Final = 20.0
_TLS_HANDSHAKE: Final = b"\x16"


class Server:
    """Listens on 127.0.0.1. Without `api` it is OneLake alone, without `endpoint` the API alone."""

    def __init__(self, endpoint: "OneLake | None", api: Api | None = None) -> None:
        self._endpoint = endpoint
        self.api = api
        """What answers requests to the API; set before `start`."""
        self._thread: threading.Thread | None = None
        self.failures: list[str] = []
        """Tracebacks of what no handler expected."""

    @property
    def port(self) -> int:
        """The port, once it listens."""
        return int(self._listener.server_address[1])

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.port}"

    def start(self, context: ssl.SSLContext, port: int = 0) -> None:
        """Listen with this certificate; 0: on a free port. Raise OSError if the port is taken."""
        self._listener = _Listener(self._endpoint, self.api, self.failures, context, port)
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.02,), name="emulator")
        self._thread.start()

    def stop(self) -> None:
        """End all connections and threads."""
        if self._thread is not None:
            self._listener.shutdown()
            self._listener.drop_connections()
            self._listener.server_close()
            self._thread.join()


class _Listener(ThreadingMixIn, TCPServer):
    """The port; a thread per connection, all of them joined when it closes."""

    allow_reuse_address = True
    request_queue_size = 64

    def __init__(
        self, endpoint: "OneLake | None", api: Api | None, failures: list[str], context: ssl.SSLContext, port: int
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.endpoint, self.api, self.failures = endpoint, api, failures
        self.closing = threading.Event()
        self._context = context
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = self.socket.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in its thread, with TLS if the client begins with it."""
        with self._kept(request):
            if request.recv(1, socket.MSG_PEEK) != _TLS_HANDSHAKE:
                _Handler(request, client_address, self)
                return
        self.handle_tls(request, client_address)

    def handle_tls(self, connection: socket.socket, client_address: Any) -> None:
        """Handle the rest of a connection with TLS."""
        with (
            self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) as secured,
            self._kept(secured),
        ):
            secured.do_handshake()
            _Handler(secured, client_address, self)

    def drop_connections(self) -> None:
        """End all connections, also those whose handlers wait."""
        self.closing.set()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep the traceback of an error that is not the connection's."""
        if not isinstance(sys.exception(), OSError):
            self.failures.append(traceback.format_exc())

    def _kept(self, connection: socket.socket) -> "_Kept":
        return _Kept(self._open, self._lock, connection)


class _Kept:
    """Lists a connection as open while its block runs."""

    def __init__(self, connections: set[socket.socket], lock: threading.Lock, connection: socket.socket) -> None:
        self._connections, self._lock, self._connection = connections, lock, connection

    def __enter__(self) -> None:
        with self._lock:
            self._connections.add(self._connection)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._connections.discard(self._connection)


class _Handler(BaseHTTPRequestHandler):
    """Reads a request, meets its fault if one is planned, answers."""

    protocol_version = "HTTP/1.1"
    server: _Listener
    wbufsize = -1

    def handle_one_request(self) -> None:
        try:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            if self.command == "CONNECT":
                self._tunnel()
            elif self.server.endpoint is None or self._is_for_api(headers):
                self._answer_api(headers)
            else:
                self._answer_storage(self.server.endpoint, headers)
            if not self.wfile.closed:
                self.wfile.flush()
        except OSError:  # the client went away, or a fault closed the connection
            self.close_connection = True

    def _is_for_api(self, headers: Mapping[str, str]) -> bool:
        if self.server.api is None:
            return False
        host = headers.get("host", "").partition(":")[0]
        first = self.path.lstrip("/").partition("?")[0].partition("/")[0]
        return host == API_HOST or (host in ("127.0.0.1", "localhost") and first in API_PATHS)

    def _tunnel(self) -> None:
        """Answer a proxy's CONNECT: the host is this server, unless it is none of Fabric's."""
        host = self.path.rpartition(":")[0]
        known = {API_HOST, "localhost", "127.0.0.1"}
        if self.server.endpoint is not None:
            known |= {*self.server.endpoint.hosts.values()}
        self.close_connection = True
        if host not in known:
            self.send_error(502, f"{host} is not a host of Fabric")
            return
        self.send_response_only(200)
        self.end_headers()
        self.wfile.flush()
        self.server.handle_tls(self.connection, self.client_address)

    def _answer_api(self, headers: Mapping[str, str]) -> None:
        assert self.server.api is not None
        body = self.rfile.read(int(headers.get("content-length", 0)))
        answer = self.server.api(self.command, self.path, headers, body)
        if answer.lost:
            self._reset()
            return
        content = b"" if answer.body is None else json.dumps(answer.body).encode()
        self.send_response_only(answer.status)
        kind = {} if answer.body is None else {"Content-Type": "application/json; charset=utf-8"}
        for name, value in {**kind, **answer.headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _answer_storage(self, endpoint: "OneLake", headers: Mapping[str, str]) -> None:
        length = int(headers.get("content-length", 0))
        if self.command in ("PUT", "PATCH", "POST") and "content-length" not in headers:
            bare = Request("dfs", self.command, "", {}, headers, b"")
            return self._send(endpoint, error_response(bare, Rejected(411, "MissingContentLengthHeader")), bare)
        try:
            request = endpoint.route(self.command, self.path, headers, b"")
            rejection = endpoint.rejection(request)
        except Rejected as rejected:
            request, rejection = Request("dfs", self.command, "", {}, headers, b""), rejected
        fault = None if rejection else endpoint.faults.next(request.operation, request.path)
        if fault is not None and fault.effect is Effect.RESET_BEFORE:
            self.rfile.read(length // 2)
            return self._reset()
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return None
        if rejection is not None:
            return self._send(endpoint, error_response(request, rejection), request)
        request = Request(request.service, request.method, request.path, request.query, headers, body)
        endpoint.note(request)
        if fault is not None:
            return self._meet(endpoint, request, fault)
        return self._send(endpoint, endpoint.answer(request), request)

    def _meet(self, endpoint: "OneLake", request: Request, fault: Fault) -> None:
        said = Rejected(
            fault.status, fault.code, headers={"Retry-After": fault.retry_after} if fault.retry_after else {}
        )
        match fault.effect:
            case Effect.ANSWER:
                self._send(endpoint, error_response(request, said), request)
            case Effect.ERROR_AFTER:
                endpoint.answer(request)
                self._send(endpoint, error_response(request, said), request)
            case Effect.RESET_AFTER:
                endpoint.answer(request)
                self._reset()
            case Effect.SILENT_BEFORE:
                self._stay_silent()
            case Effect.SILENT_AFTER:
                endpoint.answer(request)
                self._stay_silent()
            case Effect.LATE:
                endpoint.faults.late(lambda: endpoint.answer(request), request.operation)
                self._reset()
            case Effect.SHORT:
                self._send(endpoint, endpoint.answer(request), request, cut=True)

    def _send(self, endpoint: "OneLake", response: Response, request: Request, *, cut: bool = False) -> None:
        self.send_response_only(response.status)
        headers = {"Content-Length": str(len(response.body)), "x-ms-request-id": str(uuid4()), **response.headers}
        if "x-ms-client-request-id" in request.headers:
            headers["x-ms-client-request-id"] = request.headers["x-ms-client-request-id"]
        headers["x-ms-version"] = request.headers.get("x-ms-version", "")
        for name, value in {"Server": "Mirrorgate emulator", "Date": formatdate(usegmt=True), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if request.method != "HEAD":
            self.wfile.write(response.body[: len(response.body) // 2] if cut else response.body)
        if cut:
            self.close_connection = True
        self.wfile.flush()
        endpoint.faults.done(request.operation)

    def _reset(self) -> None:
        """End the connection with a TCP reset."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())

    def _stay_silent(self) -> None:
        self.close_connection = True
        self.server.closing.wait(_MAX_SILENCE_SECONDS)

    def handle_expect_100(self) -> bool:
        """Ask for the body at once; without this it would wait in the buffer for the answer."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


WORKSPACE = ("6f1b1a52-0d7c-4a39-8f0e-3b5f6a1c9d01", "Sales workspace")
ITEM = ("c2a7f4de-51b8-4b7e-9c35-7d90e1f2a604", "orders.MirroredDatabase")
TOKEN = "test-token"
LANDING_ZONE = f"{ITEM[0]}/Files/LandingZone"
HOSTS = {"dfs": "onelake.dfs.fabric.microsoft.com", "blob": "onelake.blob.fabric.microsoft.com"}
ACCOUNT_HOSTS = {"dfs": "account.dfs.core.windows.net", "blob": "account.blob.core.windows.net"}


@dataclass
class OneLake:
    """One workspace with mirrored databases, served over TLS on 127.0.0.1.

    `address` is where it listens; clients ask for the hosts of production there. For a client that asks for an IP
    address, the form of a request tells the services apart. `account` makes it a plain storage account with one
    container instead.
    """

    account: bool = False
    workspace: tuple[str, str] = WORKSPACE
    """Id and name."""
    item: tuple[str, str] = ITEM
    """The first database: id and name."""
    folder: Path | None = None
    """Where the files are. None: a temporary folder."""
    switches: Switches = field(default_factory=Switches)
    faults: Faults = field(default_factory=Faults)
    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    seen: list[Request] = field(default_factory=list)
    """Every request that was let in, in the order of arrival, with `remembers`."""
    remembers: bool = True
    on_done: Callable[[Request, Response], object] | None = None
    """Called with each request that was carried out, before another one is; for a journal."""

    def __post_init__(self) -> None:
        if self.account:
            self.workspace, self.item = ("container", "container"), ("", "")
        self.tree = Tree(self.folder)
        self.aliases = Aliases(self.workspace)
        if not self.account:
            self.add_item(*self.item)
        self.dfs = Dfs(self.tree, self.switches, self.aliases)
        self.blob = Blob(self.tree)
        self.server = Server(self)

    def add_item(self, identity: str, name: str) -> None:
        """Create the folders of an item that only Fabric creates."""
        self.aliases.items[identity] = name
        self.tree.manage([identity, f"{identity}/Files", f"{identity}/Tables"])

    def remove_item(self, identity: str) -> None:
        """Remove an item with all its files."""
        self.aliases.items.pop(identity, None)
        self.tree.remove_item(identity)

    def note(self, request: Request) -> None:
        """Remember a request that was let in."""
        if self.remembers:
            self.seen.append(request)

    @property
    def hosts(self) -> dict[str, str]:
        """The host of each service in production."""
        return ACCOUNT_HOSTS if self.account else HOSTS

    @property
    def landing_zone(self) -> str:
        """The zone's path below the workspace."""
        return "landing/zone" if self.account else f"{self.item[0]}/Files/LandingZone"

    @property
    def url(self) -> str:
        """The zone's address as an operator would set it."""
        return f"abfss://{self.workspace[0]}@{self.hosts['dfs']}/{self.landing_zone}"

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.server.address

    def route(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
        """Return the request that arrived. Raises Rejected for an unknown workspace."""
        raw_path, _, raw_query = target.partition("?")
        query = dict(parse_qsl(raw_query, keep_blank_values=True))
        host = headers.get("host", "").split(":")[0]
        account = self.hosts["dfs"].partition(".")[0]
        service = _service(method, query, headers)
        for name, known in self.hosts.items():
            if host in (known, f"{account}.{name}.localhost"):
                service = name
        workspace, _, path = raw_path.strip("/").partition("/")
        path = self.aliases.path(unquote(workspace), unquote(path).strip("/")) if workspace else ""
        return Request(service, method, path, query, headers, body)

    def rejection(self, request: Request) -> Rejected | None:
        """Return what is wrong with the caller's credentials or with the API version."""
        scheme, _, credential = request.headers.get("authorization", "").partition(" ")
        if self.switches.account_keys and scheme == "SharedKey":
            return None
        if self.faults.is_paused:
            return Rejected(404, "FilesystemNotFound", "The specified filesystem does not exist.")
        if scheme != "Bearer" or credential not in self.tokens or self.faults.has_expired(credential, self.tokens):
            challenge = "Bearer authorization_uri=https://login.microsoftonline.com/t/oauth2/authorize "
            challenge += "resource_id=https://storage.azure.com"
            headers = {"WWW-Authenticate": challenge} if self.switches.challenge else {}
            return Rejected(401, "InvalidAuthenticationInfo", "Authentication failed.", headers)
        version = request.headers.get("x-ms-version")
        if version is None and request.service == "blob":  # the DFS service's reference calls it optional
            return Rejected(400, "MissingRequiredHeader", "x-ms-version")
        if version is not None and version > self.switches.newest_version:
            return Rejected(400, "InvalidHeaderValue", "x-ms-version")
        return None

    def answer(self, request: Request) -> Response:
        """Do what is asked and answer it."""
        if self.on_done is None:
            return self._carry_out(request)
        with self.tree.lock:
            response = self._carry_out(request)
            self.on_done(request, response)
            return response

    def _carry_out(self, request: Request) -> Response:
        try:
            service = self.dfs if request.service == "dfs" else self.blob
            return service.answer(request)
        except Rejected as rejected:
            return error_response(request, rejected)
        except FileNotFoundError:  # the replicator has moved it
            return error_response(request, Rejected(404, "PathNotFound", "The specified path does not exist."))

    def file(self, path: str) -> bytes:
        """Content of a file below the landing zone, past all faults."""
        return self.tree.find(f"{self.landing_zone}/{path}").content

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder of the landing zone, bypassing all faults."""
        start = f"{self.landing_zone}/{folder}".rstrip("/")
        return [path[len(start) + 1 :] for path, _ in self.tree.below(start, recursive=False)]


def _service(method: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """Return the service that the Azure SDK means by a request, whatever host it names."""
    if "comp" in query or "restype" in query or "x-ms-blob-type" in headers:
        return "blob"
    is_read = method in ("GET", "HEAD") and not {"resource", "action"} & query.keys()
    return "blob" if is_read else "dfs"


@dataclass(frozen=True)
class Trust:
    """A certificate authority of this process: the server's side, and the file that clients trust."""

    server: ssl.SSLContext
    authority_file: Path


@contextmanager
def certificates(folder: Path | None = None) -> Iterator[Trust]:
    """Create an authority, and a certificate for 127.0.0.1 and the production hosts.

    The authority's file is in the folder, or in a temporary one until the block ends.
    """
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    names = ["127.0.0.1", "localhost", "*.dfs.localhost", "*.blob.localhost", *HOSTS.values(), *ACCOUNT_HOSTS.values()]
    names.append(API_HOST)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, key_type=trustme.KeyType.ECDSA).configure_cert(context)
    with tempfile.TemporaryDirectory() as temporary:
        file = (folder or Path(temporary)) / "authority.pem"
        authority.cert_pem.write_to_path(str(file))
        yield Trust(context, file)


@contextmanager
def served(endpoint: OneLake, trust: Trust) -> Iterator[OneLake]:
    """Run the endpoint; fail if a handler met something that it did not expect."""
    endpoint.server.start(trust.server)
    try:
        yield endpoint
    finally:
        endpoint.server.stop()
        endpoint.tree.close()
    assert not endpoint.server.failures, endpoint.server.failures
