"""A backfill of row images over HTTP: asked for, cancelled, and shown with the metrics."""

import re

import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.staging.images.backfill.progress import Backfill
from app.staging.images.backfill.run import backfill_images
from app.staging.tables.drop_completion import finish_drop
from tests.api.calls import Gateway, insert, problem
from tests.support.gateway_parts import current
from tests.support.postgres.ledger import claim_by

ORDERS = TableName.parse("orders")
BACKFILL = "/v1/tables/orders/row-images/backfill"
AT = {"generation": 1}


def test_status_and_metrics_show_how_far_it_is(gateway: Gateway, api_engine: sa.Engine) -> None:
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

    backfill_images(api_engine, ORDERS, look)
    halfway = shown[1]
    assert (halfway["state"], halfway["step"], halfway["mirror_version"]) == ("running", "payloads", None)
    assert (halfway["rows_done"], halfway["rows_total"]) == (1, 2)
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
        assert (answer.status_code, shown["state"], shown["by_drain"], shown["rows_total"]) == (202, "running", True, 1)
    assert current(api_engine, "orders").backfill_due
    for _ in range(2):
        answer = late.delete(BACKFILL, params=AT)
        assert (answer.status_code, answer.json()["backfill"]["state"]) == (200, "cancelled")
    assert not current(api_engine, "orders").backfill_due
    recorded = late.get("/v1/tables/orders/events").json()["events"]
    assert [event["action"] for event in recorded[-2:]] == ["backfill", "backfill cancelled"]
    assert [event["action"] for event in recorded].count("backfill") == 1


def test_a_command_that_runs_is_replaced_by_the_drain(late: Gateway, api_engine: sa.Engine) -> None:
    class Died(Exception):
        pass

    def die(_: Backfill) -> None:
        raise Died

    with pytest.raises(Died):
        backfill_images(api_engine, ORDERS, die)
    assert late.status("orders")["backfill"]["by_drain"] is False
    assert late.post(BACKFILL, params=AT).json()["backfill"]["by_drain"] is True


def test_a_backfill_that_ran_in_a_former_generation_is_neither_shown_nor_cancelled(
    late: Gateway, api_engine: sa.Engine
) -> None:
    late.post(BACKFILL, params=AT).raise_for_status()
    late.post("/v1/tables/orders/recreate", params=AT).raise_for_status()
    table = current(api_engine, "orders")
    _, epoch = claim_by(api_engine, table.table_id)
    with api_engine.begin() as connection:
        finish_drop(connection, table, epoch, marker_first=False)
    assert late.status("orders")["backfill"] is None
    assert 'mirrorgate_image_backfill_state{state="running"' not in late.get("/metrics").text
    late.delete(BACKFILL, params={"generation": 2}).raise_for_status()
    recorded = late.get("/v1/tables/orders/events").json()["events"]
    assert "backfill cancelled" not in [event["action"] for event in recorded]


def test_what_cannot_be_backfilled_is_rejected_at_once(late: Gateway) -> None:
    problem(late.post(BACKFILL, params={"generation": 2}), 409, "generation_mismatch")
    problem(late.post("/v1/tables/none/row-images/backfill", params=AT), 404, "unknown_table")
    late.put("/v1/tables/orders", json={"options": {"row_images": "off"}}).raise_for_status()
    problem(late.post(BACKFILL, params=AT), 409, "no_row_images")
    late.delete("/v1/tables/orders", params=AT).raise_for_status()
    problem(late.post(BACKFILL, params=AT), 409, "wrong_table_state")


def test_a_table_with_complete_images_stays_as_it_is(gateway: Gateway) -> None:
    gateway.register("orders", {"id": "int64"}, ["id"], row_images="on").raise_for_status()
    answer = gateway.post(BACKFILL, params=AT)
    assert (answer.status_code, answer.json()["backfill"], answer.json()["row_images"]["complete"]) == (202, None, True)
