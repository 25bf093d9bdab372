"""The health port of a bridge: `/metrics` for Prometheus, `/healthz` and `/readyz` for an orchestrator, as JSON.

`/healthz` answers 200 while the process works: restarting it does not help against a broker or gateway that is
unreachable. `/readyz` answers 503 with the reasons while anything waits or is stopped.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from mirrorgate.cli.console import encoded
from mirrorgate.errors import Code, Misconfigured
from mirrorgate_bridge.settings_file import HealthSettings

_PATHS: Final = "/metrics, /healthz or /readyz"


class Health:
    """The answers of the health port. `status` returns the facts, `reasons` why the bridge is not ready."""

    def __init__(
        self,
        registry: CollectorRegistry,
        status: Callable[[], Mapping[str, Any]],
        reasons: Callable[[], Sequence[str]],
        is_alive: Callable[[], bool],
    ) -> None:
        self.registry = registry
        self.status = status
        self.reasons = reasons
        self.is_alive = is_alive

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Return the status, content type and body for a path."""
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest(self.registry)
        if path == "/healthz":
            is_alive = self.is_alive()
            return (200 if is_alive else 503), "application/json", msgspec.json.encode({"alive": is_alive})
        if path == "/readyz":
            reasons = list(self.reasons())
            content = {"ready": not reasons, "reasons": reasons, **self.status()}
            return (503 if reasons else 200), "application/json", encoded(content).encode()
        return 404, "text/plain", f"ask for {_PATHS}\n".encode()


@contextmanager
def serving(health: Health, settings: HealthSettings) -> Iterator[int]:
    """Serve the port from a separate thread while the block runs; yield the port.

    Raises Misconfigured `bad_setting` when the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server calls
            status, content_type, body = health.answer(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Write no line for each scrape."""

    try:
        server = ThreadingHTTPServer((settings.host, settings.port), Handler)
    except OSError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"health: the bridge cannot listen on {settings.host}, port {settings.port}: {error.strerror}",
            remedy="Set a free `port` in the section `health`, one for each bridge of the machine; 0 chooses one.",
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="health", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
