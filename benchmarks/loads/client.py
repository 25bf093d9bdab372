"""The load generator, `python -m benchmarks.loads.client`; `benchmarks.loads.driver` drives it over pipes.

It builds all requests before the clock starts. Then each connection sends the next request as soon as it has its last
answer, over raw sockets on uvloop. Of an answer it reads only the status and the length.
"""

import asyncio
import itertools
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import uvloop

from benchmarks.loads.workloads import Workload, find_workload


class Target(msgspec.Struct, frozen=True):
    """The first line on standard input: where to send, which workload, over how many connections."""

    host: str
    port: int
    key: str
    workload: str
    connections: int
    pipelined: int = 1
    """Requests in flight per connection."""


class LoadCommand(msgspec.Struct, frozen=True):
    """Every further line: send for `seconds`, or each different request once, or to the empty endpoint."""

    seconds: float | None = None
    empty: bool = False


class LoadResult(msgspec.Struct, frozen=True):
    """The answer to a command; `seconds` run from the first request to the last answer."""

    requests: int
    seconds: float
    cpu_seconds: float
    latencies: tuple[float, ...]
    """Seconds from request to answer, in the order of the answers."""
    rejected: str = ""
    """Status and content of the first answer outside 2xx; empty if there is none."""


EMPTY: Final = b"GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n"


def request_bytes(path: str, key: str, body: bytes, media_type: str = "application/json") -> bytes:
    """Return a whole POST request."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Run:
    """One command, carried out over all connections."""

    def __init__(self, requests: Iterator[bytes], seconds: float | None) -> None:
        self._requests = requests
        self._seconds = seconds
        self._in_flight = 0
        self._started = self._ended = 0.0
        self._latencies: list[float] = []
        self._rejected = ""
        self._done = asyncio.get_running_loop().create_future()

    async def execute(self, connections: Sequence["Connection"], pipelined: int) -> LoadResult:
        """Send until the command is done. Raises ConnectionError when the server closes a connection."""
        cpu = time.process_time()
        self._started = self._ended = time.perf_counter()
        for _ in range(pipelined):
            for connection in connections:
                connection.run = self
                self.send_next(connection)
        if self._in_flight:
            await self._done
        cpu = time.process_time() - cpu
        return LoadResult(
            len(self._latencies), self._ended - self._started, cpu, tuple(self._latencies), rejected=self._rejected
        )

    def send_next(self, connection: "Connection") -> None:
        """Send the next request, unless the time is over, requests are used up, or one was rejected."""
        now = time.perf_counter()
        over = self._rejected or (self._seconds is not None and now - self._started >= self._seconds)
        request = None if over else next(self._requests, None)
        if request is not None:
            self._in_flight += 1
            connection.send(request, now)

    def answered(self, connection: "Connection", sent_at: float, status: int, content: bytes) -> None:
        """Record an answer and send the next request."""
        self._ended = time.perf_counter()
        self._in_flight -= 1
        if 200 <= status < 300:
            self._latencies.append(self._ended - sent_at)
        else:
            self._rejected = self._rejected or f"{status} {content.decode(errors='replace')}"
        self.send_next(connection)
        if not self._in_flight and not self._done.done():
            self._done.set_result(None)

    def broken(self, error: Exception | None) -> None:
        """Fail the run."""
        if not self._done.done():
            self._done.set_exception(ConnectionError(f"the server closed a connection: {error}"))


class Connection(asyncio.Protocol):
    """A connection that is kept alive; answers arrive in the order of the requests."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self._sent_at: deque[float] = deque()
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport: Any = transport

    def send(self, request: bytes, now: float) -> None:
        """Send a request; `now` is the time on the clock."""
        self._sent_at.append(now)
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Give each complete answer to the run."""
        self._received += data
        while self.run is not None and (answer := take_answer(self._received)) is not None:
            self.run.answered(self, self._sent_at.popleft(), *answer)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the run if an answer is missing."""
        if self.run is not None and self._sent_at:
            self.run.broken(error)

    def close(self) -> None:
        """Close the connection."""
        self.run = None
        self._transport.close()


def take_answer(received: bytearray) -> tuple[int, bytes] | None:
    """Remove the first complete answer; return its status and content, or None if there is none.

    Raises ValueError for an answer without a Content-Length; all answers of the gateway have one.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(received[:end]).lower()
    _, found, rest = head.partition(b"\r\ncontent-length:")
    if not found:
        raise ValueError("an answer without Content-Length")
    whole = end + 4 + int(rest.partition(b"\r\n")[0])
    if len(received) < whole:
        return None
    content = bytes(received[end + 4 : whole])
    del received[:whole]
    return int(head[9:12]), content


class Requests:
    """The requests of a workload, round after round."""

    def __init__(self, workload: Workload, key: str) -> None:
        self._workload = workload
        self._key = key
        self._bodies = workload.bodies()
        self._first = [self._request(body) for body in self._bodies]
        self._rounds = self._all_rounds()

    def of(self, command: LoadCommand) -> Iterator[bytes]:
        """Return the requests of a command; a command with a time continues where the one before has ended."""
        if command.empty:
            return itertools.repeat(EMPTY)
        return iter(self._first) if command.seconds is None else self._rounds

    def _all_rounds(self) -> Iterator[bytes]:
        yield from self._first
        for rounds in itertools.count(1):
            for number, body in enumerate(self._bodies):
                repeated = self._workload.repeated(number, body, rounds)
                yield self._first[number] if repeated is body else self._request(repeated)

    def _request(self, body: bytes) -> bytes:
        return request_bytes(self._workload.path, self._key, body, self._workload.media_type)


async def execute(target: Target, requests: Requests, command: LoadCommand) -> LoadResult:
    """Open the connections, carry out the command, close them."""
    loop = asyncio.get_running_loop()
    opened = [
        (await loop.create_connection(Connection, target.host, target.port))[1] for _ in range(target.connections)
    ]
    try:
        return await Run(requests.of(command), command.seconds).execute(opened, target.pipelined)
    finally:
        for connection in opened:
            connection.close()


def main() -> None:
    """Build the requests, then carry out the commands on standard input."""
    lines = iter(sys.stdin.buffer.readline, b"")
    target = msgspec.json.decode(next(lines), type=Target)
    requests = Requests(find_workload(target.workload), target.key)
    _say(msgspec.json.encode("ready"))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for line in lines:
            command = msgspec.json.decode(line, type=LoadCommand)
            _say(msgspec.json.encode(runner.run(execute(target, requests, command))))


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
