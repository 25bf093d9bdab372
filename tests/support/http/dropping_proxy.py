"""A proxy before the gateway that loses the first answer to each request: the request is carried out all the same."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

_PASSED_ON = ("Authorization", "Content-Type", "Mirrorgate-Producer", "Mirrorgate-Producer-Sequence")


@dataclass
class DroppingProxy:
    """`seen` counts how often each request came, by method, path and producer's number."""

    seen: Counter[tuple[str, str, str | None]] = field(default_factory=Counter)
    url: str = ""

    def posted(self) -> dict[int, int]:
        """How often each numbered request came."""
        return {int(number): times for (_, _, number), times in self.seen.items() if number is not None}


@contextmanager
def dropping_proxy(gateway: str) -> Iterator[DroppingProxy]:
    proxy = DroppingProxy()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            headers = {name: self.headers[name] for name in _PASSED_ON if self.headers[name]}
            answer = httpx.request(self.command, gateway + self.path, content=body, headers=headers, trust_env=False)
            request = (self.command, self.path, self.headers["Mirrorgate-Producer-Sequence"])
            proxy.seen[request] += 1
            if proxy.seen[request] == 1:
                self.close_connection = True
                return
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def do_GET(self) -> None:
            self.pass_on()

        def do_POST(self) -> None:
            self.pass_on()

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        proxy.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()
