"""Rejected requests, also by the framework or the server: their problem details, and that nothing is staged."""

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from mirrorgate.errors import Code
from tests.api.calls import Gateway, insert, problem
from tests.support.http.raw_http import connected
from tests.support.samples.messages import arcion, metadata

CANARY = "canary7391"


@pytest.fixture
def orders(gateway: Gateway) -> Iterator[Gateway]:
    """Give a gateway with the table `t`, of which nothing is staged when the test ends."""
    gateway.register("t", {"id": "int64", "day": "date"}, ["id"])
    yield gateway
    status = gateway.status("t")
    assert (status["last_sequence"], status["accepted"]["rows"], status["staged"]["rows"]) == (0, 0, 0)


GOOD = insert("t", id="1", day="2024-02-29")


@pytest.mark.parametrize(
    ("wrong", "status", "code", "pointer", "column"),
    [
        (insert("t", id="1", day=CANARY), 422, "bad_value", "/after/day", "day"),
        (GOOD | {"opType": CANARY}, 422, "bad_op", "/opType", None),
        (insert("nowhere", id=CANARY), 404, "unknown_table", None, None),
        (insert("_t", id=CANARY), 422, "bad_name", "/tableName", None),
    ],
)
def test_a_wrong_message_is_named_and_its_neighbours_are_not_staged(
    orders: Gateway, wrong: Any, status: int, code: str, pointer: str | None, column: str | None
) -> None:
    response = orders.arcion(GOOD, wrong)
    [error] = problem(response, status, code)["errors"]
    assert (error["index"], error.get("pointer"), error.get("column")) == (1, pointer, column)
    assert CANARY not in response.text


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 422, "empty_request"),
        (b'{"canary7391"', 400, "malformed_json"),
        (b"{}", 422, "malformed_message"),
    ],
)
@pytest.mark.parametrize("source_format", ["arcion", "replicate"])
def test_a_malformed_body_is_rejected(
    orders: Gateway, source_format: str, content: bytes, status: int, code: str
) -> None:
    response = orders.post(f"/v1/changes/{source_format}", content=content)
    problem(response, status, code)
    assert CANARY not in response.text


@pytest.mark.parametrize("table", ["", "a..b", "_t", "a/b"])
def test_a_table_parameter_that_is_no_name_is_rejected(orders: Gateway, table: str) -> None:
    response = orders.arcion(GOOD, table=table) if table else orders.arcion(insert("_", id=1), table=table)
    problem(response, 422, "bad_name")


def test_the_first_hundred_problems_are_listed_and_all_are_counted(orders: Gateway) -> None:
    details = problem(orders.arcion(*[insert("t", id=CANARY, day="null")] * 150), 422, "bad_value")
    assert [error["index"] for error in details["errors"]] == list(range(100))
    assert details["errors_total"] == 150


def test_problems_of_several_tables_come_in_the_order_of_the_messages(orders: Gateway) -> None:
    details = problem(
        orders.arcion(insert("t", id="x"), insert("nowhere", id="1"), insert("t", id="y")), 422, "bad_value"
    )
    assert [(error["index"], error["code"]) for error in details["errors"]] == [
        (0, "bad_value"),
        (1, "unknown_table"),
        (2, "bad_value"),
    ]


LONG = "x" * 9_000


@pytest.mark.parametrize("name", ["schemaId", "lineage/server", "lineage/task"])
def test_a_text_of_metadata_beyond_its_bound_is_rejected_with_its_place(gateway: Gateway, name: str) -> None:
    message = metadata("hr.employees", {"id": "INT8"})
    within, _, key = name.rpartition("/")
    (message["message"][within] if within else message["message"])[key] = LONG
    [error] = problem(gateway.replicate(message), 422, "unstorable")["errors"]
    assert (error["index"], error["pointer"]) == (0, f"/message/{name}")
    assert "255" in error["detail"]


def test_a_catalog_beyond_its_bound_is_rejected(orders: Gateway) -> None:
    [error] = problem(orders.arcion(arcion("t", None, {"id": "1"}, catalog=LONG)), 422, "bad_name")["errors"]
    assert "255" in error["detail"]


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
    with capture_logs() as logs, connected(gateway.address) as connection:
        connection.send(content)
        answer = connection.answer()
        assert connection.is_closed()
        assert gateway.get("/healthz").status_code == 200
    # The application answers a request whose body turns out to be invalid a second time.
    assert "request_crashed" not in [line["event"] for line in logs]
    details = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status, details["status"], details["code"]) == (400, 400, "bad_request")
    assert details["request_id"] == answer.headers["x-request-id"]


def test_an_upgrade_to_another_protocol_is_answered_as_the_plain_request_that_it_is(gateway: Gateway) -> None:
    response = gateway.get("/healthz", headers={"Connection": "upgrade", "Upgrade": "websocket"})
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_every_code_has_a_meaning_and_a_remedy_in_whole_sentences() -> None:
    for code in Code:
        for sentence in (code.meaning, code.remedy):
            assert sentence[0].isupper() or sentence.startswith("`"), code
            assert sentence.endswith("."), code
