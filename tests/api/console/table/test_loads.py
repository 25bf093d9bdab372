"""Load sessions, row images and their backfill on the page of a table: how far they are, and how a load is aborted."""

import re
from uuid import uuid4

import pytest
import sqlalchemy as sa

from app.domain.model.table import BatchSequence
from app.staging.images import (
    BackfillState,
    begin_backfill,
    end_backfill,
    find_backfill,
    store_place,
)
from tests.api.calls import Gateway
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser, check_markup
from tests.support.gateway_parts import current
from tests.support.postgres import sql

PRICES = "/console/tables/sales.prices"


@pytest.fixture
def load(gateway: Gateway) -> str:
    """Give the id of an open load with two rows, of a table that has three."""
    gateway.register("sales.prices", {"id": "int64"}, ["id"], row_images="on").raise_for_status()
    gateway.rows("sales.prices", {"id": 0}).raise_for_status()
    begun = gateway.post("/v1/tables/sales.prices/loads", json={"mode": "full"}).raise_for_status().json()["load"]
    body = {"params": {"table": "sales.prices"}, "headers": {"Mirrorgate-Load": begun}}
    gateway.post("/v1/changes/rows", json=[{"id": 1}, {"id": 2}], **body).raise_for_status()
    return str(begun)


def test_the_open_load_is_shown_with_its_rows_and_expiry(browser: Browser, sign_in: SignIn, load: str) -> None:
    page = browser.page(PRICES)
    for words in (
        ">open<",
        "2 landed, 0 superseded",
        "if no request uses it",
        load,
        f'href="{PRICES}/loads/{load}/abort"',
    ):
        assert words in page
    assert re.search(r"<dt>Expires</dt><dd><time [^>]+>in (1 d|23 h)", page)
    assert '<dt>Row images</dt><dd><span class="number" title="3">3</span></dd><dd class="note">complete' in page
    shown = sign_in("read").page(PRICES)
    assert (load in shown, "/abort" in shown) == (True, False)


def test_the_backfill_of_row_images_is_shown(sign_in: SignIn, api_engine: sa.Engine, load: str) -> None:
    reader, table = sign_in("read"), current(api_engine, "sales.prices")
    assert "Backfill of row images" not in reader.page(PRICES)
    with api_engine.begin() as connection:
        begin_backfill(connection, table, None, 5_000, BatchSequence(9))
        begun = find_backfill(connection, table)
        assert begun is not None
        store_place(connection, begun, BatchSequence(9), BatchSequence(7), 1_200)
    page = reader.page(PRICES)
    for words in (">running<", "1,200 of 5,000", "7 of 9", "A drain runs it"):
        assert words in page
    sql.call(api_engine, end_backfill, table, BackfillState.FAILED, "the payloads are <gone>")
    assert "<bdi>the payloads are &lt;gone&gt;</bdi>" in reader.page("/console/fragments/tables/sales.prices")


def test_an_administrator_begins_and_cancels_a_backfill(gateway: Gateway, browser: Browser, sign_in: SignIn) -> None:
    gateway.register("sales.prices", {"id": "int64"}, ["id"]).raise_for_status()
    gateway.rows("sales.prices", {"id": 0}).raise_for_status()
    assert "Backfill row images" not in browser.page(PRICES)
    gateway.put("/v1/tables/sales.prices", json={"options": {"row_images": "on"}}).raise_for_status()
    assert "Backfill row images…" in browser.page(PRICES)
    asked = browser.page(f"{PRICES}/backfill")
    assert "none of them may be purged yet" in asked
    begun = browser.submit(f"{PRICES}/backfill", generation="1").text
    for words in (
        "A drain will backfill the row images.",
        ">running<",
        "A drain runs it",
        "Cancel the backfill",
    ):
        assert words in begun
    assert "Backfill row images…" not in begun
    assert current(gateway.engine, "sales.prices").backfill_due
    cancelled = browser.submit(f"{PRICES}/backfill/cancel", generation="1").text
    for words in ("The backfill is cancelled.", ">cancelled<", "Backfill row images…"):
        assert words in cancelled
    assert "Cancel the backfill" not in cancelled
    refused = browser.submit(f"{PRICES}/backfill", generation="2")
    assert (refused.status_code, "generation 1, not 2" in refused.text) == (409, True)
    assert "Backfill row images" not in sign_in("read").page(PRICES)


def test_no_backfill_is_announced_if_the_row_images_are_complete(gateway: Gateway, browser: Browser) -> None:
    gateway.register("sales.prices", {"id": "int64"}, ["id"], row_images="on").raise_for_status()
    page = browser.submit(f"{PRICES}/backfill", generation="1").text
    assert ("Row images" in page, "A drain will backfill" in page) == (True, False)


def test_a_backfill_that_has_ended_is_not_cancelled(browser: Browser, api_engine: sa.Engine, load: str) -> None:
    table = current(api_engine, "sales.prices")
    assert "is cancelled" not in browser.submit(f"{PRICES}/backfill/cancel", generation="1").text
    sql.call(api_engine, begin_backfill, table, None, 5_000, BatchSequence(9))
    sql.call(api_engine, end_backfill, table, BackfillState.DONE)
    page = browser.submit(f"{PRICES}/backfill/cancel", generation="1").text
    assert (">done<" in page, "is cancelled" in page) == (True, False)


def test_a_load_is_aborted_after_a_page_that_says_what_stays(sign_in: SignIn, gateway: Gateway, load: str) -> None:
    sender = sign_in("read", "ingest", tables=["sales.*"])
    asked = sender.page(f"{PRICES}/loads/{load}/abort")
    assert "What the load has landed remains: 2 rows." in asked
    for _ in range(2):
        page = sender.submit(f"{PRICES}/loads/{load}/abort").text
        assert ("The load session is aborted." in page, ">aborted<" in page, "Rows so far" in page) == (
            True,
            True,
            False,
        )
    assert gateway.status("sales.prices")["load"] is None
    assert sender.get(f"{PRICES}/loads/{uuid4()}/abort").status_code == 404
    assert sender.get(f"{PRICES}/loads/none/abort").status_code in {400, 404, 422}


def test_a_load_that_has_expired_is_not_called_aborted(browser: Browser, api_engine: sa.Engine, load: str) -> None:
    sql.run(api_engine, "UPDATE mirrorgate.loads SET expires_at = clock_timestamp()")
    for late in (browser.get(f"{PRICES}/loads/{load}/abort"), browser.submit(f"{PRICES}/loads/{load}/abort")):
        assert late.status_code == 409
        assert ("expired, because no request" in late.text, "is aborted" in late.text) == (True, False)


def test_a_load_that_was_completed_meanwhile_is_not_aborted(browser: Browser, gateway: Gateway, load: str) -> None:
    gateway.post(f"/v1/tables/sales.prices/loads/{load}/complete").raise_for_status()
    for late in (browser.get(f"{PRICES}/loads/{load}/abort"), browser.submit(f"{PRICES}/loads/{load}/abort")):
        check_markup(late.text)
        assert late.status_code == 409
        assert ("load_ended: " in late.text, ">completed<" in late.text) == (True, True)
    gateway.register("sales.plain", {"id": "int64"}, ["id"]).raise_for_status()
    plain = browser.page("/console/tables/sales.plain")
    assert ("Load sessions" in plain, "Row images" in plain) == (False, False)
