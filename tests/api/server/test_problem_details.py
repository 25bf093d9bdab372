"""Every rejection is problem details, including those of the framework, the server and a crash."""

import asyncio
import json
import socket

import httpx
import pytest
from httpx import URL

from app.api.application import create_app
from app.settings import Settings
from mirrorgate.errors import Code
from tests.api.calls import Gateway, insert, problem
from tests.api.conftest import ClientWith

CANARY = "canary7391"


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/tables/", "/v1/tables/t/", "/v1//tables"])
def test_a_path_that_is_not_there_is_not_found_and_never_redirected(gateway: Gateway, path: str) -> None:
    problem(gateway.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
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
    ("path", "content", "status", "code"),
    [
        ("/v1/tables/t", b"{", 400, "malformed_json"),
        ("/v1/tables/t", b"[]", 400, "bad_request"),
        ("/v1/tables/t", b'{"columns": 1, "colour": "red"}', 400, "bad_request"),
        ("/v1/tables/t", b'{"options": {"partial_updates": "maybe"}}', 422, "bad_option"),
    ],
)
def test_a_body_that_the_framework_finds_wrong_is_rejected_like_any_other(
    gateway: Gateway, path: str, content: bytes, status: int, code: str
) -> None:
    details = problem(gateway.put(path, content=content, headers={"Content-Type": "application/json"}), status, code)
    assert details["errors_total"] == len(details["errors"]) > 0


def test_a_body_that_is_no_json_by_its_type_is_rejected(gateway: Gateway) -> None:
    response = gateway.put("/v1/tables/t", content=b'{"columns": []}', headers={"Content-Type": "text/plain"})
    problem(response, 415, "unsupported_media_type")


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


def test_the_callers_own_request_id_is_in_the_problem(gateway: Gateway) -> None:
    response = gateway.arcion(insert("nowhere", id="1"), table=None)
    problem(response, 404, "unknown_table")
    named = gateway.get("/v1/tables/t", headers={"X-Request-Id": "from-the-caller.7"})
    assert problem(named, 404, "unknown_table")["request_id"] == "from-the-caller.7"
    odd = gateway.get("/v1/tables/t", headers={"X-Request-Id": 'no "sane" id'})
    assert "sane" not in problem(odd, 404, "unknown_table")["request_id"]


def test_a_rejected_key_is_told_the_schemes(anonymous: Gateway, client_with: ClientWith) -> None:
    response = anonymous.get("/v1/tables")
    problem(response, 401, "unauthenticated")
    assert (
        response.headers["www-authenticate"] == 'Bearer realm="mirrorgate", Basic realm="mirrorgate", charset="UTF-8"'
    )
    problem(client_with("ingest").get("/v1/tables"), 403, "forbidden")


def test_a_crash_is_an_internal_problem_that_tells_nothing_of_its_cause() -> None:
    app = create_app(Settings())

    @app.get("/crash")
    def crash() -> None:
        raise ValueError(CANARY)

    async def call() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            return await client.get("http://gateway/crash")

    response = asyncio.run(call())
    problem(response, 500, "internal")
    assert not [word for word in (CANARY, "Traceback", "ValueError", __file__) if word in response.text]


def test_every_code_has_a_meaning_and_a_remedy_in_whole_sentences() -> None:
    for code in Code:
        for sentence in (code.meaning, code.remedy):
            assert sentence[0].isupper() or sentence.startswith("`"), code
            assert sentence.endswith("."), code
