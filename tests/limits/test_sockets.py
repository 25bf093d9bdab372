"""Malformed requests over raw connections end there, and nothing of them is staged."""

import json
from collections.abc import Iterator

import pytest

from app.api.server import http_protocol
from tests.api.calls import ADMIN_KEY, Gateway, insert
from tests.limits.conftest import Serve
from tests.support.http.raw_http import RawAnswer, RawClient, chunk, connected, head, request

PATH = "/v1/changes/arcion"
BODY = json.dumps([insert("t", id="1"), insert("t", id="2")]).encode()
CHUNKED = "Transfer-Encoding: chunked"


@pytest.fixture
def client(gateway: Gateway) -> Iterator[RawClient]:
    with connected(gateway.address) as client:
        yield client


def staged(gateway: Gateway) -> int:
    return int(gateway.status("t")["staged"]["rows"])


def assert_goes_on(gateway: Gateway) -> None:
    """Another caller is served."""
    before = staged(gateway)
    assert gateway.arcion(insert("t", id="3")).status_code == 202
    assert staged(gateway) == before + 1


def test_a_body_that_ends_before_its_length_is_not_staged(gateway: Gateway) -> None:
    with connected(gateway.address) as client:
        client.send(head(PATH, ADMIN_KEY, f"Content-Length: {len(BODY) + 1}") + BODY)
    assert staged(gateway) == 0
    assert_goes_on(gateway)


@pytest.mark.parametrize(
    ("headers", "status"),
    [([f"Content-Length: {len(BODY)}"], 202), ([f"Content-Length: {len(BODY) - 10}"], 400), ([], 422)],
    ids=["a whole body", "a body cut short", "no body"],
)
def test_bytes_beyond_the_length_are_no_part_of_the_request(
    gateway: Gateway, client: RawClient, headers: list[str], status: int
) -> None:
    client.send(head(PATH, ADMIN_KEY, *headers) + BODY + b"[]\r\n\r\n")
    assert [client.answer().status for _ in range(2)] == [status, 400]  # of the request, and of what is none
    assert client.is_closed()
    assert staged(gateway) == (2 if status == 202 else 0)
    assert_goes_on(gateway)


@pytest.mark.parametrize(
    "ending", [b"GET ?", b"X: y" * http_protocol.MAX_HEAD_BYTES, head(PATH, ADMIN_KEY, CHUNKED) + b"zz\r\n"]
)
def test_what_is_no_request_is_answered_after_those_before_it(
    gateway: Gateway, client: RawClient, ending: bytes
) -> None:
    client.send(request(PATH, ADMIN_KEY, BODY) * 3 + ending)
    assert [client.answer().status for _ in range(3)] == [202] * 3
    assert client.answer().status in {400, 431}
    assert client.is_closed()
    assert staged(gateway) == 6


@pytest.mark.parametrize(
    "headers",
    [
        [f"Content-Length: {len(BODY)}", CHUNKED],
        [CHUNKED, f"Content-Length: {len(BODY)}"],
        [f"Content-Length: {len(BODY)}", "Content-Length: 1"],
        ["Content-Length: -1"],
        ["Content-Length: +5"],
        ["Content-Length: 5x"],
        ["Content-Length: 99999999999999999999999999"],
        ["Transfer-Encoding: chunked, gzip"],
        ["Transfer-Encoding: gzip"],
        [CHUNKED, "Transfer-Encoding: chunked"],
    ],
)
def test_a_body_without_one_clear_length_is_rejected(gateway: Gateway, client: RawClient, headers: list[str]) -> None:
    client.send(head(PATH, ADMIN_KEY, *headers) + chunk(BODY) + b"0\r\n\r\n")
    assert client.answer().status == 400
    assert client.is_closed()
    assert staged(gateway) == 0
    assert_goes_on(gateway)


@pytest.mark.parametrize(
    "body",
    [
        b"".join(chunk(BODY[at : at + 1]) for at in range(len(BODY))) + b"0\r\n\r\n",
        b"%X;name=value\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
        b"000%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
        chunk(BODY) + b"0\r\nX-Trailer: 1\r\n\r\n",
    ],
    ids=["one byte each", "an extension", "leading zeros", "a trailer"],
)
def test_a_chunked_body_is_read_whole(gateway: Gateway, client: RawClient, body: bytes) -> None:
    client.send(head(PATH, ADMIN_KEY, CHUNKED) + body)
    assert client.answer().status == 202
    assert staged(gateway) == 2


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\n" + BODY,
        b"-1\r\n" + BODY,
        b"ffffffffffffffffff\r\n" + BODY,
        b"%x\r\n%sxx0\r\n\r\n" % (len(BODY), BODY),
        chunk(BODY) + b"\r\n0\r\n\r\n",
    ],
    ids=["no number", "negative", "too large a number", "no line end", "an empty size"],
)
def test_a_wrongly_chunked_body_is_rejected(gateway: Gateway, client: RawClient, body: bytes) -> None:
    client.send(head(PATH, ADMIN_KEY, CHUNKED) + body)
    assert client.answer().status == 400
    assert client.is_closed()
    assert staged(gateway) == 0
    assert_goes_on(gateway)


def test_a_chunked_body_that_is_broken_off_is_not_staged(gateway: Gateway) -> None:
    with connected(gateway.address) as client:
        client.send(head(PATH, ADMIN_KEY, CHUNKED) + chunk(BODY))
    assert staged(gateway) == 0
    assert_goes_on(gateway)


def test_requests_in_one_packet_are_answered_one_after_the_other(gateway: Gateway, client: RawClient) -> None:
    bodies = [json.dumps(insert("t", id=str(key))).encode() for key in range(5)]
    wrong = request(PATH, ADMIN_KEY, b"[")
    client.send(b"".join(request(PATH, ADMIN_KEY, body) for body in bodies[:3]) + wrong)
    client.send(b"".join(request(PATH, ADMIN_KEY, body) for body in bodies[3:]))
    answers = [client.answer() for _ in range(6)]
    assert [answer.status for answer in answers] == [202, 202, 202, 400, 202, 202]
    assert [receipt["sequence"] for answer in answers for receipt in receipts(answer)] == [1, 2, 3, 4, 5]


def receipts(answer: RawAnswer) -> list[dict[str, int]]:
    return answer.json().get("receipts", [])  # type: ignore[no-any-return]  # JSON


def test_a_caller_that_closes_its_half_gets_the_answers_to_its_whole_requests(gateway: Gateway) -> None:
    """As `nc -N` does. What is cut off is no request."""
    with connected(gateway.address) as client:
        client.send(request(PATH, ADMIN_KEY, b"[") + request(PATH, ADMIN_KEY, BODY))
        client.end_of_sending()
        assert [client.answer().status, client.answer().status] == [400, 202]
        assert client.is_closed()
    with connected(gateway.address) as client:
        client.send(request(PATH, ADMIN_KEY, BODY)[:-1])
        client.end_of_sending()
        assert client.is_closed()
    assert staged(gateway) == 2
    assert_goes_on(gateway)


def test_a_caller_that_asks_first_is_told_to_go_on(client: RawClient) -> None:
    assert client.asks(PATH, ADMIN_KEY, len(BODY)) == 100
    client.send(BODY)
    assert client.answer().status == 202


def test_a_caller_that_asks_first_need_not_send_what_will_be_rejected(client: RawClient) -> None:
    client.send(head(PATH, ADMIN_KEY, f"Content-Length: {2**40}", "Expect: 100-continue"))
    answer = client.answer()
    assert (answer.status, answer.json()["code"]) == (413, "body_too_large")


ENDLESS = b"x" * (http_protocol.MAX_HEAD_BYTES + 2**18)


@pytest.mark.parametrize(
    "content",
    [
        b"GET /" + ENDLESS,
        b"GET / HTTP/1.1\r\nHost: gateway\r\nX-Header: " + ENDLESS,
        b"GET / HTTP/1.1\r\nHost: gateway\r\n" + b"X-Header: 1\r\n" * 40_000,
        head(PATH, ADMIN_KEY, CHUNKED) + b"1;" + ENDLESS,
        head(PATH, ADMIN_KEY, CHUNKED) + b"0\r\nX-Trailer: " + ENDLESS,
    ],
    ids=["a path", "a header", "many headers", "a chunk extension", "a trailer"],
)
def test_what_belongs_to_no_body_may_not_go_on_for_ever(gateway: Gateway, client: RawClient, content: bytes) -> None:
    try:
        client.send(content)
        answer = client.answer()
    except (ConnectionResetError, BrokenPipeError, AssertionError):
        pass  # it was closed while it was sent
    else:
        assert answer.status in {400, 431}
        assert client.is_closed()
    assert staged(gateway) == 0
    assert_goes_on(gateway)


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET /healthz HTTP/1.1\r\nHost: gateway\r\nX-Header"])
def test_a_head_that_does_not_come_in_time_ends_the_connection(
    serve: Serve, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "MAX_HEAD_SECONDS", 0.1)
    gateway = serve()
    with connected(gateway.address) as client:
        client.send(begun)
        assert client.is_closed()
    assert_goes_on(gateway)


@pytest.mark.parametrize(
    "settings",
    [
        {"body_grace_seconds": 0.2, "min_body_rate": 10**9},
        {"body_grace_seconds": 60, "body_seconds": 0.2},
    ],
    ids=["too slow", "too long"],
)
@pytest.mark.parametrize(("path", "method"), [(PATH, "POST"), ("/v1/tables/t", "PUT")], ids=["changes", "a table"])
def test_half_a_body_is_rejected_in_the_end_and_harms_no_other_caller(
    serve: Serve, settings: dict[str, float], path: str, method: str
) -> None:
    gateway = serve(**settings)
    with connected(gateway.address) as client:
        client.send(head(path, ADMIN_KEY, f"Content-Length: {len(BODY)}", method=method) + BODY[:50])
        assert_goes_on(gateway)
        answer = client.answer()
        assert (answer.status, answer.json()["code"]) == (408, "request_timeout")
        assert answer.headers["connection"] == "close"
        assert client.is_closed()
    assert staged(gateway) == 1


def test_a_body_may_pause_as_long_as_it_keeps_its_rate(serve: Serve) -> None:
    gateway = serve(body_grace_seconds=20, min_body_rate=1)
    with connected(gateway.address) as client:
        client.send(head(PATH, ADMIN_KEY, f"Content-Length: {len(BODY)}") + BODY[:50])
        assert_goes_on(gateway)
        client.send(BODY[50:])
        assert client.answer().status == 202
