"""Every page that the console leads to: accessible, on a phone, small, without scripts, and with hostile texts."""

import json
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, urlencode

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, Response, expect

from app.console.render import SECTIONS
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.console.browser.stock import Stock, Texts
from tests.api.console.browser.tour import LOOKS, Visit, shape_of, tour, walk
from tests.api.console.browser.visitor import PHONE, Visitor, visiting
from tests.api.console.test_overview import BLOCKS, TABLES
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


MARK: Final = "hostile-element"
"""The id of each element that a text would make, if it were markup."""

MARKUP: Final = (
    f"\"'><img id={MARK} src=x onerror=alert(1)><script id={MARK}>alert(2)</script>"
    f"<a id={MARK} href=javascript:alert(3)>x</a>"
)
RIGHT_TO_LEFT: Final = "\u202egnp.tcejorp\u202c"
"""A text that reverses the text behind it, also that of other elements, unless the page isolates it."""

TEXTS: Final = Texts(
    reason=f"foreign_file: {MARKUP} `{MARKUP}` {RIGHT_TO_LEFT}",
    failure=f"{MARKUP} {RIGHT_TO_LEFT}",
    column=f"<svg id={MARK} onload=alert(4)>&lt;",
    value=MARKUP,
    producer=f"\"'><img/id={MARK}/src=x/onerror=alert(5)>{{{{7-7}}}}",
    pattern=f"{MARKUP}{RIGHT_TO_LEFT}",
    key_name=f"\"'><img/id={MARK}/src=x/onerror=alert(6)>{RIGHT_TO_LEFT}",
)

FOUND: Final = f"""() => [...document.querySelectorAll("*")].filter((one) =>
    one.id === "{MARK}" || one.getAttributeNames().some((name) => name.startsWith("on"))
    || (one.getAttribute("href") || "").startsWith("javascript:")).map((one) => one.outerHTML.slice(0, 200))"""

NOT_ISOLATED: Final = """() => [...document.querySelectorAll("body *")].filter((one) =>
    [...one.childNodes].some((node) => node.nodeType === 3 && node.data.includes("\\u202e"))
    && !/isolate|plaintext/.test(getComputedStyle(one).unicodeBidi)).map((one) => one.outerHTML.slice(0, 160))"""
"""Elements with a text that turns the writing direction also of what follows the element."""


def table_name(name: str) -> str:
    """Return the most hostile name that a table can have."""
    return f"{name}' &lt;b&gt; {{{{7-7}}}} `x` ملف"


FIRST: Final = f"/console/tables/{quote(table_name('sales.orders'), safe='')}"


@pytest.fixture(scope="module")
def attacked(chromium: Browser, api_address: str, api_engine: sa.Engine) -> Iterator[Visitor]:
    """Give an administrator in front of a gateway in which every text is an attack."""
    sql.call(api_engine, clear, restart_ids=False)
    with Gateway.at(api_address, ADMIN_KEY) as gateway:
        Stock(gateway, api_engine, TEXTS).fill(table_name)
    with visiting(chromium, api_address) as visitor:
        visitor.sign_in()
        yield visitor


def test_no_text_becomes_markup_on_any_page_nor_turns_what_is_beside_it(attacked: Visitor) -> None:
    shown = []
    for path in walk(attacked, "/console", FIRST):
        assert attacked.page.evaluate(FOUND) == [], path
        assert attacked.page.evaluate(NOT_ISOLATED) == [], path
        assert attacked.complaints == [], path
        shown.append(attacked.page.locator("body").inner_text())
    everything = "\n".join(shown)
    for text in (MARKUP, TEXTS.column, TEXTS.producer, TEXTS.pattern, table_name("sales.orders")):
        assert text in everything


def test_a_link_with_a_hostile_query_shows_no_markup(attacked: Visitor) -> None:
    fields = ("next", "q", "state", "sort", "order", "after", "before", "table", "key", "producer", "action", "page")
    query = urlencode(dict.fromkeys(fields, MARKUP))
    for page in ("", "/sign-in", "/tables", "/dead-letters", "/producers", "/audit", "/keys", "/doctor", "/none"):
        attacked.complaints.clear()
        attacked.open(f"/console{page}?{query}")
        assert attacked.page.evaluate(FOUND) == [], page
        assert attacked.complaints == [], page


def test_a_tested_message_is_shown_as_text(attacked: Visitor) -> None:
    attacked.open("/console/try")
    attacked.page.get_by_label("Table").fill(table_name("sales.orders"))
    for total, shown in (("1.00", MARKUP), (MARKUP, "bad_value")):
        row = {"order_id": 1, "customer": MARKUP, "placed_at": None, "total": total, TEXTS.column: MARKUP}
        attacked.page.get_by_label("Messages").fill(json.dumps(row))
        attacked.submit("Test")
        expect(attacked.page.locator("main")).to_contain_text(shown)
        assert attacked.page.evaluate(FOUND) == []
        assert attacked.complaints == []


def test_a_live_part_is_as_safe_as_its_page(attacked: Visitor) -> None:
    attacked.open("/console")
    attacked.page.evaluate("() => { document.querySelector('#overview-live').replaceChildren(); }")
    attacked.page.evaluate("() => htmx.trigger('#overview-live', 'refresh')")
    expect(attacked.page.locator("#overview-live")).to_contain_text(MARKUP)
    assert attacked.page.evaluate(FOUND) == []
    assert attacked.complaints == []


MAX_PAGE_BYTES: Final = 200_000


@pytest.mark.usefixtures("gateway")
def test_a_page_with_its_scripts_and_styles_is_small_at_a_thousand_tables(
    visitor: Visitor, api_engine: sa.Engine
) -> None:
    for statement in (TABLES, BLOCKS):
        sql.run(api_engine, statement)
    table = "/console/tables/crm_0001.opportunities_of_region"
    answers: list[Response] = []
    visitor.page.on("response", lambda answer: answers.append(answer))
    for path in (
        *(section.path for section in SECTIONS),
        table,
        *(f"{table}/{page}" for page in ("schema", "events", "rebuild")),
    ):
        # An answer to a script of the page before would have no body any more.
        visitor.page.goto("about:blank")
        answers.clear()
        assert visitor.open(path).ok
        assert 0 < sum(len(answer.body()) for answer in answers) < MAX_PAGE_BYTES, path
    assert visitor.complaints == []
