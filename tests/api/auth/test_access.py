"""Rights of keys: which calls they allow, on which tables."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.calls import ADMIN_KEY, Gateway, insert, problem, without_id
from tests.api.conftest import ClientWith

Call = Callable[[Gateway, str], Any]

TABLE_CALLS: dict[str, tuple[str, Call]] = {
    "post changes": ("ingest", lambda client, table: client.arcion(insert(table, id="1"))),
    "read the status": ("read", lambda client, table: client.get(f"/v1/tables/{table}")),
    "read the schema": ("read", lambda client, table: client.get(f"/v1/tables/{table}/schema")),
    "read the files": ("read", lambda client, table: client.get(f"/v1/tables/{table}/files")),
    "read a batch": ("read", lambda client, table: client.get(f"/v1/batches/{table}/1/1")),
    "register": ("register", lambda client, table: client.register(table, {"id": "int64"}, ["id"])),
}
OTHER_CALLS: dict[str, tuple[str, Call]] = {
    "list tables": ("read", lambda client, _: client.get("/v1/tables")),
    "read metrics": ("read", lambda client, _: client.get("/metrics")),
    "list keys": ("admin", lambda client, _: client.get("/v1/keys")),
    "create a key": ("admin", lambda client, _: client.post("/v1/keys", json={"rights": ["read"]})),
    "delete a key": ("admin", lambda client, _: client.delete("/v1/keys/0011aabb")),
}
RIGHTS = ("ingest", "read", "register", "admin")


@pytest.fixture
def tables(gateway: Gateway) -> Gateway:
    """Give the tables `sales.orders` and `hr.people`, a batch in each."""
    for table in ("sales.orders", "hr.people"):
        gateway.register(table, {"id": "int64"}, ["id"])
        gateway.arcion(insert(table, id="1"))
    return gateway


@pytest.mark.parametrize("name", [*TABLE_CALLS, *OTHER_CALLS])
def test_a_call_needs_a_key_and_the_right(
    tables: Gateway, client_with: ClientWith, anonymous: Gateway, name: str
) -> None:
    needed, call = (TABLE_CALLS | OTHER_CALLS)[name]
    problem(call(anonymous, "sales.orders"), 401, "unauthenticated")
    for right in RIGHTS:
        response = call(client_with(right), "sales.orders")
        if right in {needed, "admin"}:
            assert response.status_code in {200, 201, 202, 404}
            assert response.status_code != 404 or response.json()["code"] == "unknown_key"
        else:
            assert needed in problem(response, 403, "forbidden")["detail"]


@pytest.mark.parametrize("name", TABLE_CALLS)
def test_a_table_outside_the_keys_patterns_is_answered_exactly_as_one_that_does_not_exist(
    tables: Gateway, client_with: ClientWith, name: str
) -> None:
    _, call = TABLE_CALLS[name]
    client = client_with(*RIGHTS[:3], tables=["sales.*"])
    assert call(client, "sales.orders").status_code in {200, 202}
    outside = call(client, "hr.people")
    problem(outside, 404, "unknown_table")
    missing = call(client, "hr.nobody")
    assert without_id(outside).replace("people", "nobody") == without_id(missing)
    assert header_names(outside) == header_names(missing)
    if name != "register":
        inside_but_missing = call(client, "sales.nobody")
        assert without_id(outside).replace("hr.people", "sales.nobody") == without_id(inside_but_missing)


def header_names(response: Any) -> dict[str, str]:
    changing = {"date", "x-request-id", "content-length"}
    return {name: value for name, value in response.headers.items() if name not in changing}


def test_listings_and_metrics_show_only_the_keys_tables(tables: Gateway, client_with: ClientWith) -> None:
    client = client_with("read", tables=["HR.*"])
    assert [table["table"] for table in client.get("/v1/tables").json()["tables"]] == ["hr.people"]
    metrics = client.get("/metrics").text
    assert 'mirrorgate_lag_batches{table="hr.people"} 1.0' in metrics
    assert "sales" not in metrics


def test_one_table_outside_the_patterns_rejects_the_whole_request(tables: Gateway, client_with: ClientWith) -> None:
    client = client_with("ingest", tables=["sales.*"])
    details = problem(client.arcion(insert("sales.orders", id="2"), insert("hr.people", id="2")), 404, "unknown_table")
    assert [error["index"] for error in details["errors"]] == [1]
    assert tables.status("sales.orders")["last_sequence"] == 1


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        f"Basic {ADMIN_KEY}",
        ADMIN_KEY,
        f"Bearer {ADMIN_KEY}x",
        f"Bearer {ADMIN_KEY[:-1]}",
        f"Bearer {ADMIN_KEY} {ADMIN_KEY}",
        "Bearer mg_00000000ffffffff_" + "x" * 43,
        "Bearer mg_\xff",
        "Bearer " + "x" * 5000,
    ],
)
def test_anything_but_a_valid_key_is_rejected_without_repeating_it(gateway: Gateway, authorization: str) -> None:
    response = gateway.get("/v1/tables", headers=[(b"Authorization", authorization.encode("latin-1"))])
    problem(response, 401, "unauthenticated")
    assert (
        response.headers["www-authenticate"] == 'Bearer realm="mirrorgate", Basic realm="mirrorgate", charset="UTF-8"'
    )
    assert ADMIN_KEY not in response.text


@pytest.mark.parametrize("authorization", [f"bearer {ADMIN_KEY}", f"BEARER {ADMIN_KEY}"])
def test_the_scheme_may_have_any_letter_case(gateway: Gateway, authorization: str) -> None:
    assert gateway.get("/v1/tables", headers={"Authorization": authorization}).status_code == 200
