"""Post an outbox file to Mirrorgate, each line exactly once and in order.

An application appends a line to the outbox for each of its transactions: one Arcion message, or a JSON array of them.
This program posts line n as request n of a producer. The gateway takes request n only after request n - 1, and answers
a request that it has already with its first answer. The program therefore keeps no state: it asks for the
last durable number, continues behind it, and repeats every request that got no answer.

Usage: producer.py OUTBOX [--producer NAME] [--follow]

MIRRORGATE_URL is the address of the gateway, MIRRORGATE_API_KEY a key with the right `ingest` for the tables.
Exit status: 0 every complete line is durable, or SIGTERM or SIGINT stopped the program; 1 a person has to look, because
the gateway rejected a line or the outbox is not the one that was sent before; 2 wrong usage.
"""

import argparse
import itertools
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote

import httpx

RETRIED_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
"""The gateway cannot take the request now, or may have taken it. Every other error needs a person."""

MAX_REQUEST_SECONDS: Final = 60.0
MAX_BACKOFF_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.2


class Stopped(Exception):
    """SIGTERM or SIGINT arrived while the program waited to repeat a request."""


class ProducerError(Exception):
    """The producer cannot continue before a person has looked at it."""


class Rejected(ProducerError):
    """The gateway rejected a request. Unchanged, it is rejected again."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.code = str(problem.get("code", f"status {status}"))
        messages = [
            f"message {error.get('index', 0)} {error.get('pointer', '')}: {error['detail']}"
            for error in problem.get("errors", [])
        ]
        remedy = f"remedy: {problem.get('remedy', 'See whether MIRRORGATE_URL is the address of the gateway.')}"
        request = f"request id: {problem.get('request_id', 'none')}"
        super().__init__("\n  ".join([f"{self.code}: {problem.get('detail', '')}", *messages, remedy, request]))


@dataclass(frozen=True, slots=True)
class Producer:
    """A named producer of numbered requests. Its numbers belong to the API key of `client`."""

    client: httpx.Client
    name: str
    stopping: threading.Event = field(default_factory=threading.Event)

    def last_durable_number(self) -> int:
        """Return the number of the last durable request, 0 before the first."""
        try:
            answer = self._send(self.client.build_request("GET", f"/v1/producers/{quote(self.name, safe='')}"))
        except Rejected as rejected:
            if rejected.code == "unknown_producer":
                return 0
            raise
        return int(answer["sequence"])

    def post(self, number: int, body: bytes) -> dict[str, Any]:
        """Return the gateway's answer to request `number`: its changes are durable and land once, in order."""
        headers = {
            "Content-Type": "application/json",
            "Mirrorgate-Producer": self.name,
            "Mirrorgate-Producer-Sequence": str(number),
        }
        return self._send(self.client.build_request("POST", "/v1/changes/arcion", content=body, headers=headers))

    def _send(self, request: httpx.Request) -> dict[str, Any]:
        """Send a request until the gateway decides on it. Raises Rejected and Stopped."""
        backoff = 0.2
        while True:
            retry_after = 0.0
            try:
                response = self.client.send(request)
            except (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError) as error:
                reason = repr(error)  # the request may be durable; repeating it under its number is safe
            else:
                if response.status_code not in RETRIED_STATUSES:
                    return _content(response)
                reason = f"status {response.status_code}"
                retry_after = _retry_after(response)
            # Random, so that producers that lost the same gateway do not all return at the same moment.
            seconds = max(retry_after, random.uniform(backoff / 2, backoff))
            backoff = min(2 * backoff, MAX_BACKOFF_SECONDS)
            print(f"{reason}: repeating the request in {seconds:.1f} s", file=sys.stderr, flush=True)
            if self.stopping.wait(seconds):
                raise Stopped


def _content(response: httpx.Response) -> dict[str, Any]:
    try:
        content = dict(response.json())
    except (TypeError, ValueError) as error:  # a proxy answered, or another server
        raise Rejected(response.status_code, {"detail": response.text[:200]}) from error
    if not response.is_success:
        raise Rejected(response.status_code, content)
    return content


def _retry_after(response: httpx.Response) -> float:
    """Return the seconds that the gateway asks to wait. A date, which only a proxy sends, counts as 0."""
    seconds = response.headers.get("Retry-After", "")
    return float(seconds) if seconds.isdecimal() else 0.0


def complete_lines(outbox: BinaryIO, follow: bool, stopping: threading.Event) -> Iterator[bytes]:
    """Yield the lines that end with a newline. With `follow`, wait for more of them until `stopping` is set.

    The application is still writing a line without a newline. Sent now, half a transaction would take its number.
    """
    line = b""
    while not stopping.is_set():
        line += outbox.readline()
        if line.endswith(b"\n"):
            yield line
            line = b""
        elif follow:
            stopping.wait(POLL_SECONDS)
        else:
            if line:
                print("the last line has no newline: it is not sent", file=sys.stderr)
            return


def post_outbox(producer: Producer, path: Path, follow: bool) -> None:
    """Post the lines of an outbox that are not durable yet. Raises ProducerError and Stopped."""
    durable = producer.last_durable_number()
    with path.open("rb") as outbox:
        if sum(line.endswith(b"\n") for line in itertools.islice(outbox, durable)) < durable:
            raise ProducerError(f"{path} has fewer lines than the {durable} that {producer.name} has sent before")
        for number, body in enumerate(complete_lines(outbox, follow, producer.stopping), start=durable + 1):
            try:
                answer = producer.post(number, body)
            except Rejected as rejected:
                raise ProducerError(f"line {number}: {rejected}") from rejected
            print(f"line {number}: {'durable already' if answer['replayed'] else 'durable'}", flush=True)


def main() -> int:
    """Run the program and return its exit status."""
    parser = argparse.ArgumentParser(description="Post an outbox file to Mirrorgate, each line exactly once.")
    parser.add_argument("outbox", type=Path, help="file that only grows; line n is the body of request n")
    parser.add_argument("--producer", help="name that the numbers belong to; unset: the file's name without its suffix")
    parser.add_argument("--follow", action="store_true", help="wait for more lines until SIGTERM or SIGINT")
    arguments = parser.parse_args()
    url, key = os.environ.get("MIRRORGATE_URL", ""), os.environ.get("MIRRORGATE_API_KEY", "")
    if not url.startswith(("http://", "https://")):
        parser.error("MIRRORGATE_URL must begin with http:// or https://")
    if not key:
        parser.error("MIRRORGATE_API_KEY must hold a key")
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=MAX_REQUEST_SECONDS) as client:
        producer = Producer(client, arguments.producer or arguments.outbox.stem)
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signal_number, lambda *_: producer.stopping.set())
        try:
            post_outbox(producer, arguments.outbox, arguments.follow)
        except Stopped:
            print("stopped; start the program again to continue", file=sys.stderr)
        except (ProducerError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
