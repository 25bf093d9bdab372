"""Texts that others choose, in every place where the console shows them: they stay text."""

import json
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, urlencode

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, expect

from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.console.browser.stock import Stock, Texts
from tests.api.console.browser.tour import walk
from tests.api.console.browser.visitor import Visitor, visiting
from tests.support.postgres import sql
from tests.support.postgres.databases import clear

pytestmark = pytest.mark.slow

MARK: Final = "hostile-element"
"""The id of each element that a text would make, if it were markup."""

MARKUP: Final = (
    f"\"'><img id={MARK} src=x onerror=alert(1)><script id={MARK}>alert(2)</script>"
    f"<a id={MARK} href=javascript:alert(3)>x</a>"
)
RIGHT_TO_LEFT: Final = "\u202egnp.tcejorp\u202c"
"""Reverses what follows, also outside of its own element, unless the page isolates it."""

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
