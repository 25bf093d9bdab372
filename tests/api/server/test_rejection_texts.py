"""Rejections name the thing that is wrong: parameter, member, column, type and table."""

from typing import Final

import pytest

from mirrorgate.errors.site import page_of_code
from tests.api.calls import ADMIN_KEY, Gateway, insert, problem

COLUMN = {"name": "id", "type": "int64", "nullable": False}
JSON: Final = ("Content-Type", "application/json")


@pytest.fixture
def tables(gateway: Gateway) -> Gateway:
    for name in ("t", "u"):
        gateway.register(name, {"id": "int64", "n": "int32"}, ["id"]).raise_for_status()
    return gateway


def test_an_unknown_query_parameter_is_named(tables: Gateway) -> None:
    details = problem(tables.arcion(insert("t", id="1"), dryrun="true"), 400, "bad_request")
    assert details["detail"].startswith("unknown query parameter `dryrun`; known: dry_run, ")
    long = problem(tables.arcion(insert("t", id="1"), **{"x" * 500 + "\n": "1"}), 400, "bad_request")
    assert len(long["detail"]) < 250
    assert "\n" not in long["detail"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "what"),
    [
        ("POST", "/v1/changes/rows?table=t&dry_run=true&dry_run=false", [], "the parameter `dry_run`"),
        ("POST", "/v1/changes/rows?table=t&table=u", [], "the parameter `table`"),
        ("DELETE", "/v1/tables/t?generation=1&generation=2", [], "the parameter `generation`"),
        (
            "POST",
            "/v1/changes/rows?table=t",
            [("Idempotency-Key", "a"), ("Idempotency-Key", "b")],
            "the header `Idempotency-Key`",
        ),
    ],
)
def test_what_is_given_twice_is_named_and_nothing_is_done(
    tables: Gateway, method: str, path: str, headers: list[tuple[str, str]], what: str
) -> None:
    answer = tables.request(method, path, content=b'{"id":1,"n":1}', headers=[*headers, JSON])
    assert problem(answer, 400, "bad_request")["detail"] == f"{what} is given twice; give it once"
    assert [tables.status(name)["last_sequence"] for name in ("t", "u")] == [0, 0]
    assert tables.status("t")["state"] == "active"


def test_an_unknown_query_parameter_is_rejected_before_a_table_is_changed(tables: Gateway) -> None:
    asked = {"generation": "1", "recreate": "true"}
    details = problem(tables.request("DELETE", "/v1/tables/t", params=asked), 400, "bad_request")
    assert details["detail"] == "unknown query parameter `recreate`; known: generation"
    assert tables.get("/v1/tables/t").json()["state"] == "active"
    body = {"columns": [COLUMN], "key_columns": ["id"]}
    problem(tables.put("/v1/tables/v", json=body, params={"dryrun": "true"}), 400, "bad_request")
    problem(tables.get("/v1/tables/v"), 404, "unknown_table")
    details = problem(tables.get("/v1/keys", params={"page": "2"}), 400, "bad_request")
    assert details["detail"] == "unknown query parameter `page`; known: none"


def test_a_wrong_type_names_its_column(gateway: Gateway) -> None:
    columns = [COLUMN, {"name": "x", "type": "int17"}]
    details = problem(gateway.put("/v1/tables/t", json={"columns": columns}), 422, "bad_type")
    [error] = details["errors"]
    assert (error["pointer"], error["column"]) == ("/columns/1/type", "x")
    assert details["detail"] == "unknown column type `int17`, column x"


def test_a_missing_generation_is_told_where_to_read_it(tables: Gateway) -> None:
    details = problem(tables.post("/v1/tables/t/pause"), 400, "bad_request")
    assert details["detail"] == "query parameter generation: is missing"
    assert "GET /v1/tables/{table}" in details["remedy"]


NO_JSON: Final = [
    (b'{"id": NaN}', "send null, or a string for a column of floats"),
    (b'[{"id": 1}, {"id": -Infinity}]', "send null"),
    (b'{"id": None}', "null, true and false"),
    (b"{'id': 1}", "double quotes"),
    (b'[{"id": 1},]', "no comma after the last value"),
    (b'{"id": 1 ,\n }', "no comma after the last value"),
    (b'{"id": 1,,}', "no comma after the last value"),
]
NO_COMMA: Final = [b'{"id": 1.}', b'{"id":}', b'{"id": 1e}', b'{"s": "\\u12"}', b'[{"id": 1}, {"id":}]']


def test_what_programs_write_as_json_is_told_what_json_has(tables: Gateway) -> None:
    for body, advice in NO_JSON:
        assert advice in problem(tables.body("rows", body, table="t"), 400, "malformed_json")["detail"], body
    for body in NO_COMMA:
        assert "comma" not in problem(tables.body("rows", body, table="t"), 400, "malformed_json")["detail"], body


def test_a_wrong_value_names_table_column_and_type(tables: Gateway) -> None:
    messages = [insert("t", id="1", n="x"), insert("u", id="1", n="y")]
    details = problem(tables.arcion(*messages), 422, "bad_value")
    assert [(error["table"], error["column"], error["index"]) for error in details["errors"]] == [
        ("t", "n", 0),
        ("u", "n", 1),
    ]
    assert all("(int32)" in error["detail"] for error in details["errors"])
    assert details["detail"].endswith(", column n")


def test_a_message_that_cannot_be_completed_names_its_table(tables: Gateway) -> None:
    tables.put("/v1/tables/t", json={"options": {"partial_updates": "complete"}}).raise_for_status()
    update = insert("t") | {"opType": "U", "before": {"id": "9"}, "exists": {"id": "2", "n": "0"}}
    update["after"] = {"id": "null", "n": "null"}
    [error] = problem(tables.arcion(update), 422, "incomplete_update")["errors"]
    assert (error["table"], error["column"]) == ("t", "n")


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", ""])
@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/v1/tables/t"), ("POST", "/v1/keys"), ("POST", "/v1/changes/arcion")]
)
def test_a_json_body_that_is_declared_as_something_else_is_415_everywhere(
    gateway: Gateway, method: str, path: str, content_type: str
) -> None:
    answer = gateway.request(method, path, content=b'{"columns": []}', headers={"Content-Type": content_type})
    details = problem(answer, 415, "unsupported_media_type")
    assert "Content-Type: application/json" in details["remedy"]


def test_a_body_is_ignored_where_the_contract_has_none(tables: Gateway) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    calls = [("GET", "/healthz"), ("GET", "/v1/tables/t"), ("POST", "/v1/tables/t/pause?generation=1")]
    assert [tables.request(*call, content=b"a=b", headers=form).status_code for call in calls] == [200] * 3


def test_a_json_body_without_a_type_is_read_everywhere(gateway: Gateway) -> None:
    body = b'{"key_columns": ["id"], "columns": [{"name": "id", "type": "int64", "nullable": false}]}'
    assert gateway.put("/v1/tables/t", content=body).status_code == 201


def test_a_key_without_its_scheme_is_told_what_is_missing(anonymous: Gateway) -> None:
    details = problem(anonymous.get("/v1/tables", headers={"Authorization": ADMIN_KEY}), 401, "unauthenticated")
    assert details["detail"] == "the Authorization header lacks `Bearer ` before the key"


def test_the_type_of_a_problem_names_its_code(anonymous: Gateway) -> None:
    assert anonymous.get("/v1/nothing").json()["type"] == page_of_code("not_found")


@pytest.mark.parametrize(
    ("call", "body", "detail"),
    [
        ("POST /v1/keys", {"rights": ["read"], "name": " k"}, "name: must not be empty, and must have no control char"),
        (
            "POST /v1/keys",
            {"rights": ["read"], "tables": [""]},
            "tables.0: must not be empty, and must have no control",
        ),
        (
            "GET /v1/audit?subject=%01",
            None,
            "query parameter subject: must not be empty, and must have no control char",
        ),
        (
            "PUT /v1/layouts/L",
            {"data": "a", "operation": "b"},
            "path parameter name: must not be empty, and must have at ",
        ),
        (
            "POST /v1/changes/arcion?partition=a%20b",
            {},
            "query parameter partition: must not be empty, and must have vis",
        ),
        (
            "POST /v1/tables/t/checks",
            {"rows": {"zz": {}}},
            "zz: must not be empty, and must have at most 4 of 0-9 and a-f",
        ),
    ],
)
def test_a_text_of_other_characters_is_told_in_words_which_ones_it_can_have(
    tables: Gateway, call: str, body: dict[str, object] | None, detail: str
) -> None:
    method, path = call.split()
    details = problem(tables.request(method, path, json=body), 400, "bad_request")
    assert details["detail"].startswith(detail)
    assert "[key]" not in str(details)


def test_a_number_in_place_of_a_text_is_called_a_number(tables: Gateway) -> None:
    for value in (b"1.5", b"1e400"):
        body = b'{"headers": {"operation": ' + value + b'}, "data": {"id": 1}}'
        details = problem(tables.body("replicate", body, table="t"), 422, "malformed_message")
        assert details["detail"] == "Expected `str`, got `number`"


def test_a_body_is_an_object_or_left_out(gateway: Gateway) -> None:
    key = gateway.new_key("read")["id"]
    assert gateway.post(f"/v1/keys/{key}/rotate").status_code == 200
    details = problem(gateway.request("POST", f"/v1/keys/{key}/rotate", content=b"null"), 400, "bad_request")
    assert details["detail"] == "the body: must be a JSON object"


def test_a_wrong_entry_of_a_list_is_named_with_its_list(gateway: Gateway) -> None:
    answer = gateway.request("POST", "/v1/keys", json={"name": "k", "rights": ["read", "write"]})
    details = problem(answer, 400, "bad_request")
    assert details["detail"].startswith("rights.1: must be 'ingest', ")
    assert [one["pointer"] for one in details["errors"]] == ["/rights/1"]
