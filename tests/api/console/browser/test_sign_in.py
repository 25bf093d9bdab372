"""Signing in and out by the keyboard alone, and the pages of the contract."""

from playwright.sync_api import expect

from tests.api.calls import ADMIN_KEY
from tests.api.console.browser.visitor import Visitor


def test_the_keyboard_alone_signs_in_reads_and_signs_out(stranger: Visitor) -> None:
    page = stranger.page
    stranger.open("/console")
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(ADMIN_KEY)
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page).to_have_title("Overview – Mirrorgate")

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()

    stranger.open("/console")
    press_until(stranger, "details.menu > summary")
    page.keyboard.press("Enter")
    press_until(stranger, "form[action='/console/sign-out'] button")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page).to_have_title("Sign in – Mirrorgate")
    assert stranger.open("/console").url.endswith("/console/sign-in?next=/console")
    assert stranger.complaints == []


def test_escape_closes_the_menu_and_returns_to_it(visitor: Visitor) -> None:
    visitor.open("/console")
    press_until(visitor, "details.menu > summary")
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.get_by_role("button", name="Sign out")).to_be_visible()
    visitor.page.keyboard.press("Tab")
    visitor.page.keyboard.press("Escape")
    expect(visitor.page.get_by_role("button", name="Sign out")).to_be_hidden()
    expect(visitor.page.locator("details.menu > summary")).to_be_focused()


def test_the_chosen_colors_stay(visitor: Visitor) -> None:
    visitor.open("/console")
    visitor.page.locator("details.menu > summary").click()
    visitor.submit("Dark")
    expect(visitor.page.locator("html")).to_have_attribute("data-theme", "dark")
    visitor.open("/console")
    assert visitor.page.evaluate("() => getComputedStyle(document.documentElement).colorScheme") == "dark"
    assert visitor.violations() == []


def test_a_wrong_key_is_answered_beside_its_field_and_not_shown(stranger: Visitor) -> None:
    stranger.open("/console/sign-in")
    stranger.page.get_by_label("API key").fill("mg_0123456789abcdef_of-nobody")
    stranger.submit("Sign in")
    expect(stranger.page.get_by_label("API key")).to_have_attribute("aria-invalid", "true")
    expect(stranger.page.get_by_label("API key")).to_have_value("")
    assert "of-nobody" not in stranger.page.content()


def press_until(visitor: Visitor, selector: str) -> None:
    """Press Tab until the element has the focus, like somebody who sees where it is."""
    for _ in range(60):
        visitor.page.keyboard.press("Tab")
        if visitor.page.locator(selector).evaluate("(one) => one === document.activeElement"):
            return
    raise AssertionError(f"the keyboard does not reach {selector}")


def test_authorize_asks_for_the_key_alone_and_a_call_with_it_is_answered(stranger: Visitor) -> None:
    page = stranger.page
    stranger.open("/docs")
    page.get_by_role("button", name="Authorize").first.click()
    fields = page.locator(".auth-container input")
    fields.last.wait_for()
    expect(fields).to_have_count(1)
    expect(fields).to_be_focused()
    page.keyboard.type(ADMIN_KEY)
    page.keyboard.press("Enter")
    page.locator(".modal-ux button.btn-done").click()
    operation = page.locator("#operations-tables-list_tables")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    with page.expect_response("**/v1/tables**") as answered:
        operation.get_by_role("button", name="Execute").click()
    assert answered.value.status == 200
    assert stranger.complaints == []


def test_redoc_loads_nothing_from_elsewhere(stranger: Visitor) -> None:
    stranger.open("/redoc")
    stranger.page.get_by_role("link", name="API docs by Redocly").wait_for(state="attached")
    assert stranger.complaints == []
