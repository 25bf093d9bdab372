"""One port for everything: TLS and plain HTTP, OneLake's two services, the REST API, and a proxy for Fabric's hosts.

A connection that begins with a TLS handshake is TLS. `CONNECT` to a host of Fabric is answered here instead of there,
so that a program reaches the emulator with production's addresses when HTTPS_PROXY names it.
"""

import json
import os
import socket
import ssl
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

from app.emulator.fabric_api import HOST as API_HOST
from app.emulator.fabric_api import Answer
from app.emulator.faults import Effect, Fault
from app.emulator.storage_tree import Rejected
from app.emulator.wire import Request, Response, error_response

if TYPE_CHECKING:
    from app.emulator.onelake import OneLake

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
