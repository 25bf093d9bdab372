"""Memory of rows: what a few bytes become in a wide table, with constants, or as a list of problems."""

import json
from typing import Any

import pyarrow as pa
import pytest

from app.api.changes.endpoints import MIN_ROWS_BYTES
from app.domain.rows.row_layout import MAX_PROBLEMS
from app.ingest.dry_run import MAX_ANSWER_BYTES
from tests.api.calls import Gateway, insert, problem
from tests.limits.conftest import Serve
from tests.support.samples.arrow_streams import stream

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


def post(gateway: Gateway, path: str, count: int, table: str = "t") -> Any:
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
    details = problem(post(gateway, path, 9_000), 413, "body_too_large")
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
    assert post(gateway, "rows?op=insert", 1).status_code == 202
    details = problem(post(gateway, "rows?op=insert", 2), 413, "body_too_large")
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
    details = problem(post(gateway, "rows?op=insert", 1_000, "r"), 422, "incomplete_insert")
    assert len(details["errors"]) == 100
    assert MAX_PROBLEMS <= details["errors_total"] < MAX_PROBLEMS + 100
