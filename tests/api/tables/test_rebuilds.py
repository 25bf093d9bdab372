"""Rebuilds over HTTP and by the command line: what is accepted and rejected, and how the progress is shown."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.calls import Gateway, insert, problem
from tests.api.commands import Terminal
from tests.support.gateway_parts import current
from tests.support.postgres import sql
from tests.support.waiting import wait_until

AT = {"generation": 1}


@pytest.fixture
def orders(gateway: Gateway) -> Gateway:
    """Give a gateway with a table `orders` that keeps row images."""
    columns = {"id": "int64", "region": "string", "amount": "int32"}
    gateway.register("orders", columns, ["id"], row_images="on").raise_for_status()
    return gateway


def rebuild(orders: Gateway, **wanted: Any) -> Any:
    return orders.post("/v1/tables/orders/rebuild", params=AT, json=wanted)


def test_a_rebuild_is_accepted_once_and_changes_go_on(orders: Gateway) -> None:
    for _ in range(2):
        answer = rebuild(orders, key_columns=["region", "id"])
        assert (answer.status_code, answer.json()["state"]) == (202, "active")
        assert answer.json()["rebuild"]["phase"] == "copying"
    assert orders.arcion(insert("orders", id="1", region="n", amount="3")).status_code == 202
    problem(rebuild(orders), 409, "wrong_table_state")
    problem(orders.post("/v1/tables/orders/recreate", params=AT), 409, "wrong_table_state")
    problem(orders.post("/v1/tables/orders/loads", json={"mode": "full"}), 409, "wrong_table_state")
    [event] = orders.events("orders")
    assert (event["action"], event["details"]["schema"]["key_columns"]) == ("rebuild", ["region", "id"])


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"key_columns": ["nothing"]}, "bad_schema"),
        ({"key_columns": []}, "bad_schema"),
        ({"columns": [{"name": "region", "type": "string"}]}, "bad_schema"),
        ({"columns": [{"name": "id", "type": "int64"}, {"name": "new", "type": "int64"}]}, "bad_schema"),
        ({"columns": [{"name": "id", "type": "int64"}, {"name": "b", "type": "int64", "from": "id"}]}, "bad_schema"),
        ({"columns": [{"name": "id", "type": "number"}]}, "bad_type"),
    ],
)
def test_what_is_wrong_with_a_plan_is_rejected_before_anything_is_copied(
    orders: Gateway, wanted: dict[str, Any], code: str
) -> None:
    problem(rebuild(orders, **wanted), 422, code)
    assert orders.status("orders")["rebuild"] is None


def test_each_mistake_of_a_plan_is_named_with_its_place(orders: Gateway) -> None:
    columns = [{"name": "id", "type": "number"}, {"name": "\x07", "type": "string"}, {"name": "ID", "type": "string"}]
    answer = problem(rebuild(orders, columns=columns, key_columns=["id", "region", "id"]), 422, "bad_type")
    found = [(one["code"], one["pointer"]) for one in answer["errors"]]
    assert found == [
        ("bad_type", "/columns/0/type"),
        ("bad_name", "/columns/1/name"),
        ("bad_schema", "/columns/2/name"),
        ("bad_schema", "/key_columns/1"),
        ("bad_schema", "/key_columns/2"),
    ]


def test_a_table_without_an_image_of_each_row_is_not_rebuilt(gateway: Gateway) -> None:
    gateway.register("orders", {"id": "int64"}, ["id"]).raise_for_status()
    problem(rebuild(gateway), 409, "no_row_images")
    gateway.arcion(insert("orders", id="1")).raise_for_status()
    gateway.put("/v1/tables/orders", json={"options": {"row_images": "on"}}).raise_for_status()
    problem(rebuild(gateway), 409, "no_row_images")


def test_the_command_waits_for_the_end_and_says_what_was_found(orders: Gateway, terminal: Terminal) -> None:
    arguments = ["tables", "rebuild", "orders", "--generation", "1", "--dry-run"]
    changes = ["--column", "amount:int16", "--rename", "region=area", "--key-column", "area", "--key-column", "id"]
    found = [{"column": "amount", "code": "bad_value", "rows": 1234, "first_row": 17}]
    with ThreadPoolExecutor(1) as thread:
        command = thread.submit(terminal.run, *arguments, *changes)
        wait_until(lambda: orders.status("orders")["rebuild"] is not None, within=30, what="the dry run begins")
        plan = sql.value(orders.engine, "SELECT plan FROM mirrorgate.rebuilds")
        ended = (
            "UPDATE mirrorgate.rebuilds SET phase = 'checked', finished_at = now(), rows_total = 5000,"
            f" rows_done = 5000, estimated_seconds = 61, findings = '{json.dumps(found)}'"
        )
        sql.run(orders.engine, ended)
        result = command.result(timeout=30)
    assert plan["schema"]["key_columns"] == ["area", "id"]
    assert [(column["name"], column["type"]) for column in plan["schema"]["columns"]] == [
        ("id", "int64"),
        ("area", "string"),
        ("amount", "int16"),
    ]
    assert result.status == 1
    assert "orders: checked, 5,000 of 5,000 rows; copying lasts about 61 s" in result.output
    assert "bad_value: column amount, 1,234 rows, the first at position 17" in result.output


def test_all_tables_with_row_images_are_rebuilt_and_the_others_named(orders: Gateway, terminal: Terminal) -> None:
    orders.register("plain", {"id": "int64"}, ["id"]).raise_for_status()
    ended = terminal.run("tables", "rebuild", "--all", "--no-wait", "--json")
    [rebuilt] = json.loads(ended.output.splitlines()[-1])
    assert (rebuilt["table"], rebuilt["phase"]) == ("orders", "copying")
    assert "plain: skipped" in ended.errors
    assert current(orders.engine, "orders").rebuild_due
    for wrong in (["orders"], ["--all", "--drop-column", "region"], ["orders", "--generation", "1", "--rename", "x"]):
        assert terminal.run("tables", "rebuild", *wrong).status == 2
