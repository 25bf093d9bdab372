"""A proxy before a real gateway that holds one request, so that a test can end the sender at that very moment."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

_FORWARDED = ("Authorization", "Content-Type", "Idempotency-Key", "Mirrorgate-Producer", "Mirrorgate-Producer-Sequence")


class Held(StrEnum):
    """What becomes of the request that is held."""

    LOST = "lost"
    IN_FLIGHT = "in_flight"
    """It reaches the gateway when it is released, whether the sender lives or not."""
    ANSWERED = "answered"
    """It has reached the gateway, only the answer is held."""


@dataclass
class Proxy:
    """`held` tells that the request has come; it goes on after `release`, and `passed` tells that it has."""

    url: str = ""
    held: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    passed: threading.Event = field(default_factory=threading.Event)


@contextmanager
def proxy(target: str, number: int, kind: Held) -> Iterator[Proxy]:
    """Holds the POST of this number, from 1, and passes everything else on."""
    proxy = Proxy()
    posts = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on()

        def do_POST(self) -> None:
            nonlocal posts
            posts += 1
            if posts != number:
                self._pass_on()
                return
            body = self._body()
            answer = self._forward(body) if kind is Held.ANSWERED else None
            proxy.held.set()
            proxy.release.wait(60)
            if kind is Held.LOST:
                self.close_connection = True
            else:
                self._answer(answer or self._forward(body))
            proxy.passed.set()

        def _pass_on(self) -> None:
            self._answer(self._forward(self._body()))

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers["Content-Length"] or 0))

        def _forward(self, body: bytes) -> httpx.Response:
            headers = {name: self.headers[name] for name in _FORWARDED if self.headers[name]}
            return httpx.request(self.command, target + self.path, content=body, headers=headers, trust_env=False)

        def _answer(self, answer: httpx.Response) -> None:
            with suppress(ConnectionError):  # the test may have ended its client
                self.send_response(answer.status_code)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        proxy.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.release.set()
            server.shutdown()
            thread.join()
