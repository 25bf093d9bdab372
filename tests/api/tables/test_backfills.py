"""A backfill of row images over HTTP: asked for, cancelled, and shown with the metrics."""

import re
from concurrent.futures import ThreadPoolExecutor

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

BACKFILL = "/v1/tables/orders/row-images/backfill"
AT = {"generation": 1}


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


def test_a_table_with_complete_images_stays_as_it_is(gateway: Gateway) -> None:
    gateway.register("orders", {"id": "int64"}, ["id"], row_images="on").raise_for_status()
    answer = gateway.post(BACKFILL, params=AT)
    assert (answer.status_code, answer.json()["backfill"], answer.json()["row_images"]["complete"]) == (202, None, True)
