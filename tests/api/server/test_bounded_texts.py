"""Request texts that reach a Postgres index are bounded, and the rejection names the text and the limit."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.calls import Gateway, insert, problem

LONG = "x" * 9_000


def metadata(samples: Path) -> Any:
    return json.loads((samples / "replicate" / "md_employees.json").read_bytes())


def test_a_schema_id_beyond_its_bound_is_rejected_with_its_place(gateway: Gateway, samples: Path) -> None:
    message = metadata(samples)
    message["message"]["schemaId"] = LONG
    [error] = problem(gateway.replicate(message), 422, "unstorable")["errors"]
    assert (error["index"], error["pointer"]) == (0, "/message/schemaId")
    assert "255" in error["detail"]


@pytest.mark.parametrize("name", ["server", "task"])
def test_a_task_beyond_its_bound_is_rejected_with_its_place(gateway: Gateway, samples: Path, name: str) -> None:
    message = metadata(samples)
    message["message"]["lineage"][name] = LONG
    [error] = problem(gateway.replicate(message), 422, "unstorable")["errors"]
    assert error["pointer"] == f"/message/lineage/{name}"
    assert "255" in error["detail"]


def test_a_catalog_beyond_its_bound_is_rejected(gateway: Gateway) -> None:
    gateway.register("sales.orders", {"id": "int64"}).raise_for_status()
    message = insert("sales.orders", id="1")
    message["tableName"]["namespace"]["catalog"] = LONG
    [error] = problem(gateway.arcion(message), 422, "bad_name")["errors"]
    assert "255" in error["detail"]


def test_a_source_name_beyond_its_bound_is_rejected(gateway: Gateway) -> None:
    body = {"columns": [{"name": "id", "type": "int64"}], "options": {"sources": [f"{LONG}.sales.orders"]}}
    assert gateway.put("/v1/tables/t", json=body).status_code == 422


@pytest.mark.parametrize("header", ["Idempotency-Key", "Mirrorgate-Producer"])
def test_a_name_of_a_request_beyond_its_bound_is_rejected(gateway: Gateway, header: str) -> None:
    gateway.register("t", {"id": "int64"}).raise_for_status()
    headers = {header: "k" * 256}
    if header == "Mirrorgate-Producer":
        headers["Mirrorgate-Producer-Sequence"] = "1"
    response = gateway.post("/v1/changes/arcion", json=[insert("t", id="1")], headers=headers)
    assert "255" in problem(response, 400, "bad_request")["detail"]
