"""A body of a known form that is sent to another endpoint is answered with the right one."""

import gzip
import json
from typing import Any, Final

import pyarrow as pa
import pytest
import zstandard

from app.api.server.request_parameters import ARROW_STREAM
from tests.api.calls import Gateway, insert, problem
from tests.support.samples.arrow_streams import stream

ROW: Final = {"id": 1, "n": "a"}
SOURCE: Final = {"db": "shop", "schema": "public", "table": "t"}


def replicate(**body: Any) -> dict[str, Any]:
    return {"data": ROW, "beforeData": None} | body


FORMS: Final[dict[str, tuple[str, Any]]] = {
    "Arcion": ("arcion", insert("t", id="1", n="a")),
    "Arcion NATIVE": ("arcion", {name: value for name, value in insert("t", id="1").items() if name != "exists"}),
    "Replicate, enveloped": (
        "replicate",
        {"magic": "atMSG", "type": "DT", "message": replicate(headers={"operation": "INSERT"})},
    ),
    "Replicate, bare": ("replicate", replicate(headers={"operation": "INSERT"})),
    "Replicate, flattened": ("replicate", replicate(headers_operation="INSERT")),
    "Replicate, without a prefix": ("replicate", {"message": replicate(operation="INSERT")}),
    "Replicate, with its key": ("replicate", {"key": {"id": 1}, "value": replicate(headers={"operation": "INSERT"})}),
    "Replicate metadata": (
        "replicate",
        {"lineage": {"table": "t"}, "tableStructure": {"tableColumns": {"id": {"ordinal": 1, "type": "INT8"}}}},
    ),
    "Debezium, with a schema": (
        "debezium",
        {"schema": {"type": "struct"}, "payload": {"before": None, "after": ROW, "op": "c", "source": SOURCE}},
    ),
    "Debezium, payload only": ("debezium", {"before": None, "after": ROW, "op": "c", "source": SOURCE, "ts_ms": 1}),
    "Debezium, a delete of Arcion": ("debezium", {"before": ROW, "after": {}, "op": "d"}),
    "Debezium, flattened": ("debezium", ROW | {"__op": "c", "__deleted": "false"}),
    "Debezium, with its key": ("debezium", {"key": {"id": 1}, "value": {"after": ROW, "op": "c", "source": SOURCE}}),
    "a plain row": ("rows", ROW | {"more": None}),
}
ENDPOINTS: Final = ("arcion", "replicate", "debezium", "rows")
GOOD: Final[dict[str, Any]] = {
    "arcion": insert("t", id="7", n="a"),
    "replicate": replicate(operation="INSERT"),
    "debezium": {"before": None, "after": ROW, "op": "c", "source": SOURCE},
    "rows": ROW,
}


@pytest.fixture
def shop(gateway: Gateway) -> Gateway:
    gateway.register("t", {"id": "int64", "n": "string"}, ["id"]).raise_for_status()
    return gateway


def post(client: Gateway, endpoint: str, body: bytes, media_type: str = "application/json") -> Any:
    return client.body(endpoint, body, media_type, table="t")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_each_form_at_each_other_endpoint_names_its_own(shop: Gateway, endpoint: str) -> None:
    for name, (own, message) in FORMS.items():
        if own == endpoint or (own, endpoint) == ("rows", "debezium"):  # with a table, a row is a flattened event
            continue
        details = problem(post(shop, endpoint, json.dumps([GOOD[endpoint], message]).encode()), 422, "wrong_endpoint")
        assert f"POST /v1/changes/{own}" in details["detail"], name
        assert f"POST /v1/changes/{own}" in details["remedy"], name
        assert [entry["index"] for entry in details["errors"]] == [1], name
    assert shop.status("t")["accepted"]["rows"] == 0


def test_a_plain_row_without_a_table_is_no_debezium_event(shop: Gateway) -> None:
    details = problem(shop.post("/v1/changes/debezium", json=[ROW]), 422, "wrong_endpoint")
    assert "POST /v1/changes/rows" in details["remedy"]
    problem(shop.post("/v1/changes/debezium", json=[ROW], params={"table": "others"}), 404, "unknown_table")


@pytest.mark.parametrize(
    ("path", "wrong", "code", "pointer"),
    [
        ("debezium?table=t", {"id": "2"}, "incomplete_update", "/n"),
        ("debezium?table=t", {"id": "2", "n": "b", "nn": "c"}, "unknown_column", "/nn"),
        ("debezium?table=t", {"n": "b"}, "missing_key", "/id"),
        ("arcion?table=t&mode=snapshot", {"id": "2", "n": "b", "nn": "c"}, "unknown_column", "/nn"),
        ("arcion?table=t&mode=snapshot", {"n": "b"}, "missing_key", "/id"),
    ],
)
def test_a_wrong_row_where_rows_are_read_gets_its_own_error(
    shop: Gateway, path: str, wrong: dict[str, Any], code: str, pointer: str
) -> None:
    [found] = problem(shop.post(f"/v1/changes/{path}", json=[{"id": "1", "n": "a"}, wrong]), 422, code)["errors"]
    assert (found["index"], found["pointer"]) == (1, pointer)


def test_json_at_the_endpoint_of_arrow_is_told_what_that_reads(shop: Gateway) -> None:
    details = problem(shop.post("/v1/changes/arrow", json=[ROW], params={"table": "t"}), 415, "unsupported_media_type")
    assert ARROW_STREAM in details["remedy"] and "POST /v1/changes/rows" in details["remedy"]


@pytest.mark.parametrize("endpoint", [*ENDPOINTS, "arrow"])
def test_a_compressed_body_without_its_header_is_told_which(shop: Gateway, endpoint: str) -> None:
    body = json.dumps(GOOD.get(endpoint, ROW)).encode()
    for encoding, content in (("gzip", gzip.compress(body)), ("zstd", zstandard.compress(body))):
        for media_type in (ARROW_STREAM,) if endpoint == "arrow" else ("application/json", "text/csv"):
            if media_type == "application/json" or endpoint in {"rows", "arrow"}:
                details = problem(post(shop, endpoint, content, media_type), 400, "bad_encoding")
                assert details["remedy"] == f"Set the header `Content-Encoding: {encoding}`."


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_array_of_arrays_is_compared_with_the_model_of_its_endpoint(shop: Gateway, endpoint: str) -> None:
    details = problem(post(shop, endpoint, b"[[1]]"), 422, "malformed_message")
    model = {"arcion": "ArcionMessage", "replicate": "ReplicateMessage", "debezium": "DebeziumMessage"}.get(endpoint)
    assert (f"`{model}`" if model else "an object of values by column name") in details["remedy"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_arrow_stream_sent_as_json_is_sent_to_an_endpoint_that_reads_it(shop: Gateway, endpoint: str) -> None:
    details = problem(post(shop, endpoint, stream(pa.table({"id": [1], "n": ["a"]}))), 422, "wrong_endpoint")
    assert "POST /v1/changes/arrow" in details["remedy"]
    assert ARROW_STREAM in details["remedy"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_csv_sent_as_json_is_told_its_content_type(shop: Gateway, endpoint: str) -> None:
    reads_csv = endpoint if endpoint in {"arcion", "rows"} else "rows"
    details = problem(post(shop, endpoint, b"id,n\n1,a\n"), 422, "wrong_endpoint")
    assert f"POST /v1/changes/{reads_csv}" in details["remedy"]
    assert "text/csv" in details["remedy"]


def test_json_sent_as_an_arrow_stream_is_told_where_it_belongs(shop: Gateway) -> None:
    for own, message in FORMS.values():
        details = problem(post(shop, "arrow", json.dumps(message).encode(), ARROW_STREAM), 422, "wrong_endpoint")
        assert f"POST /v1/changes/{own} with the content type application/json" in details["remedy"]


def test_json_sent_as_csv_is_told_its_content_type(shop: Gateway) -> None:
    details = problem(post(shop, "rows", b'{"id": 1, "n": "a"}\n', "text/csv"), 422, "wrong_endpoint")
    assert "POST /v1/changes/rows with the content type application/json" in details["remedy"]


def test_a_wrong_message_of_the_endpoints_own_form_keeps_its_error(shop: Gateway) -> None:
    for endpoint, message, code in [
        ("arcion", {"opType": "I"}, "malformed_message"),
        ("arcion", insert("t", id="x"), "bad_value"),
        ("arcion", {"a": {}}, "malformed_message"),
        ("replicate", {"data": {"id": 1}}, "malformed_message"),
        ("replicate", replicate(headers={}), "malformed_message"),
        ("debezium", {"op": "x", "after": {"id": 1}}, "bad_op"),
        ("rows", {"id": 1, "n": "a", "other": 2}, "unknown_column"),
    ]:
        problem(post(shop, endpoint, json.dumps(message).encode()), 422, code)


def test_text_that_is_neither_json_nor_csv_is_malformed_json(shop: Gateway) -> None:
    for body in (b"hello", b"<a/>", "ä,b\n1".encode()):
        problem(post(shop, "rows", body), 400, "malformed_json")
