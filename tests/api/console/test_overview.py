"""The overview, the list of tables and the doctor over HTTP: what needs attention, search, what a key may see."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.api.calls import Gateway, own_gateway
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser, signed_in
from tests.support.postgres import sql

HOSTILE = "landing_folder_lost: <script>alert(1)</script>\"'><img src=x onerror=alert(2)> `<b>x</b>`"


def quarantine(engine: sa.Engine, reason: str) -> None:
    sql.run(engine, "UPDATE mirrorgate.tables SET state = 'quarantined', state_reason = :reason", reason=reason)


def test_a_quarantined_table_is_named_with_reason_remedy_and_link_and_nothing_is_markup(
    browser: Browser, gateway: Gateway
) -> None:
    gateway.register("sales.orders", {"id": "int64"}, ["id"]).raise_for_status()
    quarantine(gateway.engine, HOSTILE)
    page = browser.page("/console")
    assert '<a href="/console/tables/sales.orders">sales.orders</a>' in page
    assert "landing_folder_lost: &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<code>&lt;b&gt;x&lt;/b&gt;</code>" in page
    assert "What to do:" in page
    assert "<img src=x" not in page


def test_many_tables_with_one_trouble_are_counted(browser: Browser, gateway: Gateway) -> None:
    for number in range(8):
        gateway.register(f"sales.t{number}", {"id": "int64"}, ["id"]).raise_for_status()
    quarantine(gateway.engine, "landing_folder_lost: gone")
    page = browser.page("/console/fragments/overview")
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


def test_a_landing_zone_that_this_process_cannot_look_at_takes_nothing_from_the_page(api_database: str) -> None:
    zone = f"/tmp/{'a' * 300}"  # the system rejects the name, as it does a folder of another user or a lost mount
    with own_gateway(api_database, landing_zone=zone) as own, signed_in(own.address) as browser:
        assert "Needs attention first" in browser.page("/console")


def test_the_plots_say_their_values_without_a_script(browser: Browser) -> None:
    page = browser.page("/console/fragments/overview-plots")
    assert page.count("<figure") == 3
    assert 'aria-label="Rows per second in the last 60 minutes: accepted' in page
    assert page.count("<table>") == 3


def test_the_page_names_each_part_of_the_gateway(browser: Browser) -> None:
    page = browser.page("/console")
    for label in ("API", "Postgres", "Writer", "Drains", "Tables", "Backlog", "Clocks"):
        assert f"<b>{label}</b>" in page
    assert "no drain has a running lease" in page.lower()


TABLES = """
    WITH made AS (
        INSERT INTO mirrorgate.tables (name, folded_name)
        SELECT name, name FROM (SELECT 'crm_' || lpad(n::text, 4, '0') || '.opportunities_of_region' AS name
            FROM generate_series(1, 1000) n) names
        RETURNING table_id, name),
    counted AS (
        INSERT INTO mirrorgate.table_counters (table_id, last_sequence, accepted_changes, accepted_rows)
        SELECT table_id, 1, 5, 5 FROM made),
    typed AS (
        INSERT INTO mirrorgate.schema_versions (table_id, generation, version, key_columns, columns)
        SELECT table_id, 1, 1, '{id}', '[{"name": "id", "type": "int64", "nullable": false}]' FROM made)
    SELECT min(table_id) FROM made"""
BLOCKS = """
    INSERT INTO mirrorgate.staged_blocks (table_id, generation, first_sequence, last_sequence, schema_version,
        batch_rows, batch_changes, row_count, change_count, payload_bytes, payload_digest, staged_at)
    SELECT table_id, 1, 1, 1, 1, '{5}', '{5}', 5, 5, 100, sha256(''),
        clock_timestamp() - make_interval(secs => table_id % 100) FROM mirrorgate.tables"""


def names(page: str) -> list[str]:
    """Return the names of the listed tables in order."""
    return re.findall(r'<th scope="row"><a href="[^"]*"><bdi>([^<]*)</bdi>', page)


def chips(page: str) -> dict[str, int]:
    """Return the numbers of the chips by their label."""
    found = re.findall(r'<a class="filter"[^>]*>([^<]*) <span class="number">([\d,]*)</span>', page)
    return {label: int(number.replace(",", "")) for label, number in found}


def listed(browser: Browser, **query: str) -> str:
    """Return the page of a query, whose refreshed part must list the same."""
    page = browser.page("/console/tables", **query)
    refresh = re.search(r'hx-get="([^"]*)"', page)
    assert refresh is not None
    part = browser.page(refresh[1].replace("&amp;", "&"))
    assert "<html" not in part
    assert (names(part), chips(part)) == (names(page), chips(page))
    return page


def test_tables_are_found_by_name_state_and_order(browser: Browser, gateway: Gateway) -> None:
    for table, number in (("sales.orders", 3), ("sales.items", 1), ("HR.People", 2)):
        gateway.register(table, {"id": "int64"}, ["id"]).raise_for_status()
        gateway.rows(table, *({"id": key} for key in range(number))).raise_for_status()
    gateway.post("/v1/tables/sales.items/pause", params={"generation": 1}).raise_for_status()
    lost = "state = 'quarantined', state_reason = 'landing_folder_lost: gone'"
    sql.run(gateway.engine, f"UPDATE mirrorgate.tables SET {lost} WHERE name = 'HR.People'")
    late = "staged_at = staged_at - interval '1 hour' WHERE row_count = 1"
    sql.run(gateway.engine, f"UPDATE mirrorgate.staged_blocks SET {late}")
    page = listed(browser)
    assert names(page) == ["HR.People", "sales.items", "sales.orders"]
    assert chips(page) == {"All": 3, "Active": 1, "Quarantined": 1, "Lagging": 1, "Paused": 1}
    assert "landing_folder_lost</span>" in page
    assert names(listed(browser, q="  SALES  or ")) == ["sales.orders"]
    assert names(listed(browser, state="quarantined")) == ["HR.People"]
    assert names(listed(browser, state="lagging", q="items")) == ["sales.items"]
    assert names(listed(browser, sort="lag"))[0] == "sales.items"
    assert names(listed(browser, sort="rows")) == ["sales.orders", "HR.People", "sales.items"]
    page = listed(browser, sort="rows", order="reverse", q="s")
    assert names(page) == ["sales.items", "sales.orders"]
    assert 'aria-sort="ascending"><a href="/console/tables?q=s&amp;sort=rows">' in page
    assert '<input type="hidden" name="order" value="reverse">' in page
    assert names(listed(browser, page="-1", state="none", sort="none")) == ["HR.People", "sales.items", "sales.orders"]
    page = listed(browser, q='"><script>alert(1)</script>\u202e')
    assert ("No table matches." in page, "<script>alert" in page) == (True, False)


def test_the_list_has_the_keys_own_tables_only(sign_in: SignIn, gateway: Gateway) -> None:
    for table in ("sales.orders", "hr.people"):
        gateway.register(table, {"id": "int64"}, ["id"]).raise_for_status()
    page = listed(sign_in("read", tables=["sales.*"]))
    assert names(page) == ["sales.orders"]
    assert "hr.people" not in page
    assert chips(page) == {"All": 1, "Active": 1}
    assert "There is no table that you may see." in listed(sign_in("read", tables=["none.*"]))


def test_a_thousand_tables_are_a_small_page(browser: Browser, api_engine: sa.Engine) -> None:
    sql.run(api_engine, TABLES)
    sql.run(api_engine, BLOCKS)
    page = listed(browser)
    assert (len(names(page)), chips(page)["All"]) == (100, 1000)
    assert "1 to 100 of 1,000" in page
    assert len(page.encode()) < 200_000
    assert names(listed(browser, page="10"))[-1] == "crm_1000.opportunities_of_region"
    assert names(listed(browser, page="999", q="crm_000")) == [
        f"crm_000{number}.opportunities_of_region" for number in range(1, 10)
    ]


DOCTOR = "/console/doctor"


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    folder = tmp_path / "zone <b>x"
    folder.mkdir()
    return folder


@pytest.fixture
def examiner(gateway: Gateway, api_database: str, zone: Path) -> Iterator[Browser]:
    """Give a signed-in administrator of a gateway that has a landing zone."""
    with own_gateway(api_database, landing_zone=str(zone)) as own, signed_in(own.address) as made:
        yield made


def test_an_unsafe_setting_comes_first_with_its_remedy_and_the_zone_is_examined_when_asked(
    examiner: Browser, zone: Path, api_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORGATE_LANDING_ZNOE", "secret-value")
    page = examiner.page(DOCTOR)
    checked = page.partition("<tbody>")[2]
    assert checked.index("postgres fsync") < checked.index("MIRRORGATE_LANDING_ZNOE") < checked.index(">ok</span>")
    assert "MIRRORGATE_LANDING_ZONE" in checked
    assert "What to do:" in checked
    assert "secret-value" not in page
    assert "zone &lt;b&gt;x" in page
    assert "Examine the landing zone" in page
    assert list(zone.iterdir()) == []
    answer = examiner.submit(DOCTOR)
    assert answer.status_code == 200
    for check in ("zone rename keeps existing", "zone write", "zone space"):
        assert f'<th scope="row">{check}</th>' in answer.text
    assert "secret-value" not in answer.text


def test_without_a_zone_the_page_says_where_to_ask(sign_in: SignIn) -> None:
    page = sign_in().page(DOCTOR)
    assert "has no <code>MIRRORGATE_LANDING_ZONE</code>" in page
    assert "Examine the landing zone" not in page


def test_the_overview_links_to_it_only_for_who_may_open_it(sign_in: SignIn) -> None:
    for path, links in (("/console", 2), ("/console/fragments/overview", 1)):
        assert sign_in().page(path).count(f'href="{DOCTOR}"') >= links
        page = sign_in("read").page(path)
        assert ("postgres fsync" in page, DOCTOR in page) == (True, False)
