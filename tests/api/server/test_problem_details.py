"""Every rejection is problem details, including those of the framework, the server and a crash."""

import json
import socket

import pytest
from httpx import URL

from mirrorgate.errors import Code
from tests.api.calls import Gateway, problem


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1", "/v2/tables", "/v1/tables/", "/v1/tables/t/", "/v1/tables/a/b/c", "/v1//tables"]
)
def test_a_path_that_is_not_there_is_not_found_and_never_redirected(gateway: Gateway, path: str) -> None:
    problem(gateway.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/tables", "GET"),
        ("PATCH", "/v1/tables/t", "DELETE, GET, PUT"),
        ("OPTIONS", "/v1/keys", "GET, POST"),
        ("TRACE", "/v1/changes/arcion", "POST"),
        ("PROPFIND", "/healthz", "GET"),
        ("POST", "/openapi.json", "GET, HEAD"),
    ],
)
def test_another_method_is_rejected_with_all_that_the_path_has(
    gateway: Gateway, method: str, path: str, allowed: str
) -> None:
    response = gateway.request(method, path)
    problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == allowed


def test_a_head_is_rejected_without_a_body_like_any_method_that_is_not_there(gateway: Gateway) -> None:
    response = gateway.head("/v1/tables")
    assert (response.status_code, response.headers["allow"], response.content) == (405, "GET", b"")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"]


@pytest.mark.parametrize(
    "content",
    [
        b"NONSENSE\r\n\r\n",
        b"GET /v1/tables\x00 HTTP/1.1\r\n\r\n",
        b"GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/keys HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/keys HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n",
        b"CONNECT there:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_no_http_is_rejected_with_problem_details_and_the_connection_closed(
    gateway: Gateway, content: bytes
) -> None:
    address = URL(str(gateway.base_url))
    with socket.create_connection((address.host, address.port or 80), timeout=30) as connection:
        connection.sendall(content)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
    details = json.loads(body)
    assert lines[0] == "HTTP/1.1 400 Bad Request"
    assert headers["content-type"] == "application/problem+json"
    assert int(headers["content-length"]) == len(body)
    assert (details["status"], details["code"]) == (400, "bad_request")
    assert details["request_id"] == headers["x-request-id"]


def test_an_upgrade_to_another_protocol_is_answered_as_the_plain_request_that_it_is(gateway: Gateway) -> None:
    response = gateway.get("/healthz", headers={"Connection": "upgrade", "Upgrade": "websocket"})
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_every_code_has_a_meaning_and_a_remedy_in_whole_sentences() -> None:
    for code in Code:
        for sentence in (code.meaning, code.remedy):
            assert sentence[0].isupper() or sentence.startswith("`"), code
            assert sentence.endswith("."), code
