"""Rights of keys: which calls they allow, on which tables."""

import pytest

from tests.api.calls import ADMIN_KEY, Gateway, insert, problem
from tests.api.conftest import ClientWith


@pytest.fixture
def tables(gateway: Gateway) -> Gateway:
    """Give the tables `sales.orders` and `hr.people`, a batch in each."""
    for table in ("sales.orders", "hr.people"):
        gateway.register(table, {"id": "int64"}, ["id"])
        gateway.arcion(insert(table, id="1"))
    return gateway


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
