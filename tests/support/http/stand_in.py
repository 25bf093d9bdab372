"""HTTP servers of the tests' own: each is a request handler that runs in threads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class StandIn(BaseHTTPRequestHandler):
    """A handler that keeps connections alive and logs nothing; `respond` answers each request."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: the second one would wait 40 ms for the first one's acknowledgment

    def respond(self) -> None:
        """Answer one GET or POST."""
        raise NotImplementedError

    def handle(self) -> None:
        """Answer requests until the client ends the connection, or the test has ended the client."""
        with suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        """Answer a GET."""
        self.respond()

    def do_POST(self) -> None:
        """Answer a POST."""
        self.respond()

    def do_DELETE(self) -> None:
        """Answer a DELETE."""
        self.respond()

    def body(self) -> bytes:
        """Read the whole body of the request."""
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def answer(self, status: int, content: bytes, **headers: str) -> None:
        """Answer with these headers, `_` written for `-`; ignore that the client has gone."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        with suppress(ConnectionError):  # the test may have ended its client
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free port while the block runs; yield the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
