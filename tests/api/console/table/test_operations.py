"""Actions on a table in the console: what they ask, what they do, and how an error is shown."""

import re
from urllib.parse import quote

import pytest
from markupsafe import escape

from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.console.browser.stock import Stock
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser
from tests.support.gateway_parts import current, quarantined
from tests.support.postgres import sql

HOSTILE = "</textarea><script>alert(1)</script>\"'\n\u202eevil"
ORDERS = "/console/tables/sales.orders"


@pytest.fixture
def stock(gateway: Gateway) -> Stock:
    """Give the table `sales.orders` with a published file, a waiting batch and two dead letters."""
    stock = Stock(gateway, gateway.engine)
    stock.publish_and_send("sales.orders")
    stock.reject("sales.orders")
    return stock


def events(gateway: Gateway) -> list[tuple[str, str, str | None]]:
    """Return actor, action and reason of each event of the table."""
    return [(event["actor"], event["action"], event["reason"]) for event in gateway.events("sales.orders")]


def test_one_button_pauses_resumes_and_flushes_as_the_api_does(
    browser: Browser, gateway: Gateway, stock: Stock
) -> None:
    page = browser.page(ORDERS)
    assert (f'action="{ORDERS}/pause"' in page, f'action="{ORDERS}/resume"' in page) == (True, False)
    answer = browser.submit(f"{ORDERS}/pause", generation="1")
    assert [before.status_code for before in answer.history] == [303]
    assert "The table is paused." in answer.text
    assert gateway.status("sales.orders")["state"] == "paused"
    assert (f'action="{ORDERS}/pause"' in answer.text, f'action="{ORDERS}/resume"' in answer.text) == (False, True)
    assert "The table is active again." in browser.submit(f"{ORDERS}/resume", generation="1").text
    assert "A flush is asked for." in browser.submit(f"{ORDERS}/flush", generation="1").text
    holder = ADMIN_KEY.split("_")[1]
    assert events(gateway)[-3:] == [(holder, "pause", None), (holder, "resume", None), (holder, "flush", None)]
    assert "<script>alert" not in browser.page(ORDERS, done="<script>alert(1)</script>")


def test_an_action_on_another_generation_is_explained_on_the_page_and_does_nothing(
    browser: Browser, gateway: Gateway, stock: Stock
) -> None:
    before = events(gateway)
    for typed, status, words in (
        ("2", 409, "generation_mismatch: table sales.orders is in generation 1, not 2"),
        ("1 or so", 400, "bad_request: the field `generation` must be a whole number"),
        ("9" * 18, 409, "generation_mismatch"),
    ):
        for path in (f"{ORDERS}/pause", f"{ORDERS}/drop", f"{ORDERS}/recreate", f"{ORDERS}/files/2/repair"):
            answer = browser.submit(path, generation=typed)
            assert (answer.status_code, words in answer.text) == (status, True), path
            assert 'role="alert"' in answer.text
            assert status == 400 or "If the operation is meant for it, name it in the request." in answer.text
    assert (gateway.status("sales.orders")["state"], events(gateway)) == ("active", before)
    answer = browser.submit(f"{ORDERS}/resume", generation="2")
    assert answer.status_code == 409
    assert browser.submit("/console/tables/sales.none/pause", generation="1").status_code == 404


def test_dropping_shows_its_consequences_and_wants_the_generation_typed(
    browser: Browser, gateway: Gateway, stock: Stock
) -> None:
    assert f'href="{ORDERS}/drop"' in browser.page(ORDERS)
    page = browser.page(f"{ORDERS}/drop")
    for words in (
        "<code>sales.schema/orders</code> with 2 files of 40 rows",
        "1 batch with 3 rows that are accepted and not published are discarded.",
        "2 dead letters can be read, but no longer replayed.",
        "Then the table is gone",
        "This cannot be undone.",
    ):
        assert words in page
    answer = browser.submit(f"{ORDERS}/drop", generation="1")
    assert "The table is being dropped." in answer.text
    page = browser.page(ORDERS)
    assert "The drain deletes the landing folder, then the table is gone." in page
    assert f'href="{ORDERS}/drop"' not in page
    assert gateway.status("sales.orders")["state"] == "dropping"
    sql.run(stock.engine, "UPDATE mirrorgate.tables SET state = 'dropped', drop_plan = NULL")
    assert "The table is being dropped." in browser.page(answer.url.raw_path.decode())


def test_recreating_keeps_columns_and_options(browser: Browser, gateway: Gateway, stock: Stock) -> None:
    assert "Then generation 2 begins, empty" in browser.page(f"{ORDERS}/recreate")
    answer = browser.submit(f"{ORDERS}/recreate", generation="1")
    assert "then its next generation begins, empty." in answer.text
    plan = current(stock.engine, "sales.orders").drop_plan
    assert plan is not None
    assert (plan.action, plan.schema, plan.options) == ("recreate", None, None)


def test_a_quarantine_ends_with_a_reason_only(browser: Browser, gateway: Gateway, stock: Stock) -> None:
    quarantined(stock.engine, "sales.orders", "landing_folder_lost: gone")
    assert f'href="{ORDERS}/release"' in browser.page(ORDERS)
    page = browser.page(f"{ORDERS}/release")
    assert "The table was stopped because of landing_folder_lost: gone" in page
    answer = browser.submit(f"{ORDERS}/release", generation="1", reason=" ")
    assert (answer.status_code, "the reason must have 1 to 1,000 characters" in answer.text) == (400, True)
    answer = browser.submit(f"{ORDERS}/release", generation="2", reason=HOSTILE, rewrite_marker="1")
    assert answer.status_code == 409
    assert "&lt;/textarea&gt;&lt;script&gt;" in answer.text
    assert 'value="1" checked>' in answer.text
    answer = browser.submit(f"{ORDERS}/release", generation="1", reason=HOSTILE, rewrite_marker="1")
    assert "The table is released." in answer.text
    assert gateway.status("sales.orders")["state"] == "active"
    assert events(gateway)[-1][1:] == ("release", HOSTILE)
    page = browser.page(f"{ORDERS}/events")
    answer = browser.submit(f"{ORDERS}/release", generation="1", reason="again")
    assert (answer.status_code, "wrong_table_state: table sales.orders is active" in answer.text) == (409, True)


def test_a_published_file_is_repaired_from_its_page(browser: Browser, stock: Stock) -> None:
    page = browser.page(f"{ORDERS}/files/2")
    assert f'action="{ORDERS}/files/2/repair"' in page
    answer = browser.submit(f"{ORDERS}/files/2/repair", generation="1")
    assert "Repair requested." in answer.text
    assert f'action="{ORDERS}/files/2/repair"' not in answer.text
    assert "repair requested" in browser.page(f"{ORDERS}/files")
    assert browser.submit(f"{ORDERS}/files/9/repair", generation="1").status_code == 404


@pytest.mark.usefixtures("stock")
def test_only_an_administrator_is_offered_actions(sign_in: SignIn) -> None:
    reader = sign_in("read")
    assert 'aria-label="Actions"' not in reader.page(ORDERS)
    assert f'action="{ORDERS}/files/2/repair"' not in reader.page(f"{ORDERS}/files/2")


def test_a_table_with_an_odd_name_has_every_page_and_action(browser: Browser, gateway: Gateway) -> None:
    name = "\u05e9\u05dc\u05d5\u05dd.it's & `co` #1+2;=~ \u65e5\u672c"
    gateway.register(quote(name, safe=""), {"id": "int64"}, ["id"]).raise_for_status()
    path = re.search(r'<th scope="row"><a href="([^"]*)"><bdi>', browser.page("/console/tables"))
    assert path is not None
    page = browser.page(path[1])
    assert f"<bdi>{escape(name)}</bdi>" in page
    links = re.findall(rf'href="({re.escape(path[1])}/[a-z]+)"', page)
    assert {link.rpartition("/")[2] for link in links} == {"files", "schema", "rows", "events", "recreate", "drop"}
    for link in links:
        browser.page(link)
    form = re.search(r'action="([^"]*/pause)"', page)
    assert form is not None
    assert "The table is paused." in browser.submit(form[1], generation="1").text
    assert (
        "Accepted: 1 row would land."
        in browser.submit("/console/try", format="rows", table=name, parameters="", message='{"id": 1}').text
    )
