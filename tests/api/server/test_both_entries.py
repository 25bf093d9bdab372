"""Requests that are answered in front of the framework get the answers that its routes give."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from app.api.changes.endpoints import ENDPOINTS
from app.api.routes import changes as change_routes
from tests.api.calls import ADMIN_KEY, Gateway, insert, own_gateway

ARCION, REPLICATE, ROWS, ARROW = (f"/v1/changes/{name}" for name in ("arcion", "replicate", "rows", "arrow"))
JSON = {"Content-Type": "application/json"}
BODY = json.dumps(insert("t", id="1")).encode()

REQUESTS: dict[str, dict[str, Any]] = {
    "accepted": {"url": ARCION, "content": BODY},
    "compressed": {"url": ARCION, "content": gzip.compress(BODY), "headers": {"Content-Encoding": "gzip"}},
    "a dry run": {"url": ARCION, "content": BODY, "params": {"dry_run": "true"}},
    "csv": {
        "url": ARCION,
        "content": b"7\n",
        "params": {"table": "t", "mode": "snapshot", "columns": "id"},
        "headers": {"Content-Type": "text/csv"},
    },
    "csv without a table": {"url": ARCION, "content": b"7\n", "headers": {"Content-Type": "text/csv"}},
    "no key": {"url": ARCION, "content": BODY, "headers": {"Authorization": ""}},
    "a key without its scheme": {"url": ARCION, "content": BODY, "headers": {"Authorization": "mg_1"}},
    "a wrong key": {"url": REPLICATE, "content": BODY, "headers": {"Authorization": f"Bearer {ADMIN_KEY}x"}},
    "an own request id": {"url": ARCION, "content": b"{", "headers": {"X-Request-Id": "mine"}},
    "malformed JSON": {"url": ARCION, "content": b"{"},
    "a wrong message": {"url": ARCION, "content": json.dumps(insert("t", id="x")).encode()},
    "an unknown table": {"url": ARCION, "content": json.dumps(insert("u", id="1")).encode()},
    "an unknown parameter": {"url": ARCION, "content": BODY, "params": {"dryrun": "true"}},
    "a wrong parameter": {"url": ARCION, "content": BODY, "params": {"dry_run": "maybe"}},
    "a wrong partition": {"url": REPLICATE, "content": b"[]", "params": {"partition": ""}},
    "a wrong table name": {"url": ARCION, "content": BODY, "params": {"table": "a..b"}},
    "contradicting parameters": {
        "url": ARCION,
        "content": BODY,
        "params": {"dry_run": "true", "on_reject": "dead_letter"},
    },
    "a wrong number": {"url": ARCION, "content": BODY, "headers": {"Mirrorgate-Producer-Sequence": "0"}},
    "half a number": {"url": ARCION, "content": BODY, "headers": {"Mirrorgate-Producer": "p"}},
    "a wrong idempotency key": {"url": ARCION, "content": BODY, "headers": {"Idempotency-Key": "a b"}},
    "a wrong content type": {"url": REPLICATE, "content": BODY, "headers": {"Content-Type": "text/plain"}},
    "a wrong charset": {
        "url": ARCION,
        "content": BODY,
        "headers": {"Content-Type": "application/json; charset=latin1"},
    },
    "a wrong encoding": {"url": ARCION, "content": BODY, "headers": {"Content-Encoding": "br"}},
    "a broken encoding": {"url": ARCION, "content": BODY, "headers": {"Content-Encoding": "zstd"}},
    "a large body": {"url": ARCION, "content": b" " * 5_001},
    "rows": {"url": ROWS, "content": b'[{"id": 1}]', "params": {"table": "t"}},
    "rows in CSV": {
        "url": ROWS,
        "content": b"id\n7\n",
        "params": {"table": "t", "op": "delete"},
        "headers": {"Content-Type": "text/csv"},
    },
    "rows without a table": {"url": ROWS, "content": b"{}"},
    "rows with a wrong operation": {"url": ROWS, "content": b"{}", "params": {"table": "t", "op": "update"}},
    "rows with a parameter of CSV": {"url": ROWS, "content": b"{}", "params": {"table": "t", "delimiter": ";"}},
    "a row with a wrong value": {"url": ROWS, "content": b'{"id": "x"}', "params": {"table": "t"}},
    "rows of another type": {"url": ROWS, "content": b"{}", "headers": {"Content-Type": "text/plain"}},
    "a row of Replicate": {
        "url": REPLICATE,
        "content": b'{"headers": {"operation": "INSERT", "changeSequence": "1"}, "data": {"id": 1}}',
        "params": {"table": "t"},
    },
    "an event of Debezium": {
        "url": "/v1/changes/debezium",
        "content": b'{"op": "c", "before": null, "after": {"id": 1}, "source": {"table": "t"}}',
        "params": {"table": "t"},
    },
    "a dead letter that the table rejects": {
        "url": ROWS,
        "content": b'{"id": "x"}',
        "params": {"table": "t", "on_reject": "dead_letter"},
    },
    "no Arrow": {"url": ARROW, "content": BODY, "params": {"table": "t"}},
    "a URL that is no text": {"url": f"{ARCION}?table=%FF", "content": BODY},
    "a URL with U+0000": {"url": f"{ARCION}?table=%00", "content": BODY},
    "a path with an escape": {"url": "/v1/changes/arcio%6E", "content": BODY},
    "another path": {"url": f"{ARCION}/", "content": BODY},
    "another method": {"url": ARCION, "method": "PUT", "content": BODY},
}


@pytest.fixture(scope="module")
def entries(api_database: str) -> Iterator[list[Gateway]]:
    """Give clients of two gateways on one database: in front of the framework, and through it."""
    with (
        own_gateway(api_database, max_body_bytes=5_000) as first,
        own_gateway(api_database, max_body_bytes=5_000, in_front=False) as second,
    ):
        first.register("t", {"id": "int64"}, ["id"])
        yield [first, second]


def comparable(answer: httpx.Response) -> tuple[int, list[tuple[str, str]], Any]:
    """Return status, headers and content without what differs between two requests of one gateway.

    A rejected request closes its connection if its body has not arrived yet.
    """
    content = answer.json()
    request_id = answer.headers["x-request-id"]
    for receipt in content.get("receipts", []):
        receipt.pop("sequence")
    if content.pop("request_id", request_id) != request_id:
        raise AssertionError("the problem names another request")
    skipped = {"date", "content-length", "connection"} | ({"x-request-id"} if request_id != "mine" else set())
    return answer.status_code, [pair for pair in answer.headers.multi_items() if pair[0] not in skipped], content


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_gets_the_same_answer_from_both(entries: list[Gateway], name: str) -> None:
    described = {"method": "POST", **REQUESTS[name]}
    described["headers"] = JSON | described.get("headers", {})
    front, framework = (comparable(gateway.request(**described)) for gateway in entries)
    assert front == framework
    accepted = {"accepted", "compressed", "a dry run", "csv", "rows", "rows in CSV", "a path with an escape"}
    accepted |= {"a row of Replicate", "an event of Debezium"}
    assert front[0] >= 400 or name in accepted


def test_a_repeated_request_gets_its_first_answer_from_the_other_entry(entries: list[Gateway]) -> None:
    headers = JSON | {"Idempotency-Key": "both"}
    first, second = (gateway.post(f"{ARCION}?table=t", content=BODY, headers=headers) for gateway in entries)
    assert (first.status_code, second.status_code) == (202, 200)
    assert second.headers["idempotency-replayed"] == "true"
    assert second.json() == first.json() | {"replayed": True}


def test_every_change_route_is_an_endpoint_that_takes_the_request_alone() -> None:
    routes = [route for route in change_routes.router.routes if isinstance(route, APIRoute)]
    assert {route.path for route in routes} == ENDPOINTS.keys()
    for route in routes:
        assert route.methods == {"POST"}
        assert route.dependant.request_param_name == "request"
        assert not route.dependant.dependencies
        assert not route.dependant.query_params + route.dependant.header_params + route.dependant.body_params
