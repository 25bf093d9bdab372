"""A server that answers posts of changes as a test says, and remembers them."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


def accepts(handler: BaseHTTPRequestHandler) -> None:
    """202 with a receipt."""
    receipt = {"table": "t", "generation": 1, "sequence": 7, "changes": 1, "rows": 1}
    answer(handler, 202, {"receipts": [receipt], "ignored": 0, "duplicates": 0, "dead_letters": 0, "replayed": False})


def rejects(status: int, code: str, **headers: str) -> Answer:
    """Problem details with this status and code."""
    return lambda handler: answer(handler, status, {"code": code, "detail": "as the test says"}, **headers)


def breaks_off(handler: BaseHTTPRequestHandler) -> None:
    """The connection ends without an answer."""
    handler.close_connection = True


def answer(handler: BaseHTTPRequestHandler, status: int, content: Any, **headers: str) -> None:
    body = json.dumps(content).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    with suppress(ConnectionError):  # the test may have ended its client
        handler.end_headers()
        handler.wfile.write(body)


@dataclass
class FakeGateway:
    """`answers` are given one by one, then every request is accepted."""

    answers: list[Answer] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    url: str = ""


@contextmanager
def fake_gateway(*answers: Answer) -> Iterator[FakeGateway]:
    gateway = FakeGateway(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            gateway.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            gateway.keys.append(self.headers["Idempotency-Key"])
            gateway.arrived.release()
            (gateway.answers.pop(0) if gateway.answers else accepts)(self)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        gateway.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield gateway
        finally:
            server.shutdown()
            thread.join()
