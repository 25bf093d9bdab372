"""Operations on tables over HTTP: what is accepted, what is rejected, and what the audit records."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from app.staging.tables.registry import quarantine_table
from tests.api.calls import Gateway, insert, problem
from tests.api.commands import Terminal
from tests.api.conftest import ClientWith
from tests.support.gateway_parts import current, quarantined
from tests.support.postgres import sql
from tests.support.waiting import wait_until

COLUMNS = {"id": "int64"}


@pytest.fixture
def orders(gateway: Gateway) -> Gateway:
    """Give a gateway with a table `orders` in generation 1."""
    gateway.register("orders", COLUMNS, ["id"]).raise_for_status()
    return gateway


DROPS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "drop": ("DELETE", "/v1/tables/orders", {}),
    "recreate": ("POST", "/v1/tables/orders/recreate", {}),
    "rename": ("POST", "/v1/tables/orders/rename", {"json": {"name": "sales"}}),
}


@pytest.mark.parametrize("act", DROPS)
def test_a_drop_is_accepted_visible_and_rejects_changes_meanwhile(orders: Gateway, act: str) -> None:
    method, path, content = DROPS[act]
    answers = [orders.request(method, path, params={"generation": 1}, **content) for _ in range(2)]
    assert [(answer.status_code, answer.json()["state"]) for answer in answers] == [(202, "dropping")] * 2
    assert orders.status("orders")["state"] == "dropping"
    problem(orders.arcion(insert("orders", id="1")), 409, "table_not_accepting")
    [event] = orders.events("orders")
    assert (event["action"], event["generation"]) == (act, 1)


def act(client: Gateway, name: str, wanted: Any = None) -> httpx.Response:
    return client.post(f"/v1/tables/orders/{name}", params={"generation": 1}, json=wanted)


def test_what_a_table_is_recreated_with_is_checked_before_anything_is_dropped(orders: Gateway) -> None:
    wanted = {"columns": [{"name": "a", "type": "int64"}], "key_columns": ["b"]}
    problem(act(orders, "recreate", wanted), 422, "bad_schema")
    wanted = {"columns": [{"name": "a", "type": "int64"}], "options": {"insert_marker": "upsert"}}
    problem(act(orders, "recreate", wanted), 422, "bad_option")
    problem(act(orders, "recreate", {"columns": [{"name": "a ", "type": "int64"}]}), 422, "bad_name")
    assert orders.status("orders")["state"] == "active"


def test_a_table_is_renamed_only_to_a_free_name_that_the_key_may_touch(
    orders: Gateway, client_with: ClientWith
) -> None:
    orders.register("taken", COLUMNS, ["id"])
    for name in ("taken", "a/b", "ORDERS", "or\u200bders"):
        problem(act(orders, "rename", {"name": name}), 422, "bad_name")
    limited = client_with("admin", tables=["orders"])
    problem(act(limited, "rename", {"name": "free"}), 404, "unknown_table")


def test_a_release_says_why(orders: Gateway) -> None:
    problem(act(orders, "release", {"reason": ""}), 400, "bad_request")
    problem(act(orders, "release", {"reason": "looked"}), 409, "wrong_table_state")


def test_events_come_in_pages(orders: Gateway) -> None:
    for name in ("pause", "resume", "flush"):
        act(orders, name).raise_for_status()
    first = orders.get("/v1/tables/orders/events", params={"limit": 2}).json()
    second = orders.get("/v1/tables/orders/events", params={"limit": 2, "after": first["next_after"]}).json()
    assert [event["action"] for event in first["events"] + second["events"]] == ["pause", "resume", "flush"]
    assert second["next_after"] is None


def test_waiting_for_a_drop_does_not_take_that_of_an_earlier_table_for_it(orders: Gateway, terminal: Terminal) -> None:
    done = """INSERT INTO mirrorgate.table_events (table_id, folded_name, generation, actor, action, details)
        SELECT table_id, 'orders', 1, 'drain', 'drop done', '{"discarded_batches": 0, "discarded_rows": 0,
            "landed_again": 0}' FROM mirrorgate.tables WHERE folded_name = 'orders'"""
    sql.run(orders.engine, done)
    with ThreadPoolExecutor(1) as thread:
        command = thread.submit(terminal.run, "tables", "drop", "orders", "--generation", 1)
        wait_until(lambda: orders.status("orders")["state"] == "dropping", within=30, what="the drop begins")
        assert not command.done()
        sql.run(orders.engine, done)
        result = command.result(timeout=30)
    assert (result.status, "drop done" in result.output) == (0, True)
    events = orders.events("orders")
    assert [(event["action"], event["completes"]) for event in events] == [
        ("drop done", "drop"),
        ("drop", None),
        ("drop done", "drop"),
    ]


def test_a_quarantine_leaves_an_event_with_its_reason_and_so_does_its_end(orders: Gateway) -> None:
    table_id = current(orders.engine, "orders").table_id
    assert sql.call(orders.engine, quarantine_table, table_id, "foreign_file: file 2")
    assert not sql.call(orders.engine, quarantine_table, table_id, "seen again")
    act(orders, "release", {"reason": "looked"}).raise_for_status()
    events = orders.events("orders")
    assert [(event["actor"], event["action"], event["reason"]) for event in events if event["reason"]] == [
        ("drain", "quarantined", "foreign_file: file 2"),
        ("0000000000000001", "release", "looked"),
    ]


def test_the_command_releases_all_tables_of_one_reason_and_says_which(orders: Gateway, terminal: Terminal) -> None:
    orders.register("foreign", COLUMNS, ["id"])
    for name, reason in (("orders", "landing_folder_lost: gone"), ("foreign", "foreign_file: landing_folder_lost")):
        quarantined(orders.engine, name, reason)
    release = ("tables", "release", "--reason", "mounted again")
    first, again = (terminal.run(*release, "--all", "--code", "landing_folder_lost") for _ in range(2))
    assert (first.status, again.status) == (0, 0)
    assert "orders: released in generation 1; it was landing_folder_lost: gone" in first.output
    assert "1 tables released" in first.output
    assert "0 tables released" in again.output
    assert (orders.status("orders")["state"], orders.status("foreign")["state"]) == ("active", "quarantined")
    for wrong in (["orders"], ["--code", "landing_folder_lost"], ["--all"], ["--all", "--code", "nonsense"]):
        assert terminal.run(*release, *wrong).status == 2
