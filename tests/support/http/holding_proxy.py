"""A proxy in front of a real gateway that holds one request, so that a test can kill the sender at that moment."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.support.http.stand_in import ForwardingStandIn, serving


class Held(StrEnum):
    """What happens to the request that is held."""

    LOST = "lost"
    IN_FLIGHT = "in_flight"
    """It reaches the gateway when it is released, whether or not the sender still lives."""
    ANSWERED = "answered"
    """It has reached the gateway; only the answer is held."""


@dataclass
class HoldingProxy:
    """`held` is set once the request has arrived; `release` lets it pass, and `passed` is set afterwards."""

    url: str = ""
    held: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    passed: threading.Event = field(default_factory=threading.Event)


@contextmanager
def holding_proxy(gateway: str, number: int, kind: Held) -> Iterator[HoldingProxy]:
    """Hold the POST of this number, from 1, and pass everything else on."""
    proxy = HoldingProxy()
    posts = 0

    class Handler(ForwardingStandIn):
        target = gateway

        def respond(self) -> None:
            nonlocal posts
            body = self.body()
            posts += self.command == "POST"
            if self.command != "POST" or posts != number:
                self.pass_back(self.forward(body))
                return
            response = self.forward(body) if kind is Held.ANSWERED else None
            proxy.held.set()
            proxy.release.wait(60)
            if kind is Held.LOST:
                self.close_connection = True
            else:
                self.pass_back(response or self.forward(body))
            proxy.passed.set()

    with serving(Handler) as proxy.url:
        try:
            yield proxy
        finally:
            proxy.release.set()


def kill_while_held(
    gateway: str, number: int, kind: Held, start: Callable[[str], "AbstractContextManager[subprocess.Popen[Any]]"]
) -> None:
    """Kill a process that sends to the given address while the POST of this number is held; then let that pass."""
    with holding_proxy(gateway, number, kind) as proxy, start(proxy.url) as process:
        assert proxy.held.wait(60)
        process.kill()
        process.communicate()
        proxy.release.set()
        assert proxy.passed.wait(60)
