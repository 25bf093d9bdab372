"""The pages of a table over HTTP: status, files and their batches, schema, mirrored rows, events, and who sees what."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from app.domain.fabric import DatabaseState, DatabaseStatus, FabricFault, TableMirroring
from app.domain.model.table import DropAction, DropPlan
from app.staging.ledger.reports import claim_poll, record_fabric_status, store_answer
from tests.api.calls import Gateway, own_gateway
from tests.api.console.browser.stock import Stock, Texts
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser, check_markup, signed_in
from tests.support.gateway_parts import current
from tests.support.postgres import sql

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\n\u202eevil"
ORDERS = "/console/tables/sales.orders"


@pytest.fixture
def stock(gateway: Gateway) -> Stock:
    """Give what fills the gateway; its table `sales.orders` has a published and a waiting batch."""
    stock = Stock(gateway, gateway.engine, Texts(reason=f"foreign_file: {HOSTILE}", failure=HOSTILE))
    stock.publish_and_send("sales.orders")
    return stock


def test_the_status_says_what_is_published_and_what_waits(browser: Browser, stock: Stock) -> None:
    page = browser.page(ORDERS)
    part = browser.page("/console/fragments/tables/sales.orders")
    assert "<html" not in part
    for text in (
        "Accepted <span",
        '<td class="num">43</td><td class="num">43</td><td class="num">2</td>',
        '<td class="num">40</td><td class="num">40</td><td class="num">1</td><td class="num">2</td>',
        "in 1 batch,",
        'href="/console/dead-letters?table=sales.orders"',
    ):
        assert text in page
        assert text in part
    assert page.count("<figure") == 3
    assert browser.page("/console/fragments/tables/sales.orders/plots").count("<figure") == 3
    assert browser.page("/console/tables/SALES.ORDERS").count('<a href="/console/tables/sales.orders/files">')


def test_what_is_wrong_is_named_with_its_remedy_and_nothing_is_markup(browser: Browser, stock: Stock) -> None:
    stock.fail("sales.orders")
    page = browser.page(ORDERS)
    assert "Publication fails" in page
    assert "Free space on the volume of the landing zone." in page
    assert "<img src=x" not in page
    quarantined = "UPDATE mirrorgate.tables SET state = 'quarantined', state_reason = :reason"
    sql.run(stock.engine, quarantined, reason=stock.texts.reason)
    page = browser.page(ORDERS)
    assert "Nothing is published until you release it" in page
    assert "foreign_file: &lt;script&gt;" in page


def test_a_table_whose_folder_a_rebuild_replaces_says_what_follows(browser: Browser, stock: Stock) -> None:
    plan = json.dumps(DropPlan(DropAction.REBUILD).to_json())
    rebuilding = "UPDATE mirrorgate.tables SET state = 'rebuilding', drop_plan = CAST(:plan AS jsonb)"
    sql.run(stock.engine, rebuilding, plan=plan)
    page = browser.page(ORDERS)
    assert "The table is being rebuilt" in page
    assert "then the rebuilt rows are published" in page


def test_what_fabric_says_is_shown_where_it_is_known(browser: Browser, stock: Stock) -> None:
    table = current(stock.engine, "sales.orders")
    failed = TableMirroring("sales", "orders", "Failed", 39, error=FabricFault(HOSTILE, "", "user"))
    with stock.engine.begin() as connection:
        assert claim_poll(connection, 60)
        store_answer(connection, DatabaseStatus(DatabaseState.PAUSED, "Paused"), has_tables=True)
        record_fabric_status(connection, {(table.table_id, table.generation): failed})
    page = browser.page(ORDERS)
    for words in ("Fabric has paused mirroring", "Fabric cannot mirror the table", '<td class="num">39</td>'):
        assert words in page
    assert "&lt;script&gt;alert(1)" in page
    assert 'href="/console/try?table=sales.orders"' in page


def test_files_lead_to_their_batches(browser: Browser, stock: Stock) -> None:
    page = browser.page(f"{ORDERS}/files")
    assert page.index(f'href="{ORDERS}/files/2"') < page.index(f'href="{ORDERS}/files/1"')
    assert page.count(">published<") == 2
    older = browser.page(f"{ORDERS}/files", before="2")
    assert f'href="{ORDERS}/files/2"' not in older
    assert f'href="{ORDERS}/files?before=52"' in older
    page = browser.page(f"{ORDERS}/files/2")
    assert "00000000000000000002.parquet" in page
    assert '<th scope="row" class="num">1</th><td class="num">40</td>' in page
    assert "A seed file has no batches." in browser.page(f"{ORDERS}/files/1")
    assert browser.get(f"{ORDERS}/files/3").status_code == 404
    assert browser.get(f"{ORDERS}/files/{'9' * 30}").status_code == 404
    assert f'href="{ORDERS}/files/2"' in browser.page(f"{ORDERS}/files", before="x" * 40)


def test_a_file_of_many_batches_is_shown_in_pages(browser: Browser, stock: Stock) -> None:
    many = "/console/tables/sales.many"
    stock.register("sales.many")
    stock.send("sales.many", 40)
    stock.publish("sales.many")
    table_id = current(stock.engine, "sales.many").table_id
    of_each = "batch_rows = array_fill(1, ARRAY[500]), batch_changes = array_fill(1, ARRAY[500])"
    for change in (
        f"staged_blocks SET {of_each}, last_sequence = 500 WHERE",
        "landing_files SET last_sequence = 500 WHERE number = 2 AND",
    ):
        sql.run(stock.engine, f"UPDATE mirrorgate.{change} table_id = :table_id", table_id=table_id)
    page = browser.page(f"{many}/files/2")
    assert "1 to 200 of 500 batches" in page
    assert f'href="{many}/files/2?after=200"' in page
    page = browser.page(f"{many}/files/2", after="400")
    assert "401 to 500 of 500 batches" in page
    assert f'rel="prev" href="{many}/files/2"' in page
    assert 'rel="next"' not in page


def test_the_schema_tells_its_history_and_names_are_no_markup(browser: Browser, gateway: Gateway) -> None:
    name = "<b>\u05d0\u05d1</b>"
    gateway.register("shop.items", {"id": "int64"}, ["id"], row_images="on").raise_for_status()
    gateway.register("shop.items", {"id": "int64", name: "string"}, ["id"]).raise_for_status()
    page = browser.page("/console/tables/shop.items/schema")
    assert "added: &lt;b&gt;\u05d0\u05d1&lt;/b&gt; string" in page
    assert "1 columns; key: id" in page
    assert "<b>\u05d0" not in page
    assert '<code>row_images</code></th><td class="wrap"><b><bdi>on</bdi></b>' in page
    assert page.count("not the default") == 1, "a new table has a seed file without being asked"
    assert page.count(">current<") == 1
    assert "Schemas of the metadata chain" in page
    assert "<bdi>id</bdi> <code>int64</code>, <bdi>&lt;b&gt;\u05d0\u05d1&lt;/b&gt;</bdi> <code>string</code>" in page


def test_a_table_of_thousands_of_columns_has_small_pages(browser: Browser, gateway: Gateway) -> None:
    columns = {"id": "int64"} | {f"a_column_with_quite_a_long_name_{n}": "decimal(38,10)" for n in range(1_999)}
    declared = [{"name": name, "type": of, "nullable": name != "id"} for name, of in columns.items()]
    options = {"columns": {name: {"nullable": True} for name in columns if name != "id"}}
    wanted = {"key_columns": ["id"], "columns": declared, "options": options}
    gateway.put("/v1/tables/shop.wide", json=wanted).raise_for_status()
    page = browser.page("/console/tables/shop.wide/schema")
    assert "1 to 500 of 2,000 columns" in page
    assert 'href="/console/tables/shop.wide/schema?page=2"' in page
    assert len(page.encode()) < 200_000
    assert "_name_1998</bdi>" in browser.page("/console/tables/shop.wide/schema", page="99")
    for path in ("", "/rebuild"):
        assert len(browser.page(f"/console/tables/shop.wide{path}").encode()) < 200_000


def test_events_outlive_the_table(browser: Browser, stock: Stock) -> None:
    stock.pause("sales.orders")
    stock.gateway.post("/v1/tables/sales.orders/flush", params={"generation": 1}).raise_for_status()
    page = browser.page(f"{ORDERS}/events")
    assert page.index('<th scope="row">flush</th>') < page.index('<th scope="row">pause</th>')
    sql.run(stock.engine, "UPDATE mirrorgate.tables SET state = 'dropped'")
    assert "no table has this name now" in browser.page(f"{ORDERS}/events")
    assert browser.get(ORDERS).status_code == 404


@pytest.mark.usefixtures("stock")
def test_a_page_has_no_links_to_what_a_key_may_not_see(sign_in: SignIn) -> None:
    reader = sign_in("read", tables=["sales.*"])
    assert f'href="{ORDERS}/events"' not in reader.page(ORDERS)
    assert "/console/try" not in reader.page(ORDERS)
    assert reader.get("/console/tables/a.b.c").status_code == 422


ROWS = f"{ORDERS}/rows"


@pytest.fixture
def mirrored(database_url: str, tmp_path: Path) -> Iterator[Browser]:
    """Give a browser of a gateway with two tables, whose mirror is in `tmp_path`."""
    with own_gateway(database_url, mirror_target=str(tmp_path)) as client:
        for table in ("sales.orders", "sales.new"):
            client.register(table, {"id": "int64", "note": "string"}, ["id"]).raise_for_status()
        with signed_in(client.address) as browser:
            yield browser


def test_rows_are_shown_at_any_version_and_no_value_is_markup(mirrored: Browser, tmp_path: Path) -> None:
    path = str(tmp_path / "sales" / "orders")
    write_deltalake(path, pa.table({"id": [7], "note": [HOSTILE]}), mode="append")
    write_deltalake(path, pa.table({"id": [*range(100)], "note": [None] * 100}), mode="append")
    page = mirrored.page(ROWS)
    assert "50 rows of version 1, in no particular order; it has more." in page
    assert page.count('<i class="muted">NULL</i>') + page.count("&lt;script&gt;alert(1)") == 50
    page = mirrored.page(ROWS, version="0")
    assert "1 row of version 0, in no particular order." in page
    assert "<bdi>7</bdi>" in page
    assert "<bdi>&lt;script&gt;" in page
    answer = mirrored.get(ROWS, params={"version": "9"})
    assert (answer.status_code, "unknown_version: sales.orders has no version 9" in answer.text) == (404, True)
    check_markup(answer.text)
    answer = mirrored.get("/console/tables/sales.new/rows")
    assert (answer.status_code, "not_mirrored: " in answer.text) == (404, True)


def test_a_gateway_without_a_mirror_says_how_to_see_rows(sign_in: SignIn, gateway: Gateway) -> None:
    gateway.register("sales.orders", {"id": "int64"}, ["id"]).raise_for_status()
    page = sign_in("read").page(ROWS)
    assert "MIRRORGATE_MIRROR_TARGET" in page
