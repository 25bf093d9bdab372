"""The pages of producers and of the audit: who sees what, search, filters and pages, with hostile names."""

import re
from urllib.parse import quote

import pytest

from tests.api.calls import Gateway
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser, check_markup, link_of, signed_in
from tests.support.waiting import wait_until

HOSTILE = "<b>x</b>\"'&{{7*7}}"


@pytest.fixture
def browser(browser: Browser, gateway: Gateway) -> Browser:
    """Give a signed-in administrator and a table `shop.items`."""
    gateway.register("shop.items", {"id": "int64"}, ["id"]).raise_for_status()
    return browser


def send(gateway: Gateway, producer: str, number: int = 1, position: str | None = None) -> None:
    headers = {"Mirrorgate-Producer": producer, "Mirrorgate-Producer-Sequence": str(number)}
    if position is not None:
        headers["Mirrorgate-Producer-Position"] = position
    gateway.body("rows", b'{"id": %d}' % number, headers=headers, table="shop.items").raise_for_status()


def names_in(page: str) -> list[str]:
    return re.findall(r"<bdi[^>]*>(p-\d{3})", page)


def test_producers_have_their_last_number_position_and_age(browser: Browser, gateway: Gateway) -> None:
    send(gateway, HOSTILE)
    send(gateway, HOSTILE, 2, position="<i>lsn</i>")
    page = browser.page("/console/producers")
    assert "&lt;b&gt;x&lt;/b&gt;&#34;&#39;&amp;{{7*7}}" in page
    assert "&lt;i&gt;lsn&lt;/i&gt;" in page
    assert '<td class="num">2</td>' in page
    assert "<time" in page
    assert "No producers" in browser.page("/console/producers", q="nobody")
    assert "{{7*7}}" in browser.page("/console/producers", q="X</B>")
    assert browser.get("/console/producers", params={"q": "\0"}).status_code == 400


def test_a_key_sees_its_own_producers_and_an_administrator_all(
    browser: Browser, gateway: Gateway, sign_in: SignIn
) -> None:
    send(gateway, "of-the-administrator")
    key = gateway.new_key("ingest")["key"]
    with Gateway.at(gateway.address, key) as sender:
        send(sender, "of-the-key")
    with signed_in(gateway.address, key) as other:
        page = other.page("/console/producers")
        assert ("of-the-key" in page, "of-the-administrator" in page) == (True, False)
        assert "of-the-administrator" not in other.page("/console/producers", key="0", producer="")
    page = browser.page("/console/producers")
    assert ("of-the-key" in page, "of-the-administrator" in page) == (True, True)
    assert "/console/producers" not in sign_in("read").page("/console")


def test_producers_are_paged_both_ways_in_the_order_of_their_names(browser: Browser, gateway: Gateway) -> None:
    for number in range(103):
        send(gateway, f"p-{number:03}")
    first = browser.page("/console/producers", q="p-")
    second = browser.page(link_of(first, "next"))
    third = browser.page(link_of(second, "next"))
    assert [names_in(page) for page in (first, second, third)] == [
        [f"p-{number:03}" for number in some] for some in (range(50), range(50, 100), range(100, 103))
    ]
    assert 'rel="next"' not in third
    back = browser.page(link_of(third, "prev"))
    assert names_in(back) == names_in(second)
    assert 'rel="prev"' not in browser.page(link_of(back, "prev"))


def test_the_audit_is_filtered_by_caller_table_action_and_outcome(browser: Browser, gateway: Gateway) -> None:
    reason = quote(HOSTILE, safe="")
    gateway.post("/v1/tables/shop.items/pause?generation=1").raise_for_status()
    assert gateway.post(f"/v1/tables/shop.items/release?generation=1&reason={reason}").status_code >= 400
    assert gateway.get("/v1/tables/shop.items", headers={"Authorization": "Bearer mg_wrong"}).status_code == 401
    page = wait_until(
        lambda: page if "unauthenticated" in (page := browser.page("/console/audit")) else None,
        within=60,
        what="the rejected call is in the audit",
    )
    check_markup(page)
    assert page.index("unauthenticated") < page.index("sign_in")
    actions = {
        "pause": browser.page("/console/audit", action="PAUSE"),
        "sign_in": browser.page("/console/audit", action="sign", outcome="done"),
        "unauthenticated": browser.page("/console/audit", outcome="rejected"),
    }
    for wanted, filtered in actions.items():
        rows = filtered.partition("<tbody>")[2]
        assert wanted in rows
        assert not any(other in rows for other in actions if other != wanted)
    assert "No events" in browser.page("/console/audit", subject="nobody")
    assert "pause" in browser.page("/console/audit", table="SHOP", subject="0000")
    assert "&lt;b&gt;" in browser.page("/console/audit", subject=HOSTILE)


def test_the_audit_has_pages_and_only_an_administrator_of_all_tables_a_link_to_them(
    browser: Browser, gateway: Gateway, sign_in: SignIn
) -> None:
    assert "/console/audit" not in sign_in("admin", tables=["shop.*"]).page("/console")
    for _ in range(26):
        gateway.post("/v1/tables/shop.items/pause?generation=1").raise_for_status()
        gateway.post("/v1/tables/shop.items/resume?generation=1").raise_for_status()
    first = browser.page("/console/audit", table="shop.items")
    assert first.count("<tr>") == 51
    second = browser.page(link_of(first, "next"))
    assert 2 <= second.count("<tr>") <= 6
    assert browser.page(link_of(second, "prev")).count("<tr>") == 51
