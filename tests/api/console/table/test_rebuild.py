"""A rebuild in the console: a plan as a form, its dry run, the page that asks, the progress, and a refused rebuild."""

import re

import pytest
import sqlalchemy as sa

from app.domain.rebuild import UnfitRows
from app.staging.rebuild.progress import end_check, fail_rebuild, note_detail
from mirrorgate.errors import Code
from tests.api.calls import Gateway
from tests.api.console.browser.stock import read_by_a_drain
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser
from tests.support.postgres import sql

ORDERS = "/console/tables/sales.orders"
FINDINGS = (UnfitRows("<b>old", Code.BAD_VALUE, 1_234, 17), UnfitRows(None, Code.KEY_IN_USE, 1, 2))
PLAN = {"keys": "area\nid", "types": " amount : decimal(12, 2) required\nnote:binary", "renames": "region = area"}


@pytest.fixture
def orders(gateway: Gateway) -> Gateway:
    """Give a gateway with a table that keeps row images."""
    columns = {"id": "int64", "region": "string", "amount": "int32", "note": "string", "<b>old": "string"}
    gateway.register("sales.orders", columns, ["id"], row_images="on").raise_for_status()
    return gateway


def checked_by_a_drain(engine: sa.Engine, *findings: UnfitRows) -> None:
    """End the dry run that is due."""
    rebuild = read_by_a_drain(engine, "sales.orders", 5_000)
    sql.call(engine, end_check, rebuild, findings, estimated_seconds=61)


def shown_plan(browser: Browser) -> str:
    """Return what tells the plan on the page that asks from others."""
    found = re.search(r'name="plan" value="([0-9a-f]{64})"', browser.page(f"{ORDERS}/rebuild/confirm"))
    assert found is not None
    return found[1]


def test_a_checked_plan_is_carried_out_after_the_generation_is_typed_in(browser: Browser, orders: Gateway) -> None:
    assert f'href="{ORDERS}/rebuild">Rebuild…</a>' in browser.page(ORDERS)
    form = browser.page(f"{ORDERS}/rebuild")
    assert 'id="keys" name="keys" rows="3" spellcheck="false">\n</textarea>' in form
    page = browser.submit(f"{ORDERS}/rebuild", generation=1, **PLAN, dropped="<b>old")
    assert page.url.path == f"{ORDERS}/rebuild"
    assert ("Dry run of a rebuild" in page.text, "no rows counted yet" in page.text) == (True, True)
    assert "<dd><bdi>amount: decimal(12,2) required, note: binary</bdi></dd>" in page.text
    assert 'name="keys"' not in page.text, "no other plan while one is checked"
    assert browser.get(f"{ORDERS}/rebuild/confirm").status_code == 409
    checked_by_a_drain(orders.engine)
    page_text = browser.page(f"{ORDERS}/rebuild")
    assert "The plan fits 5,000 row images. Copying lasts about 1 min 1 s." in page_text
    for typed in (
        "\narea\nid<",
        "\namount: decimal(12,2) required\nnote: binary<",
        "\nregion = area<",
        "\n&lt;b&gt;old<",
    ):
        assert typed in page_text, "the form has the plan that was checked"
    question = browser.page(f"{ORDERS}/rebuild/confirm")
    assert "<bdi>amount: decimal(12,2) required, note: binary</bdi>" in question
    assert "<bdi>&lt;b&gt;old</bdi>" in question
    shown = shown_plan(browser)
    wrong = browser.submit(f"{ORDERS}/rebuild/confirm", generation=2, plan=shown)
    assert (wrong.status_code, "generation_mismatch" in wrong.text) == (409, True)
    for _ in range(2):
        begun = browser.submit(f"{ORDERS}/rebuild/confirm", generation=1, plan=shown)
        assert ("The table is being rebuilt." in begun.text, ">copying<" in begun.text) == (True, True)
    plans = sql.rows(orders.engine, "SELECT details FROM mirrorgate.table_events WHERE action LIKE 'rebuild%'")
    assert len(plans) == 2
    assert plans[0] == plans[1]
    columns = {column["name"]: (column["type"], column["nullable"]) for column in plans[0][0]["schema"]["columns"]}
    assert columns == {
        "id": ("int64", False),
        "area": ("string", False),
        "amount": ("decimal(12,2)", False),
        "note": ("binary", True),
    }


@pytest.mark.parametrize(("fields", "key"), [({}, "id"), ({"renames": "id = order_id"}, "order_id")])
def test_empty_fields_change_nothing(browser: Browser, orders: Gateway, fields: dict[str, str], key: str) -> None:
    page = browser.submit(f"{ORDERS}/rebuild", generation=1, keys="", **fields)
    assert page.status_code == 200
    assert ("Columns and key do not change." in page.text) == (not fields)
    assert sql.value(orders.engine, "SELECT plan FROM mirrorgate.rebuilds")["schema"]["key_columns"] == [key]


def test_what_a_rebuild_has_read_is_not_called_landed(orders: Gateway, browser: Browser) -> None:
    orders.post("/v1/tables/sales.orders/rebuild", params={"generation": 1}).raise_for_status()
    read_by_a_drain(orders.engine, "sales.orders", 5_000)
    for phase, ended, words in (
        ("replacing", "NULL", "The rows of 5,000 row images are copied."),
        ("done", "now()", "has the rows of 5,000 row images"),
    ):
        sql.run(orders.engine, f"UPDATE mirrorgate.rebuilds SET phase = '{phase}', finished_at = {ended}")
        assert words in browser.page(ORDERS)


def test_a_plan_is_offered_to_tables_that_take_one(browser: Browser, orders: Gateway) -> None:
    versions = {"row_images": "on", "history": "append_only"}
    orders.register("sales.versions", {"id": "int64"}, ["id"], **versions).raise_for_status()
    page = browser.page("/console/tables/sales.versions")
    assert ("/recreate" in page, "/rebuild" in page) == (True, False)
    assert 'name="keys"' in browser.page(f"{ORDERS}/rebuild")
    orders.post("/v1/tables/sales.orders/recreate", params={"generation": 1}).raise_for_status()
    assert 'name="keys"' not in browser.page(f"{ORDERS}/rebuild")


def test_only_the_plan_that_the_page_showed_is_carried_out(browser: Browser, orders: Gateway) -> None:
    browser.submit(f"{ORDERS}/rebuild", generation=1, keys="id").raise_for_status()
    checked_by_a_drain(orders.engine)
    shown = shown_plan(browser)
    browser.submit(f"{ORDERS}/rebuild", generation=1, keys="id", dropped="note").raise_for_status()
    checked_by_a_drain(orders.engine)
    refused = browser.submit(f"{ORDERS}/rebuild/confirm", generation=1, plan=shown)
    assert (refused.status_code, "not the last one that was checked" in refused.text) == (409, True)
    assert "<bdi>note</bdi>" in refused.text, "the page shows the other plan"
    assert orders.status("sales.orders")["rebuild"]["phase"] == "checked"
    assert shown_plan(browser) != shown
    browser.submit(f"{ORDERS}/rebuild/confirm", generation=1, plan=shown_plan(browser)).raise_for_status()
    assert orders.status("sales.orders")["rebuild"]["phase"] == "copying"


def test_the_progress_of_a_rebuild_and_why_it_was_refused_are_on_the_page_of_the_table(
    orders: Gateway, sign_in: SignIn
) -> None:
    reader = sign_in("read")
    orders.post("/v1/tables/sales.orders/rebuild", params={"generation": 1}).raise_for_status()
    copying = read_by_a_drain(orders.engine, "sales.orders", 1_200)
    sql.call(orders.engine, note_detail, copying, "worker <lost>")
    for path in (ORDERS, "/console/fragments/tables/sales.orders", "/console/fragments/tables/sales.orders/rebuild"):
        page = reader.page(path)
        assert 'aria-label="Rows read" max="5000" value="1200" aria-valuetext="1,200 of 5,000 rows">' in page
        assert "1,200 of 5,000 rows, 24\u00a0%" in page
        assert "the drain will retry: <bdi>worker &lt;lost&gt;</bdi>" in page
    sql.call(orders.engine, fail_rebuild, copying, FINDINGS, "1,235 rows do not fit")
    page = reader.page(ORDERS)
    for words in ("The table was not rebuilt", "&lt;b&gt;old", "<code>bad_value</code>", "1,234", "the key</th>"):
        assert words in page


def test_a_plan_that_does_not_fit_or_that_is_outdated_cannot_be_carried_out(browser: Browser, orders: Gateway) -> None:
    browser.submit(f"{ORDERS}/rebuild", generation=1, keys="id").raise_for_status()
    checked_by_a_drain(orders.engine, *FINDINGS)
    page = browser.page(ORDERS)
    assert ("would be refused" in page, f"{ORDERS}/rebuild/confirm" in page) == (True, False)
    assert browser.submit(f"{ORDERS}/rebuild/confirm", generation=1).status_code == 409
    browser.submit(f"{ORDERS}/rebuild", generation=1, keys="id").raise_for_status()
    checked_by_a_drain(orders.engine)
    assert f"{ORDERS}/rebuild/confirm" in browser.page(ORDERS)
    orders.put("/v1/tables/sales.orders", json={"options": {"dead_letters": "accept"}}).raise_for_status()
    page = browser.page(ORDERS)
    assert ("Check the plan again" in page, f"{ORDERS}/rebuild/confirm" in page) == (True, False)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"types": "<i>: int64"}, "no such column"),
        ({"types": "amount int64"}, "write `column: type`"),
        ({"types": "amount: number"}, "bad_type: `amount: number`: unknown column type"),
        ({"types": "amount: required"}, "bad_type"),
        ({"renames": "amount"}, "write `old = new`"),
        ({"dropped": "note\nnote"}, "left out twice"),
        ({"dropped": "id"}, "bad_schema"),
    ],
)
def test_a_wrong_line_is_named_and_what_was_typed_stays(
    browser: Browser, orders: Gateway, fields: dict[str, str], words: str
) -> None:
    answer = browser.submit(f"{ORDERS}/rebuild", generation=1, **{"keys": "id", "types": "note: binary", **fields})
    assert answer.status_code == 422
    assert words in answer.text
    assert "<i>" not in answer.text
    assert ("note: binary</textarea>" in answer.text) == ("types" not in fields)
    assert orders.status("sales.orders")["rebuild"] is None


def test_only_tables_with_an_image_of_each_row_are_rebuilt(browser: Browser, orders: Gateway) -> None:
    orders.register("sales.plain", {"id": "int64"}, ["id"]).raise_for_status()
    assert "/rebuild" not in browser.page("/console/tables/sales.plain")
    refused = browser.submit("/console/tables/sales.plain/rebuild", generation=1, keys="id")
    assert (refused.status_code, "no_row_images" in refused.text) == (409, True)
    assert browser.get("/console/fragments/tables/sales.plain/rebuild").status_code == 404
