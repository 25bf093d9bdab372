"""The pages of the contract in a browser: one field for the key, and nothing is loaded from elsewhere."""

from playwright.sync_api import expect

from tests.api.calls import ADMIN_KEY
from tests.api.console.browser.visitor import Visitor


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
