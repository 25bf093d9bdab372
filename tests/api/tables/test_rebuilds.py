"""Rebuilds and backfills over HTTP and by the command line: what is accepted, rejected, and shown meanwhile."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from app.staging.images import Backfill
from app.staging.tables.operations import finish_drop
from tests.api.calls import Gateway, insert, problem
from tests.api.commands import Terminal
from tests.support.backfills import carry_out, purge_payloads
from tests.support.gateway_parts import current
from tests.support.postgres import sql
from tests.support.postgres.ledger import claim_by
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
    assert orders.status("orders")["rebuild"] is None


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


BACKFILL = "/v1/tables/orders/row-images/backfill"


def test_status_and_metrics_show_how_far_it_is(gateway: Gateway) -> None:
    for name in ("orders", "quiet"):
        gateway.register(name, {"id": "int64"}, ["id"]).raise_for_status()
    for key in "12":
        gateway.arcion(insert("orders", id=key)).raise_for_status()
    assert gateway.status("orders")["backfill"] is None
    gateway.put("/v1/tables/orders", json={"options": {"row_images": "on"}}).raise_for_status()
    shown, scraped = [], []

    def look(_: Backfill) -> None:
        shown.append(gateway.status("orders")["backfill"])
        scraped.append(gateway.get("/metrics").text)

    gateway.post(BACKFILL, params=AT).raise_for_status()
    carry_out(gateway.engine, "orders", look)
    halfway = shown[1]
    assert (halfway["state"], halfway["rows_done"], halfway["rows_total"]) == ("running", 1, 2)
    assert (halfway["batches_done"], halfway["batches_total"], halfway["finished_at"]) == (1, 2, None)
    done = gateway.status("orders")
    assert (done["backfill"]["state"], done["row_images"]["complete"]) == ("done", True)
    values = dict(re.findall(r'^mirrorgate_image_backfill_(\w+)\{table="orders"\} (\S+)$', scraped[1], re.MULTILINE))
    assert values == {"rows": "1.0", "expected_rows": "2.0", "batches": "1.0"}
    assert 'mirrorgate_image_backfill_state{state="running",table="orders"} 1.0' in scraped[1]
    assert not re.search(r'mirrorgate_image_backfill_\w+\{[^}]*table="quiet"', scraped[1])


@pytest.fixture
def late(gateway: Gateway) -> Gateway:
    """Give a gateway with a table `orders` that has kept row images since its first row."""
    gateway.register("orders", {"id": "int64"}, ["id"]).raise_for_status()
    gateway.arcion(insert("orders", id="1")).raise_for_status()
    gateway.put("/v1/tables/orders", json={"options": {"row_images": "on"}}).raise_for_status()
    return gateway


def test_a_backfill_is_asked_for_once_and_cancelled_once(late: Gateway, api_engine: sa.Engine) -> None:
    for _ in range(2):
        answer = late.post(BACKFILL, params=AT)
        shown = answer.json()["backfill"]
        assert (answer.status_code, shown["state"], shown["rows_total"]) == (202, "running", 1)
    assert current(api_engine, "orders").backfill_due
    for _ in range(2):
        answer = late.delete(BACKFILL, params=AT)
        assert (answer.status_code, answer.json()["backfill"]["state"]) == (200, "cancelled")
    assert not current(api_engine, "orders").backfill_due
    actions = [event["action"] for event in late.events("orders")]
    assert (actions[-2:], actions.count("backfill")) == (["backfill", "backfill cancelled"], 1)


def test_a_backfill_that_ran_in_a_former_generation_is_neither_shown_nor_cancelled(
    late: Gateway, api_engine: sa.Engine
) -> None:
    late.post(BACKFILL, params=AT).raise_for_status()
    late.post("/v1/tables/orders/recreate", params=AT).raise_for_status()
    table = current(api_engine, "orders")
    _, epoch = claim_by(api_engine, table.table_id)
    sql.call(api_engine, finish_drop, table, epoch, marker_first=False)
    assert late.status("orders")["backfill"] is None
    assert 'mirrorgate_image_backfill_state{state="running"' not in late.get("/metrics").text
    late.delete(BACKFILL, params={"generation": 2}).raise_for_status()
    assert "backfill cancelled" not in [event["action"] for event in late.events("orders")]


def test_what_cannot_be_backfilled_is_rejected_at_once(late: Gateway, api_engine: sa.Engine) -> None:
    problem(late.post(BACKFILL, params={"generation": 2}), 409, "generation_mismatch")
    purge_payloads(api_engine, "orders")
    problem(late.post(BACKFILL, params=AT), 409, "payloads_purged")
    late.put("/v1/tables/orders", json={"options": {"row_images": "off"}}).raise_for_status()
    problem(late.post(BACKFILL, params=AT), 409, "no_row_images")
    late.delete("/v1/tables/orders", params=AT).raise_for_status()
    problem(late.post(BACKFILL, params=AT), 409, "wrong_table_state")


def test_the_command_asks_a_drain_and_waits_for_the_end(
    late: Gateway, api_engine: sa.Engine, terminal: Terminal
) -> None:
    command = ("tables", "backfill-images", "orders")
    assert "error generation_mismatch: " in terminal.run(*command, "--generation", 2).errors
    asked = terminal.run(*command, "--no-wait")
    assert (asked.status, "orders: running, 0 of 1 rows" in asked.output) == (0, True)
    assert "orders: cancelled, 0 of 1 rows" in terminal.run(*command, "--cancel").output
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(terminal.run, *command, "--json")
        wait_until(lambda: current(api_engine, "orders").backfill_due, within=30, what="the command has asked")
        carry_out(api_engine, "orders")
        ended = waiting.result(timeout=30)
    assert (ended.status, ended.report["complete"], ended.report["backfill"]["state"]) == (0, True, "done")
    assert "orders: every row has a row image" in terminal.run(*command).output


@pytest.mark.usefixtures("late")
def test_the_command_says_why_a_table_cannot_be_backfilled(api_engine: sa.Engine, terminal: Terminal) -> None:
    purge_payloads(api_engine, "orders")
    ended = terminal.run("tables", "backfill-images", "orders")
    assert (ended.status, "payloads_purged" in ended.errors, "in a load session" in ended.errors) == (1, True, True)
