"""A TCP proxy for Postgres that can go silent, or lead to another server, as the address of a cluster does."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa


@dataclass
class SwallowingProxy:
    """Connections opened before the last `swallow` are silent; with `swallow_new`, so are those opened later.

    A silent connection acknowledges every byte and forwards none.
    """

    server: Path
    url: str = ""
    swallow_new: bool = False
    _silent: set[int] = field(default_factory=set)
    _open: set[int] = field(default_factory=set)
    _opened: int = 0
    sockets: list[socket.socket] = field(default_factory=list)

    def lead_to(self, database_url: str) -> None:
        """Lead new connections to another server, and end the present ones."""
        self.server = _socket_of(database_url)
        self.end_connections()

    def end_connections(self) -> None:
        for one in self.sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def swallow(self) -> None:
        """Fall silent on every connection there is; none is closed."""
        self._silent |= self._open

    def begin(self) -> int:
        self._opened += 1
        self._open.add(self._opened)
        if self.swallow_new:
            self._silent.add(self._opened)
        return self._opened

    def is_silent(self, number: int) -> bool:
        return number in self._silent


@contextmanager
def swallowing_proxy(database_url: str) -> Iterator[SwallowingProxy]:
    """Yield a proxy in front of a database that listens on a Unix socket."""
    url = sa.make_url(database_url)
    proxy = SwallowingProxy(_socket_of(database_url))

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                upstream = socket.socket(socket.AF_UNIX)
                try:
                    upstream.connect(str(proxy.server))
                except OSError:  # Postgres is away
                    client.close()
                    upstream.close()
                    continue
                proxy.sockets.extend([client, upstream])
                number = proxy.begin()
                for source, target in ((client, upstream), (upstream, client)):
                    threading.Thread(target=_pass_on, args=(proxy, number, source, target), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        proxy.url = f"postgresql://{url.username}@127.0.0.1:{port}/{url.database}?sslmode=disable&gssencmode=disable"
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            proxy.end_connections()
            for one in proxy.sockets:
                one.close()


def _socket_of(database_url: str) -> Path:
    url = sa.make_url(database_url)
    return Path(str(url.query["host"])) / f".s.PGSQL.{url.query['port']}"


def _pass_on(proxy: SwallowingProxy, number: int, source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            if not proxy.is_silent(number):
                target.sendall(data)
        if not proxy.is_silent(number):
            target.shutdown(socket.SHUT_RDWR)
