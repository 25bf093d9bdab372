"""Sockets and TLS: read requests, apply faults, write answers."""

import os
import socket
import ssl
import struct
import sys
import threading
import traceback
from contextlib import suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from app.emulator.faults import Effect, Fault
from app.emulator.storage_tree import Rejected
from app.emulator.wire import Request, Response, error_response

if TYPE_CHECKING:
    from app.emulator.onelake import OneLake

_MAX_SILENCE_SECONDS = 20.0


class Server:
    """Listens with TLS: one port routes by Host, and one port per service is for clients that ask for an IP address."""

    def __init__(self, endpoint: "OneLake") -> None:
        self._endpoint = endpoint
        self._listeners: dict[str, _Listener] = {}
        self._threads: list[threading.Thread] = []
        self.failures: list[str] = []

    @property
    def port(self) -> int:
        """The port that tells the services apart by Host."""
        return self.port_of("")

    def port_of(self, service: str) -> int:
        """Return the port of `dfs` or `blob` alone; its host is not checked unless it names the other service."""
        return int(self._listeners[service].server_address[1])

    def start(self, context: ssl.SSLContext) -> None:
        """Listen with this certificate."""
        for service in ("", "dfs", "blob"):
            self._listen(service, context)

    def stop(self) -> None:
        """End all connections and threads."""
        for listener in self._listeners.values():
            listener.shutdown()
            listener.drop_connections()
            listener.server_close()
        for thread in self._threads:
            thread.join()

    def _listen(self, service: str, context: ssl.SSLContext) -> None:
        listener = _Listener(self._endpoint, service or None, self.failures, context)
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,), name=f"onelake {service}")
        thread.start()
        self._listeners[service] = listener
        self._threads.append(thread)


class _Listener(ThreadingMixIn, TCPServer):
    """One port; a thread per connection, all of them joined when it closes."""

    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, endpoint: "OneLake", service: str | None, failures: list[str], context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint, self.service, self.failures = endpoint, service, failures
        self._context = context
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = self.socket.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The handshake is left to the connection's thread: a slow client keeps nobody waiting.
        connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def drop_connections(self) -> None:
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            self.failures.append(traceback.format_exc())


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
            self._handle()
            self.wfile.flush()
        except OSError:  # the client went away, or a fault closed the connection
            self.close_connection = True

    def _handle(self) -> None:
        endpoint = self.server.endpoint
        headers = {name.lower(): value for name, value in self.headers.items()}
        length = int(headers.get("content-length", 0))
        if self.command in ("PUT", "PATCH", "POST") and "content-length" not in headers:
            bare = Request(self.server.service or "dfs", self.command, "", {}, headers, b"")
            return self._send(error_response(bare, Rejected(411, "MissingContentLengthHeader")), bare)
        try:
            request = endpoint.route(self.command, self.path, headers, b"", self.server.service)
            rejection = endpoint.rejection(request)
        except Rejected as rejected:
            request, rejection = Request(self.server.service or "dfs", self.command, "", {}, headers, b""), rejected
        fault = None if rejection else endpoint.faults.next(request.operation, request.path)
        if fault is not None and fault.effect is Effect.RESET_BEFORE:
            self.rfile.read(length // 2)
            return self._reset()
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return None
        if rejection is not None:
            return self._send(error_response(request, rejection), request)
        request = Request(request.service, request.method, request.path, request.query, headers, body)
        endpoint.seen.append(request)
        return self._meet(request, fault) if fault else self._send(endpoint.answer(request), request)

    def _meet(self, request: Request, fault: Fault) -> None:
        endpoint = self.server.endpoint
        said = Rejected(
            fault.status, fault.code, headers={"Retry-After": fault.retry_after} if fault.retry_after else {}
        )
        match fault.effect:
            case Effect.ANSWER:
                self._send(error_response(request, said), request)
            case Effect.ERROR_AFTER:
                endpoint.answer(request)
                self._send(error_response(request, said), request)
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
                self._send(endpoint.answer(request), request, cut=True)

    def _send(self, response: Response, request: Request, *, cut: bool = False) -> None:
        self.send_response_only(response.status)
        headers = {"Content-Length": str(len(response.body)), "x-ms-request-id": str(uuid4()), **response.headers}
        if "x-ms-client-request-id" in request.headers:
            headers["x-ms-client-request-id"] = request.headers["x-ms-client-request-id"]
        headers["x-ms-version"] = request.headers.get("x-ms-version", "")
        for name, value in {"Server": "OneLake test endpoint", "Date": formatdate(usegmt=True), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if request.method != "HEAD":
            self.wfile.write(response.body[: len(response.body) // 2] if cut else response.body)
        if cut:
            self.close_connection = True
        self.wfile.flush()
        self.server.endpoint.faults.done(request.operation)

    def _reset(self) -> None:
        """End the connection with a TCP reset."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())

    def _stay_silent(self) -> None:
        self.close_connection = True
        self.server.endpoint.closing.wait(_MAX_SILENCE_SECONDS)

    def handle_expect_100(self) -> bool:
        """Ask for the body at once; without this it would wait in the buffer for the answer."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what matters is in `OneLake.seen`."""
