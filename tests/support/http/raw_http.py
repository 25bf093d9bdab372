"""HTTP over a raw socket, for requests that no library would send."""

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec


@dataclass(frozen=True)
class RawAnswer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class RawClient:
    """One connection, on which bytes are sent as they are and answers read one by one."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._answers = connection.makefile("rb")

    def close(self) -> None:
        self._answers.close()

    def send(self, content: bytes) -> None:
        self._socket.sendall(content)

    def end_of_sending(self) -> None:
        """Close the sending half of the connection."""
        self._socket.shutdown(socket.SHUT_WR)

    def asks(self, path: str, key: str, size: int) -> int:
        """Send the head of a body of this size, and wait to be told to go on; return the status."""
        self.send(head(path, key, f"Content-Length: {size}", "Expect: 100-continue"))
        return self.answer().status

    def answer(self) -> RawAnswer:
        """Return the next answer; fail if the connection is closed instead."""
        line = self._answers.readline()
        assert line, "the connection was closed without an answer"
        headers = {}
        while (header := self._answers.readline().strip()) != b"":
            name, _, value = header.decode().partition(":")
            headers[name.lower()] = value.strip()
        return RawAnswer(int(line.split()[1]), headers, self._answers.read(int(headers.get("content-length", 0))))

    def beginning(self) -> bytes:
        """Wait for the next answer; return what has come of it, which stays unread."""
        return self._answers.peek()

    def has_answer(self) -> bool:
        """Return whether there are unread bytes."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def is_closed(self) -> bool:
        """Wait for the next byte; return True if the connection ends instead."""
        try:
            return self._answers.read(1) == b""
        except ConnectionResetError:
            return True


@contextmanager
def connected(address: str, *, receive_buffer: int | None = None) -> Iterator[RawClient]:
    """Connect to an address. With `receive_buffer` the kernel takes only about that many bytes that are not read."""
    where = urlsplit(address)
    with socket.socket() as connection:
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(30)
        connection.connect((where.hostname, where.port))
        client = RawClient(connection)
        try:
            yield client
        finally:
            client.close()


def head(path: str, key: str, *headers: str, method: str = "POST") -> bytes:
    """Return a request's head with a JSON content type and these header lines."""
    lines = [f"{method} {path} HTTP/1.1", "Host: gateway", f"Authorization: Bearer {key}"]
    return "\r\n".join([*lines, "Content-Type: application/json", *headers, "", ""]).encode()


def request(path: str, key: str, body: bytes, *headers: str) -> bytes:
    """Return a whole request with the right length."""
    return head(path, key, f"Content-Length: {len(body)}", *headers) + body


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)
