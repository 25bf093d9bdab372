"""The live parts of a page: they change by themselves, and say when they do not."""

import sqlalchemy as sa
from playwright.sync_api import expect

from tests.api.calls import Gateway
from tests.api.console.browser.visitor import Visitor
from tests.support.gateway_parts import quarantined
from tests.support.postgres import sql

REFRESH: str = "() => htmx.trigger('#overview-live', 'refresh')"
"""What the script of the page does every five seconds."""

PRESSES: str = """() => {
    const form = document.querySelector("form.card");
    const press = () => form.dispatchEvent(new SubmitEvent("submit", { bubbles: true, cancelable: true }));
    const twice = [press(), press()];
    window.dispatchEvent(new Event("pageshow"));
    return [...twice, press()];
}"""
"""A script that sends a form twice, returns to the page and sends it again. It tells which of these are sent."""


def test_a_new_trouble_appears_without_loading_the_page(visitor: Visitor, gateway: Gateway) -> None:
    gateway.register("sales.orders", {"id": "int64"}, ["id"]).raise_for_status()
    visitor.open("/console")
    page = visitor.page
    page.evaluate("() => { window.notReloaded = true; }")
    expect(page.locator("#live")).to_have_text("Live")
    attention = page.locator("#attention-section")
    before = int(attention.get_attribute("data-alerts") or 0)
    quarantined(gateway.engine, "sales.orders", "foreign_file: 7.parquet")
    page.evaluate(REFRESH)
    expect(page.get_by_role("link", name="sales.orders")).to_be_visible()
    now = int(attention.get_attribute("data-alerts") or 0)
    assert now > before
    expect(page.locator(".sections .badge")).to_have_text(str(now))
    assert page.evaluate("() => window.notReloaded")
    assert visitor.complaints == []


def test_the_page_refreshes_by_itself(visitor: Visitor) -> None:
    visitor.page.clock.install()
    visitor.open("/console")
    with visitor.page.expect_response("**/console/fragments/overview") as answer:
        visitor.page.clock.run_for(5_500)
    assert answer.value.status == 200


def test_the_page_says_when_it_is_not_live_and_when_it_is_again(visitor: Visitor) -> None:
    visitor.open("/console")
    visitor.context.set_offline(True)
    expect(visitor.page.locator("#live")).to_have_text("Not live: the gateway does not answer")
    visitor.context.set_offline(False)
    visitor.page.evaluate(REFRESH)
    expect(visitor.page.locator("#live")).to_have_text("Live")


def test_a_page_that_is_gone_is_not_live(visitor: Visitor, gateway: Gateway, api_engine: sa.Engine) -> None:
    gateway.register("sales.orders", {"id": "int64"}, ["id"]).raise_for_status()
    visitor.open("/console/tables/sales.orders")
    sql.run(api_engine, "UPDATE mirrorgate.tables SET folded_name = 'other', name = 'other'")
    visitor.page.evaluate(REFRESH.replace("overview", "table"))
    expect(visitor.page.locator("#live")).to_have_text("Not live: load the page again to see why")


def test_a_form_on_its_way_is_not_sent_again(visitor: Visitor) -> None:
    visitor.open("/console/keys/new")
    assert visitor.page.evaluate(PRESSES) == [True, False, True]


def test_a_session_that_has_ended_leads_to_the_sign_in_page(visitor: Visitor, api_engine: sa.Engine) -> None:
    visitor.open("/console")
    sql.run(api_engine, "DELETE FROM mirrorgate.console_sessions")
    with visitor.page.expect_navigation(url="**/console/sign-in?**"):
        visitor.page.evaluate(REFRESH)
    expect(visitor.page.get_by_label("API key")).to_be_focused()


def test_every_plot_is_drawn_and_has_a_table(visitor: Visitor) -> None:
    visitor.open("/console")
    expect(visitor.page.locator(".plot canvas")).to_have_count(3)
    visitor.page.locator(".values > summary").first.click()
    expect(visitor.page.locator(".values table").first).to_be_visible()
