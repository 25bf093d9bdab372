"""Answers of other services: each reader stops at its limit while the service goes on sending."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field

import httpx
import pytest
from pydantic import SecretStr

from app import bounded_answers
from app.api.alerting import Webhook
from app.api.auth.oidc import discovered, issuer_client
from app.bounded_answers import UnusableAnswer, bounded_answer
from app.fabric.transport import Transport
from mirrorgate.errors import TemporarilyUnavailable
from mirrorgate_bridge.kafka.registry import SchemaRegistry
from tests.support.http.stand_in import StandIn, serving

BLOCK = b" " * 2**20
BLOCKS = 512
ENOUGH = 64
"""Blocks after which every reader has had enough, with room for what the sockets hold."""


@dataclass
class Endless:
    """A server whose answers have half a gigabyte; `sent` has the blocks that each answer got rid of."""

    url: str = ""
    sent: list[int] = field(default_factory=list)


@pytest.fixture
def endless() -> Iterator[Endless]:
    found = Endless()

    class Handler(StandIn):
        def respond(self) -> None:
            self.body()
            found.sent.append(0)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(BLOCK) * BLOCKS))
            self.end_headers()
            self.close_connection = True
            with suppress(ConnectionError):
                for _ in range(BLOCKS):
                    self.wfile.write(BLOCK)
                    found.sent[-1] += 1

    with serving(Handler) as found.url:
        yield found


class Token:
    """A token that no service asks about."""

    def get(self, *, renewed: bool = False) -> str:
        """Return it."""
        return "token"


def of_a_registry(url: str) -> None:
    with closing(SchemaRegistry(url)) as registry:
        registry.schema(1)


def of_an_issuer(url: str) -> None:
    with issuer_client() as client:
        discovered(client, url)


def of_fabric(url: str) -> None:
    with closing(Transport(url, Token(), patience=0)) as transport:
        transport.send("GET", "workspaces")


def of_an_alert(url: str) -> None:
    Webhook(SecretStr(url), None).send({})


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (of_a_registry, TemporarilyUnavailable),
        (of_an_issuer, UnusableAnswer),
        (of_fabric, TemporarilyUnavailable),
        (of_an_alert, None),
    ],
)
def test_no_answer_is_read_beyond_its_limit(
    endless: Endless, read: Callable[[str], None], error: type[Exception] | None
) -> None:
    if error is None:
        read(endless.url)
    else:
        with pytest.raises(error, match="larger than"):
            read(endless.url)
    assert endless.sent
    assert max(endless.sent) < ENOUGH


@pytest.mark.parametrize(("size", "fits"), [(0, True), (100, True), (101, False)])
def test_an_answer_has_its_limit_and_no_byte_more(size: int, fits: bool) -> None:
    class Handler(StandIn):
        def respond(self) -> None:
            self.answer(201, b"x" * size, X_Encoding=self.headers["Accept-Encoding"])

    with serving(Handler) as url, httpx.Client() as client:
        if fits:
            answer = bounded_answer(client, "GET", url, max_bytes=100)
            assert (answer.status_code, answer.content, answer.headers["X-Encoding"]) == (201, b"x" * size, "identity")
        else:
            with pytest.raises(UnusableAnswer, match="larger than 100 bytes"):
                bounded_answer(client, "GET", url, max_bytes=100)


def test_an_answer_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(StandIn):
        def respond(self) -> None:
            self.answer(200, b"x")

    monkeypatch.setattr(bounded_answers, "MAX_SECONDS", -1.0)
    with serving(Handler) as url, httpx.Client() as client, pytest.raises(httpx.ReadTimeout, match="too long"):
        bounded_answer(client, "GET", url, max_bytes=100)


def test_a_compressed_answer_is_not_unfolded() -> None:
    class Handler(StandIn):
        def respond(self) -> None:
            self.answer(200, gzip.compress(BLOCK), Content_Encoding="gzip")

    with serving(Handler) as url, httpx.Client() as client, pytest.raises(UnusableAnswer, match="compressed"):
        bounded_answer(client, "GET", url, max_bytes=2**21)
