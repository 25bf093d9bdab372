"""Actions on a table in the console, its rebuild and its loads: what they ask, what they do, how far they are."""

import re
from urllib.parse import quote
from uuid import uuid4

import pytest
import sqlalchemy as sa
from markupsafe import escape

from app.domain.model.table import BatchSequence
from app.domain.rebuild import UnfitRows
from app.staging.images import (
    BackfillState,
    begin_backfill,
    end_backfill,
    find_backfill,
    store_place,
)
from app.staging.rebuild.progress import end_check, fail_rebuild, note_detail
from mirrorgate.errors import Code
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.console.browser.stock import Stock, read_by_a_drain
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser, check_markup
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
