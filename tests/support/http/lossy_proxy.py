"""A TCP proxy in front of the gateway that drops a share of the answers, after the gateway has carried requests out."""

import random
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_PART = 2**16


@dataclass
class LossyProxy:
    """`share` of the answers is lost from now on, with the connection; `lost` counts them."""

    source: random.Random
    share: float = 0.01
    lost: int = 0
    url: str = ""
    _ended: threading.Event = field(default_factory=threading.Event)

    def relay(self, client: socket.socket, server: socket.socket) -> None:
        """Pass bytes on both ways until a side closes or an answer is lost."""
        asked = False
        while not self._ended.is_set():
            ready, _, _ = select.select((client, server), (), (), 0.1)
            if client in ready:
                if not (part := client.recv(_PART)):
                    return
                server.sendall(part)
                asked = True
            if server in ready:
                if not (part := server.recv(_PART)):
                    return
                if asked and self.source.random() < self.share:
                    self.lost += 1
                    return
                asked = False
                client.sendall(part)

    def end(self) -> None:
        """Let every connection end."""
        self._ended.set()


@contextmanager
def lossy_proxy(gateway: str, source: random.Random, share: float = 0.01) -> Iterator[LossyProxy]:
    """Yield a proxy in front of the gateway at this address. An answer begins with the first byte after a request."""
    proxy, parts = LossyProxy(source, share), urlsplit(gateway)

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                with socket.create_connection((parts.hostname or "", parts.port or 80)) as server:
                    proxy.relay(self.request, server)
            except OSError:
                return  # a side was killed

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Relay) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield proxy
        finally:
            proxy.end()
            server.shutdown()
            thread.join()
