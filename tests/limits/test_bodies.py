"""Limits of one body: expanded size, number of messages, length of a value, and the memory of its rows."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import zstandard

from app.api.changes.endpoints import MIN_ROWS_BYTES
from app.domain.rows.row_layout import MAX_PROBLEMS
from app.ingest.dry_run import MAX_ANSWER_BYTES
from tests.api.calls import Gateway, insert, problem
from tests.limits.conftest import Serve
from tests.support.samples.arrow_streams import stream
from tests.support.samples.messages import data, metadata

PATH = "/v1/changes/arcion"
MESSAGE = json.dumps(insert("t", id="1")).encode()
MIB = 2**20


def zstd(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=19).compress(content)


def bomb(layers: int, compress: Callable[[bytes], bytes]) -> bytes:
    content = MESSAGE.ljust(32 * MIB)
    for _ in range(layers):
        content = compress(content)
    return content


def post(gateway: Gateway, content: bytes, *encodings: str, path: str = PATH) -> Any:
    headers = [("Content-Type", "application/json"), *(("Content-Encoding", encoding) for encoding in encodings)]
    return gateway.post(path, content=content, headers=headers)


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("zstd", zstd)])
def test_a_body_that_expands_beyond_the_ratio_is_rejected(
    gateway: Gateway, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    details = problem(post(gateway, bomb(1, compress), encoding), 413, "body_expands_too_much")
    assert "200 times" in details["detail"]
    assert gateway.status("t")["last_sequence"] == 0


def test_the_ratio_is_a_setting_and_small_bodies_may_expand_as_they_like(serve: Serve) -> None:
    gateway = serve(max_expansion=50_000)
    assert post(gateway, bomb(1, zstd), "zstd").status_code == 202
    strict = serve(max_expansion=2)
    assert post(strict, zstd(MESSAGE.ljust(MIB)), "zstd").status_code == 202
    problem(post(strict, zstd(MESSAGE.ljust(MIB + 1)), "zstd"), 413, "body_expands_too_much")


def test_a_bomb_behind_a_true_body_is_rejected(gateway: Gateway) -> None:
    content = zstd(MESSAGE) + bomb(1, zstd)
    problem(post(gateway, content, "zstd"), 413, "body_expands_too_much")


@pytest.mark.parametrize("encodings", [["gzip, gzip"], ["gzip", "gzip"], ["gzip, zstd"], ["identity, gzip, zstd"]])
def test_a_body_is_compressed_once_at_the_most(gateway: Gateway, encodings: list[str]) -> None:
    details = problem(post(gateway, bomb(2, gzip.compress), *encodings), 415, "unsupported_encoding")
    assert details["detail"] == "the body has more than one content encoding"
    assert "compress it once" in details["remedy"]


@pytest.mark.parametrize("encodings", [["identity, gzip"], ["gzip", "identity"], ["", "gzip"]])
def test_no_encoding_beside_another_is_none(serve: Serve, encodings: list[str]) -> None:
    assert post(serve(), gzip.compress(MESSAGE), *encodings).status_code == 202


def test_more_messages_than_the_limit_are_rejected_in_each_framing(serve: Serve) -> None:
    gateway = serve(max_request_messages=3)
    for joined in (b"[%s]", b"%s"):
        separator = b"," if joined == b"[%s]" else b"\n"
        problem(post(gateway, joined % separator.join([MESSAGE] * 4)), 413, "too_many_messages")
        assert post(gateway, joined % separator.join([MESSAGE] * 3)).status_code == 202
    problem(post(gateway, b"".join([MESSAGE] * 4)), 413, "too_many_messages")
    problem(post(gateway, b"[null,null,null,null]", path="/v1/changes/replicate"), 413, "too_many_messages")


def test_more_csv_records_than_the_limit_are_rejected(serve: Serve) -> None:
    gateway = serve(max_request_messages=3)
    parameters = {"table": "t", "mode": "snapshot", "columns": "id"}
    for records, code in ((4, 413), (3, 202)):
        content = "".join(f"{number}\n" for number in range(records))
        answer = gateway.post(PATH, content=content, params=parameters, headers={"Content-Type": "text/csv"})
        assert answer.status_code == code


TEXT = {"id": "int64", "name": "string", "note": "string"}


@pytest.fixture
def people(serve: Serve) -> Gateway:
    """Give a gateway with the table `p`, whose values can have ten bytes."""
    gateway = serve(max_value_bytes=10)
    gateway.register("p", TEXT, ["id"]).raise_for_status()
    return gateway


@pytest.mark.parametrize(
    ("value", "rejected"), [("a" * 10, False), ("a" * 11, True), ("ä" * 5, False), ("ä" * 6, True)]
)
def test_a_value_may_be_as_long_as_the_limit_in_bytes(people: Gateway, value: str, rejected: bool) -> None:
    good, long = insert("p", id="1", name="Ada", note=""), insert("p", id="2", name=value, note="")
    answer = people.arcion(good, long)
    if rejected:
        details = problem(answer, 422, "value_too_large")
        [error] = details["errors"]
        assert (error["index"], error["pointer"], error["column"]) == (1, "/after/name", "name")
        assert value not in answer.text
    assert (answer.status_code == 202) != rejected
    assert people.status("p")["staged"]["rows"] == (0 if rejected else 2)


def test_a_long_value_of_an_excluded_column_is_no_matter(people: Gateway) -> None:
    people.put("/v1/tables/p", json={"options": {"exclude": ["photo"]}}).raise_for_status()
    assert people.arcion(insert("p", id="1", name="Ada", note="", photo="x" * 11)).status_code == 202


def test_a_long_value_of_a_csv_record_is_named_with_its_line(people: Gateway) -> None:
    parameters = {"table": "p", "mode": "snapshot", "columns": "id,name,note"}
    content = f"1,Ada,\n2,Bob,{'x' * 11}\n"
    answer = people.post(PATH, content=content, params=parameters, headers={"Content-Type": "text/csv"})
    [error] = problem(answer, 422, "value_too_large")["errors"]
    assert (error["index"], error["column"]) == (1, "note")
    assert error["detail"].startswith("line 2: ")


def test_long_json_of_a_replicate_message_is_rejected(people: Gateway) -> None:
    columns = {"id": "INT8", "doc": "NCLOB"}
    people.replicate(metadata("r", columns)).raise_for_status()
    long = data("INSERT", {"id": 1, "doc": "x" * 11}, sequence=1, table="r")
    [error] = problem(people.replicate(long), 422, "value_too_large")["errors"]
    assert (error["index"], error["pointer"]) == (0, "/message/data/doc")


ID = {"name": "id", "type": "int64", "nullable": False}
CONSTANTS = {f"c{at}": {"type": "string", "value": "x" * 4_096} for at in range(16)}


def table(gateway: Gateway, columns: int = 1, **options: Any) -> None:
    others = [{"name": f"column_{at}", "type": "int16"} for at in range(1, columns)]
    gateway.put("/v1/tables/t", json={"columns": [ID, *others], "key_columns": ["id"], "options": options})


def ids(count: int) -> list[dict[str, int]]:
    return [{"id": number} for number in range(count)]


BODIES = {
    "rows?op=insert": lambda count: json.dumps(ids(count)),
    "rows?table=t": lambda count: "[" + ",".join(["{}"] * count) + "]",
    "rows": lambda count: "\n".join(["id", *map(str, range(count))]),
    "arcion": lambda count: json.dumps([insert("t", id=str(number)) for number in range(count)]),
    "debezium": lambda count: json.dumps([{"op": "c", "after": row, "source": {"table": "t"}} for row in ids(count)]),
    "replicate": lambda count: json.dumps(
        [{"message": {"data": row, "headers": {"operation": "INSERT"}}} for row in ids(count)]
    ),
}


def post_rows(gateway: Gateway, path: str, count: int, table: str = "t") -> Any:
    endpoint, _, query = path.partition("?")
    kind = "text/csv" if path == "rows" else "application/json"
    parameters = {"table": table} | dict([query.split("=")] if query else [])
    body = BODIES[path](count)
    return gateway.post(f"/v1/changes/{endpoint}", params=parameters, content=body, headers={"Content-Type": kind})


@pytest.mark.parametrize("options", [{"columns": 2_000}, {"constants": CONSTANTS}], ids=["wide", "constants"])
@pytest.mark.parametrize("path", BODIES)
def test_small_messages_that_become_large_rows_are_rejected_in_every_format(
    gateway: Gateway, path: str, options: dict[str, Any]
) -> None:
    table(gateway, **options)
    details = problem(post_rows(gateway, path, 9_000), 413, "body_too_large")
    most = int(details["detail"].rpartition(" ")[2])
    assert MIN_ROWS_BYTES <= most <= 128 * 2**20
    assert details["remedy"] == "Split the messages over several requests."
    assert gateway.status("t")["last_sequence"] == 0


def test_rows_of_an_arrow_stream_count_with_the_columns_that_they_lack(gateway: Gateway) -> None:
    table(gateway, columns=2_000)
    kind = {"Content-Type": "application/vnd.apache.arrow.stream"}
    body = stream(pa.table({"id": range(3_000)}))
    problem(gateway.post("/v1/changes/arrow?table=t", content=body, headers=kind), 413, "body_too_large")


def test_rows_count_towards_the_memory_budget(serve: Serve) -> None:
    gateway = serve(max_body_bytes=100_000, max_bytes_in_memory=200_000)
    table(gateway, constants=CONSTANTS)
    assert post_rows(gateway, "rows?op=insert", 1).status_code == 202
    details = problem(post_rows(gateway, "rows?op=insert", 2), 413, "body_too_large")
    assert "more than" in details["detail"]


def test_the_answer_of_a_dry_run_ends_at_16_mib_and_says_how_many_rows_it_omits(gateway: Gateway) -> None:
    table(gateway, columns=200, constants={"c": CONSTANTS["c0"]})
    response = gateway.post("/v1/changes/rows?table=t&dry_run=true&op=insert", json=ids(2_500))
    [shown] = response.json()["tables"]
    assert MAX_ANSWER_BYTES - 20_000 < len(response.content) < MAX_ANSWER_BYTES + 10_000
    assert len(shown["rows"]) + shown["omitted_rows"] == 2_500
    assert [row["id"] for row in shown["rows"]] == [*range(len(shown["rows"]))]
    [whole] = gateway.post("/v1/changes/rows?table=t&dry_run=true&op=insert", json=ids(2)).json()["tables"]
    assert "omitted_rows" not in whole


def test_problems_are_counted_up_to_a_limit(gateway: Gateway) -> None:
    columns = [ID, *({"name": f"r{at}", "type": "int16", "nullable": False} for at in range(90))]
    gateway.put("/v1/tables/r", json={"columns": columns, "key_columns": ["id"]})
    details = problem(post_rows(gateway, "rows?op=insert", 1_000, "r"), 422, "incomplete_insert")
    assert len(details["errors"]) == 100
    assert MAX_PROBLEMS <= details["errors_total"] < MAX_PROBLEMS + 100
