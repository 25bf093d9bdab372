"""A proxy in front of a real gateway that spoils or holds the requests that a test names, each in its own way."""

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple

import httpx

from tests.support.http.stand_in import StandIn, serving

_TO_GATEWAYS: Final = httpx.Client(trust_env=False, verify=False, timeout=60)
"""Connections to all gateways: opening a client takes longer than a request."""

_OF_ONE_CONNECTION: Final = {"host", "connection", "expect", "content-length", "content-encoding", "date", "server"}
"""Headers that the proxy does not pass on: it writes them itself, or has undone what they say."""


class Fault(Enum):
    """What happens to a request."""

    NONE = auto()
    LOST = auto()
    """The gateway carries it out; its answer is lost."""
    DROPPED = auto()
    """The connection breaks before the gateway sees it."""
    BUSY = auto()
    """It is answered with 503, and the gateway does not see it."""
    TOO_MUCH = auto()
    """It is answered with 429 and a time to wait."""
    OVERLOADED = auto()
    """It is answered with 503 and a time to wait."""
    FAILED = auto()
    """The gateway carries it out, and it is answered with 500."""


class Held(Enum):
    """What happens to a request that waits until the test releases it, so that the test can kill the sender."""

    LOST = auto()
    """The gateway never sees it."""
    IN_FLIGHT = auto()
    """It reaches the gateway when it is released, whether or not the sender still lives."""
    ANSWERED = auto()
    """It has reached the gateway; only the answer is held."""


_REJECTIONS: Final[dict[Fault | Held, tuple[int, str, dict[str, str]]]] = {
    Fault.BUSY: (503, "database_unavailable", {}),
    Fault.TOO_MUCH: (429, "rate_limited", {"Retry-After": "7"}),
    Fault.OVERLOADED: (503, "overloaded", {"Retry-After": "1"}),
    Fault.FAILED: (500, "internal", {}),
}


class Request(NamedTuple):
    """Method, path and producer's number of a request."""

    method: str
    path: str
    number: str | None


def no_fault(_: Request) -> Fault:
    """Pass every request on."""
    return Fault.NONE


@dataclass
class FaultyProxy:
    """Takes the fault of each post from `faults`, the first one first; `usual` decides about all other requests.

    `held` is set once a request is held; `release` lets it pass, and `passed` is set afterwards.
    """

    faults: list[Fault | Held]
    usual: Callable[[Request], Fault] = no_fault
    url: str = ""
    seen: Counter[Request] = field(default_factory=Counter)
    happened: Counter[Fault | Held] = field(default_factory=Counter)
    held: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    passed: threading.Event = field(default_factory=threading.Event)

    def fault_of(self, request: Request) -> Fault | Held:
        """Count a request, and return what happens to it."""
        self.seen[request] += 1
        fault = self.faults.pop(0) if self.faults and request.method == "POST" else self.usual(request)
        self.happened[fault] += 1
        return fault

    def posted(self) -> dict[int, int]:
        """Return how often each numbered request arrived."""
        return {int(number): times for (_, _, number), times in self.seen.items() if number is not None}


@contextmanager
def faulty_proxy(
    gateway: str, *faults: Fault | Held, usual: Callable[[Request], Fault] = no_fault
) -> Iterator[FaultyProxy]:
    """Yield a proxy in front of the gateway at this address."""
    proxy = FaultyProxy([*faults], usual)

    class Handler(StandIn):
        def respond(self) -> None:
            body = self.body()
            fault = proxy.fault_of(Request(self.command, self.path, self.headers["Mirrorgate-Producer-Sequence"]))
            answer = self._forward(body) if fault in (Fault.LOST, Fault.FAILED, Held.ANSWERED) else None
            if isinstance(fault, Held):
                proxy.held.set()
                proxy.release.wait(60)
            if fault in (Fault.LOST, Fault.DROPPED, Held.LOST):
                self.close_connection = True
            elif fault in _REJECTIONS:
                status, code, headers = _REJECTIONS[fault]
                self.answer(status, json.dumps({"code": code, "detail": "as the test says"}).encode(), **headers)
            else:
                answer = answer or self._forward(body)
                self.answer(answer.status_code, answer.content, **_passed_on(answer.headers.items()))
            if isinstance(fault, Held):
                proxy.passed.set()

        def _forward(self, body: bytes) -> httpx.Response:
            headers = _passed_on(self.headers.items())
            return _TO_GATEWAYS.request(self.command, gateway + self.path, content=body, headers=headers)

    with serving(Handler) as proxy.url:
        try:
            yield proxy
        finally:
            proxy.release.set()


def _passed_on(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _OF_ONE_CONNECTION}


@contextmanager
def dropping_proxy(gateway: str) -> Iterator[FaultyProxy]:
    """Yield a proxy that loses the first answer to each request."""
    with faulty_proxy(gateway) as proxy:
        proxy.usual = lambda request: Fault.LOST if proxy.seen[request] == 1 else Fault.NONE
        yield proxy


def kill_while_held(
    gateway: str, number: int, kind: Held, start: Callable[[str], "AbstractContextManager[subprocess.Popen[Any]]"]
) -> None:
    """Kill a process that sends to the given address while the POST of this number is held; then let that pass."""
    with faulty_proxy(gateway, *[Fault.NONE] * (number - 1), kind) as proxy, start(proxy.url) as process:
        assert proxy.held.wait(60)
        process.kill()
        process.communicate()
        proxy.release.set()
        assert proxy.passed.wait(60)
