"""A server that answers posts of changes as a test says, and records them."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.http.stand_in import StandIn, serving

Answer = Callable[[StandIn], None]


def accepts(handler: StandIn) -> None:
    """Answer 202 with a receipt."""
    receipt = {"table": "t", "generation": 1, "sequence": 7, "changes": 1, "rows": 1}
    answer(handler, 202, {"receipts": [receipt], "ignored": 0, "duplicates": 0, "dead_letters": 0, "replayed": False})


def rejects(status: int, code: str, **headers: str) -> Answer:
    """Return an answer of problem details with this status and code."""
    return lambda handler: answer(handler, status, {"code": code, "detail": "as the test says"}, **headers)


def breaks_off(handler: StandIn) -> None:
    """End the connection without an answer."""
    handler.close_connection = True


def answer(handler: StandIn, status: int, content: Any, **headers: str) -> None:
    """Answer with this content as JSON."""
    handler.answer(status, json.dumps(content).encode(), **headers)


@dataclass
class FakeGateway:
    """Gives `answers` one by one, and then accepts every request."""

    answers: list[Answer] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    url: str = ""


@contextmanager
def fake_gateway(*answers: Answer) -> Iterator[FakeGateway]:
    """Yield a running server that gives these answers first."""
    gateway = FakeGateway(list(answers))

    class Handler(StandIn):
        def respond(self) -> None:
            gateway.bodies.append(self.body())
            gateway.keys.append(self.headers["Idempotency-Key"])
            gateway.arrived.release()
            (gateway.answers.pop(0) if gateway.answers else accepts)(self)

    with serving(Handler) as gateway.url:
        yield gateway
