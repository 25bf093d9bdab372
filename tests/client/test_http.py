"""The client of a gateway: how long it waits for an answer, and what an answer of a proxy means."""

import httpx
import pytest

from mirrorgate import http
from mirrorgate.errors import Code
from mirrorgate.http import ANSWER_SECONDS, GatewayClient, RejectedByGateway, checked


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


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [(413, Code.BODY_TOO_LARGE, "limit of the proxy"), (502, Code.INTERNAL, "log of the proxy")],
)
def test_an_error_page_of_a_proxy_is_not_taken_for_an_answer_of_the_gateway(
    status: int, code: Code, remedy: str
) -> None:
    with pytest.raises(RejectedByGateway, match=f"a proxy answered {status} in place of the gateway") as error:
        checked(httpx.Response(status, html="<h1>No</h1>"))
    assert (error.value.code, error.value.status) == (code, status)
    assert remedy in str(error.value.remedy)
