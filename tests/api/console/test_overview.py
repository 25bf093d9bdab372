"""The overview over HTTP: what needs attention, what a key may see, hostile texts, and its size at many tables."""

import httpx
import sqlalchemy as sa

from tests.api.calls import Gateway
from tests.api.console.conftest import SignIn
from tests.support.postgres import sql

HOSTILE = "landing_folder_lost: <script>alert(1)</script>\"'><img src=x onerror=alert(2)> `<b>x</b>`"


def quarantine(engine: sa.Engine, reason: str, names: str = "%") -> None:
    sql.run(
        engine,
        "UPDATE mirrorgate.tables SET state = 'quarantined', state_reason = :reason WHERE name LIKE :names",
        reason=reason,
        names=names,
    )


def test_a_quarantined_table_is_named_with_reason_remedy_and_link_and_nothing_is_markup(
    browser: httpx.Client, gateway: Gateway
) -> None:
    gateway.register("sales.orders", {"id": "int64"}, ["id"]).raise_for_status()
    quarantine(gateway.engine, HOSTILE)
    page = browser.get("/console").raise_for_status().text
    assert '<a href="/console/tables/sales.orders">sales.orders</a>' in page
    assert "landing_folder_lost: &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<code>&lt;b&gt;x&lt;/b&gt;</code>" in page
    assert "What to do:" in page
    assert "<img src=x" not in page
    assert page.count("<script") == page.count("<script src=")
    assert " style=" not in page
    assert " onclick" not in page


def test_many_tables_with_one_trouble_are_counted(browser: httpx.Client, gateway: Gateway) -> None:
    for number in range(8):
        gateway.register(f"sales.t{number}", {"id": "int64"}, ["id"]).raise_for_status()
    quarantine(gateway.engine, "landing_folder_lost: gone")
    page = browser.get("/console/fragments/overview").raise_for_status().text
    assert "3 more tables" in page
    assert page.count("/console/tables/sales.t") == 5
    assert 'href="/console/tables?state=quarantined"' in page


def test_a_key_sees_and_adds_up_its_own_tables_only(gateway: Gateway, sign_in: SignIn) -> None:
    for table, number in (("sales.orders", 2), ("hr.people", 5)):
        gateway.register(table, {"id": "int64"}, ["id"]).raise_for_status()
        gateway.rows(table, *({"id": key} for key in range(number))).raise_for_status()
    quarantine(gateway.engine, "landing_folder_lost: gone")
    page = sign_in("read", tables=["sales.*"]).page("/console")
    assert "sales.orders" in page
    assert "hr.people" not in page
    assert '<dt>Accepted</dt><dd><span class="number" title="2">2</span>' in page
    assert "/console/keys" not in page


def test_the_plots_say_their_values_without_a_script(browser: httpx.Client) -> None:
    page = browser.get("/console/fragments/overview-plots").raise_for_status().text
    assert page.count("<figure") == 3
    assert 'aria-label="Rows per second in the last 60 minutes: accepted' in page
    assert page.count("<table>") == 3


def test_the_page_names_each_part_of_the_gateway(browser: httpx.Client) -> None:
    page = browser.get("/console").raise_for_status().text
    for label in ("API", "Postgres", "Writer", "Drains", "Tables", "Backlog", "Clocks"):
        assert f"<b>{label}</b>" in page
    assert "no drain has a running lease" in page.lower()
