"""A proxy that does to Postgres connections what a connection pooler in transaction mode does.

It answers with a process number of its own, drops the startup options, and passes no notification on.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa


@contextmanager
def pooled(database_url: str) -> Iterator[str]:
    """Yield the URL of a pooler in front of a database that listens on a Unix socket."""
    url = sa.make_url(database_url)
    server = Path(str(url.query["host"])) / f".s.PGSQL.{url.query['port']}"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, server), daemon=True).start()
        port = listener.getsockname()[1]
        yield f"postgresql://{url.username}@127.0.0.1:{port}/{url.database}?sslmode=disable&gssencmode=disable"
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, server: Path) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(str(server))
            _pass_startup(client, upstream)
            threading.Thread(target=_pass_bytes, args=(client, upstream), daemon=True).start()
            threading.Thread(target=_pass_answers, args=(upstream, client), daemon=True).start()


def _pass_startup(client: socket.socket, upstream: socket.socket) -> None:
    """Return the first message without its `options`."""
    length = struct.unpack("!I", _exactly(client, 4))[0]
    body = _exactly(client, length - 4)
    words = body[4:].rstrip(b"\0").split(b"\0")
    pairs = [pair for pair in zip(words[::2], words[1::2], strict=True) if pair[0] != b"options"]
    body = body[:4] + b"".join(name + b"\0" + value + b"\0" for name, value in pairs) + b"\0"
    upstream.sendall(struct.pack("!I", len(body) + 4) + body)


def _pass_bytes(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError), source, target:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


def _pass_answers(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError, EOFError):
        while True:
            kind = _exactly(source, 1)
            length = _exactly(source, 4)
            body = _exactly(source, struct.unpack("!I", length)[0] - 4)
            if kind == b"K":
                body = struct.pack("!I", 4_000_001) + body[4:]
            if kind != b"A":
                target.sendall(kind + length + body)


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data
