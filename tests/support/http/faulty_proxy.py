"""A proxy in front of a real gateway that spoils the posts that a test names, each in its own way."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from tests.support.http.stand_in import ForwardingStandIn, serving


class Fault(StrEnum):
    """What happens to a post."""

    NONE = "none"
    LOST = "lost"
    """The gateway carries it out; its answer is lost."""
    DROPPED = "dropped"
    """The connection breaks before the gateway sees it."""
    BUSY = "busy"
    """It is answered with 503, and the gateway does not see it."""
    TOO_MUCH = "too_much"
    """It is answered with 429 and a time to wait."""
    FAILED = "failed"
    """The gateway carries it out, and it is answered with 500."""


@dataclass
class FaultyProxy:
    """Takes the fault of each post from `faults`, the first one first; without any left, posts pass."""

    faults: list[Fault] = field(default_factory=list)
    posts: int = 0
    url: str = ""


@contextmanager
def faulty_proxy(gateway: str) -> Iterator[FaultyProxy]:
    """Yield a proxy in front of the gateway at this address."""
    proxy = FaultyProxy()

    class Handler(ForwardingStandIn):
        target = gateway

        def respond(self) -> None:
            body = self.body()
            fault = Fault.NONE
            if self.command == "POST":
                proxy.posts += 1
                fault = proxy.faults.pop(0) if proxy.faults else Fault.NONE
            match fault:
                case Fault.NONE:
                    self.pass_back(self.forward(body))
                case Fault.LOST:
                    self.forward(body)
                    self.close_connection = True
                case Fault.DROPPED:
                    self.close_connection = True
                case Fault.BUSY:
                    self._reject(503, "database_unavailable")
                case Fault.TOO_MUCH:
                    self._reject(429, "rate_limited", Retry_After="7")
                case Fault.FAILED:
                    self.forward(body)
                    self._reject(500, "internal")

        def _reject(self, status: int, code: str, **headers: str) -> None:
            self.answer(status, json.dumps({"code": code, "detail": "as the test says"}).encode(), **headers)

    with serving(Handler) as proxy.url:
        yield proxy
