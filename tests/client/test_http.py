"""The client of a gateway waits longer only for the answers that take long."""

import httpx
import pytest

from mirrorgate import http
from mirrorgate.http import ANSWER_SECONDS, GatewayClient


def test_a_long_answer_does_not_lengthen_the_wait_for_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return httpx.Response(200, json={})

    options = http.options_of("http://gateway", "key", None) | {"transport": httpx.MockTransport(answer)}
    monkeypatch.setattr(http, "options_of", lambda *_: options)
    with GatewayClient("http://gateway", "key") as client:
        client.post("/v1/tables/orders/checks", {}, answer_seconds=3_600.0)
    assert seen == [{"connect": ANSWER_SECONDS, "read": 3_600.0, "write": ANSWER_SECONDS, "pool": ANSWER_SECONDS}]
