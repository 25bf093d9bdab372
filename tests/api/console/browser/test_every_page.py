"""Every page that the console leads to: accessible, readable on a phone, without complaints, also without scripts."""

from collections.abc import Iterator
from typing import Final

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser

from app.console.render import SECTIONS
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.console.browser.stock import Stock
from tests.api.console.browser.tour import LOOKS, Visit, shape_of, tour
from tests.api.console.browser.visitor import PHONE, Visitor, visiting
from tests.support.postgres import sql
from tests.support.postgres.databases import clear

OF_RECOVERY: Final = ("/rebuild", "/rebuild/confirm", "/loads/*/abort")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stocked(chromium: Browser, api_address: str, api_engine: sa.Engine) -> str:
    """Fill the gateway once for all tests of this module, which change nothing; its address."""
    sql.call(api_engine, clear, restart_ids=False)
    with Gateway.at(api_address, ADMIN_KEY) as gateway:
        Stock(gateway, api_engine).fill()
    return api_address


@pytest.fixture(scope="module")
def visits(chromium: Browser, stocked: str) -> Iterator[list[Visit]]:
    with visiting(chromium, stocked) as visitor:
        visitor.sign_in()
        starts = ("sales.orders/files", "sales.orders", "hr.people")  # with files, and quarantined
        yield tour(visitor, "/console", *(f"/console/tables/{start}" for start in starts))


def test_the_tour_sees_every_section_and_kind_of_page(visits: list[Visit]) -> None:
    assert visits[0].heading == "Overview"
    assert {section.path for section in SECTIONS} <= {visit.path for visit in visits}
    kinds = {shape_of(visit.path) for visit in visits}
    for kind in (
        "",
        "/files",
        "/files/*",
        "/schema",
        "/rows",
        "/events",
        "/release",
        "/drop",
        "/recreate",
        *OF_RECOVERY,
    ):
        assert f"/console/tables/*{kind}" in kinds
    assert {"/console/dead-letters/*", "/console/keys/*"} <= kinds
    assert [visit.path for visit in visits if not visit.title.endswith(" – Mirrorgate")] == []


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_no_violation(visits: list[Visit], look: str) -> None:
    assert {visit.path: visit.violations[look] for visit in visits if visit.violations[look]} == {}


def test_no_page_scrolls_sideways_on_a_phone(visits: list[Visit]) -> None:
    assert {visit.path: visit.overflow for visit in visits if visit.overflow} == {}


_HIDDEN: Final = """() => [...document.querySelectorAll(".scroll")]
    .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.getAttribute("aria-label"))"""


def test_tables_and_audit_hide_nothing_on_a_phone(chromium: Browser, stocked: str) -> None:
    with visiting(chromium, stocked) as visitor:
        visitor.sign_in()
        visitor.show(size=PHONE)
        for path, words in (("tables", ("Lag", "Rows waiting", "Dead letters")), ("audit", ("by",))):
            visitor.open(f"/console/{path}")
            assert visitor.page.evaluate(_HIDDEN) == []
            labels = visitor.page.eval_on_selector_all("td[data-label]", "all => all.map((one) => one.dataset.label)")
            assert {*words} <= {*labels}
            assert visitor.violations() == []


def test_the_browser_complains_about_nothing(visits: list[Visit]) -> None:
    assert {visit.path: visit.complaints for visit in visits if visit.complaints} == {}


def test_every_page_says_the_same_without_scripts(chromium: Browser, stocked: str, visits: list[Visit]) -> None:
    with visiting(chromium, stocked, java_script_enabled=False) as reader:
        reader.sign_in()
        for visit in visits:
            assert reader.open(visit.path).ok
            assert reader.page.locator("h1").inner_text() == visit.heading
            assert reader.page.locator("#live").inner_text() == ""
        assert reader.complaints == []


def test_the_pages_before_a_session_are_as_good(chromium: Browser, stocked: str) -> None:
    with visiting(chromium, stocked) as stranger:
        for path in ("/console/sign-in", "/console/sign-in?ended=1"):
            stranger.open(path)
            check(stranger)
        stranger.page.get_by_label("API key").fill("mg_wrong")
        stranger.submit("Sign in")
        check(stranger)


def test_a_page_that_does_not_exist_is_as_good(chromium: Browser, stocked: str) -> None:
    with visiting(chromium, stocked) as visitor:
        visitor.sign_in()
        assert visitor.open("/console/none").status == 404
        check(visitor)


def check(visitor: Visitor) -> None:
    for colors, size, rules in LOOKS.values():
        visitor.show(colors=colors, size=size)
        assert visitor.violations(*rules) == []
    assert visitor.overflow() == []
    assert visitor.complaints == []
