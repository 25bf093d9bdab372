"""Every example of the contract works as shown against a running gateway."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.calls import Gateway, own_gateway
from tests.contract.reading import Example, Operation, examples, load_contract, mistakes, operations, resolved

CONTRACT = load_contract()
FIRST = ["create_key", "register_table", "post_arcion_changes", "post_replicate_changes", "post_debezium_changes"]
LAST = ["delete_key"]
"""All other operations run in between, in the contract's order."""

ENDING = {"drop_table", "recreate_table", "rename_table", "rebuild_table"}
"""Operations that a table cannot leave without a drain; each has its own table."""

PARAMETERS = {
    "post_arcion_changes text/csv": {"table": "tpch.nation", "mode": "snapshot", "columns": "n_nationkey,n_name"},
}
"""What a body needs beside it, as its description says."""

REJECTED = {"repair_file": "unknown_file", "release_table": "wrong_table_state"}
"""Operations for states that a table cannot reach without a drain."""


@pytest.fixture
def gateway(database_url: str) -> Iterator[Gateway]:
    with own_gateway(database_url) as client:
        yield client


def in_order() -> list[Operation]:
    def place(operation: Operation) -> int:
        name = str(operation)
        return FIRST.index(name) if name in FIRST else len(FIRST) + (LAST.index(name) + 1 if name in LAST else 0)

    return sorted(operations(CONTRACT), key=place)


def of_path(operation: Operation, known: dict[str, str]) -> dict[str, Any]:
    """Path and required query parameters: what an earlier answer told, else the example; 1 for a number without one."""
    return {
        parameter["name"]: known.get(parameter["name"], parameter["schema"].get("examples", [1])[0])
        for parameter in operation.parameters
        if parameter.get("required")
    }


def call(gateway: Gateway, operation: Operation, known: dict[str, str], example: Example | None) -> httpx.Response:
    values = of_path(operation, known)
    path = operation.path.format(**values)
    query = {name: value for name, value in values.items() if f"{{{name}}}" not in operation.path}
    if example is None:
        return gateway.request(operation.method, path, params=query)
    content = example.value if isinstance(example.value, str) else json.dumps(example.value)
    query |= PARAMETERS.get(f"{operation} {example.content_type}", {})
    headers = {"Content-Type": example.content_type}
    return gateway.request(operation.method, path, params=query, content=content.encode(), headers=headers)


def check(operation: Operation, response: httpx.Response) -> None:
    """Check an answer against the contract: status, headers, content type and content."""
    described = operation.responses[str(response.status_code)]
    for name, header in described["headers"].items():
        if name != "Idempotency-Replayed":
            value = response.headers[name]
            schema = resolved(CONTRACT, header)["schema"]
            parsed = int(value) if schema["type"] == "integer" else value
            assert mistakes(CONTRACT, schema, parsed) == [], f"{operation} {name}"
    if response.content:
        content_type = response.headers["content-type"].partition(";")[0]
        schema = described["content"][content_type]["schema"]
        if content_type.endswith("json"):
            assert mistakes(CONTRACT, schema, response.json()) == [], f"{operation} {response.text}"


def test_the_gateway_serves_the_committed_contract(gateway: Gateway) -> None:
    assert gateway.get("/openapi.json").json() == CONTRACT


def test_every_example_of_a_body_is_accepted_and_every_operation_answers_as_the_contract_says(
    gateway: Gateway,
) -> None:
    known: dict[str, str] = {}
    named = list(examples(CONTRACT))
    for operation in in_order():
        at = known
        if str(operation) in ENDING:
            at = known | {"table": f"tpch.{operation}"}
            gateway.register(at["table"], {"id": "int32"}, ["id"], row_images="on").raise_for_status()
        shown = [example for example in named if example.operation == operation]
        # A table takes snapshot rows only before other changes.
        for example in sorted(shown, key=lambda example: example.content_type != "text/csv") or [None]:
            response = call(gateway, operation, at, example)
            check(operation, response)
            expected = REJECTED.get(str(operation))
            if expected is not None:
                assert response.json()["code"] == expected, (str(operation), response.text)
            elif example is not None:
                assert response.is_success, (str(example), response.text)
            if str(operation) == "create_key":
                known["key_id"] = response.json()["id"]
    states = {name: gateway.status(name)["state"] for name in ("tpch.nation", "HR.JOBS", "tpch.drop_table")}
    assert states == {"tpch.nation": "active", "HR.JOBS": "active", "tpch.drop_table": "dropping"}
