"""The pages of dead letters: who sees what, and replay, correction and discard with their outcomes and events."""

from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa

from app.staging.tables.operations import finish_drop
from tests.api.calls import Gateway, insert
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser, link_of
from tests.support.gateway_parts import current
from tests.support.postgres import sql
from tests.support.postgres.ledger import claim_by

PATH = "/console/dead-letters"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\n\u202eevil"


@pytest.fixture
def browser(browser: Browser, gateway: Gateway) -> Browser:
    """Give a signed-in administrator, and the tables `shop.items` and `hr.people`, which keep dead letters."""
    for table in ("shop.items", "hr.people"):
        gateway.register(table, {"id": "int64", "n": "int32"}, ["id"], dead_letters="accept").raise_for_status()
    return browser


def leave(gateway: Gateway, table: str = "shop.items", **after: Any) -> int:
    """Post a message that is kept as a dead letter; return its id."""
    message = insert(table, **({"id": "1", "n": HOSTILE} | after))
    gateway.arcion(message, on_reject="dead_letter").raise_for_status()
    return max(int(letter["id"]) for letter in gateway.letters(table))


@contextmanager
def full_disk_at(engine: sa.Engine, letter: int) -> Iterator[None]:
    """Let Postgres have no disk space left when this letter is settled."""
    body = "BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END"
    sql.run(engine, f"CREATE FUNCTION mirrorgate.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
    trigger = "CREATE TRIGGER full_disk BEFORE UPDATE ON mirrorgate.dead_letters FOR EACH ROW "
    sql.run(engine, f"{trigger} WHEN (OLD.letter_id = {letter}) EXECUTE FUNCTION mirrorgate.full_disk()")
    try:
        yield
    finally:
        sql.run(engine, "DROP FUNCTION mirrorgate.full_disk CASCADE")


def test_the_list_says_why_and_a_letter_with_hostile_values_shows_them_only_when_asked(
    browser: Browser, gateway: Gateway
) -> None:
    letter = leave(gateway)
    page = browser.page(PATH)
    assert f'<a href="{PATH}/{letter}">{letter}</a>' in page
    assert "<code>bad_value</code>" in page
    assert "(column n)" in page
    one = browser.page(f"{PATH}/{letter}")
    assert "alert(1)" not in one
    assert "What to do:" in one
    shown = browser.page(f"{PATH}/{letter}", message="1")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    file = browser.get(f"{PATH}/{letter}/message")
    assert (file.headers["content-disposition"][:10], file.headers["cache-control"]) == ("attachment", "no-store")
    assert file.json()["after"]["n"] == HOSTILE


def test_filters_and_pages_keep_each_other(browser: Browser, gateway: Gateway) -> None:
    bad = [insert("shop.items", id=str(key), n="x") for key in range(51)]
    gateway.arcion(*bad, on_reject="dead_letter").raise_for_status()
    other = leave(gateway, "hr.people")
    assert f'/{other}"' in browser.page(PATH)
    for filters in ({"table": "SHOP"}, {"table": "shop.items", "code": "bad_value"}):
        page = browser.page(PATH, **filters)
        assert (f'/{other}"' in page, page.count('type="checkbox"')) == (False, 50)
        second = browser.page(link_of(page, "next"))
        assert second.count('type="checkbox"') == 1
        assert browser.page(link_of(second, "prev")).count('type="checkbox"') == 50
    assert "No dead letters" in browser.page(PATH, code="null_key")
    assert "No dead letters" in browser.page(PATH, state="discarded")
    assert browser.get(PATH, params={"before": "x"}).status_code == 400


def test_a_key_sees_and_settles_letters_of_its_tables_only_and_without_admin_no_messages(
    browser: Browser, gateway: Gateway, sign_in: SignIn
) -> None:
    own, other = leave(gateway), leave(gateway, "hr.people")
    reader = sign_in("read", tables=["shop.*"])
    page = reader.page(PATH)
    assert (f'{PATH}/{own}"' in page, f'{PATH}/{other}"' in page, "checkbox" in page) == (True, False, False)
    assert "alert(1)" not in reader.page(f"{PATH}/{own}", message="1")
    part = sign_in("admin", tables=["shop.*"])
    assert part.submit(f"{PATH}/discard", **{f"letter-{other}": "on", "confirmed": "yes"}).text.count("<tr>") <= 1
    assert "waiting" in browser.page(f"{PATH}/{other}")


def test_a_letter_is_corrected_and_replayed_and_a_rejected_correction_is_kept_in_the_form(
    browser: Browser, gateway: Gateway
) -> None:
    letter = leave(gateway)
    rejections = 'rejected_requests_total{code="bad_value"}'
    before = gateway.metric(rejections)
    again = browser.submit(f"{PATH}/{letter}/replay")
    assert again.status_code == 422
    assert gateway.metric(rejections) == before + 1
    assert "bad_value" in again.text
    wrong = browser.submit(f"{PATH}/{letter}/replay", message='{"tableName": </textarea><b>')
    assert wrong.status_code == 400
    assert "&lt;/textarea&gt;&lt;b&gt;" in wrong.text
    fixed = gateway.get(f"/v1/tables/shop.items/dead-letters/{letter}").json()
    fixed["after"]["n"] = "7"
    correction = str(fixed).replace("'", '"').replace("None", "null")
    with full_disk_at(gateway.engine, letter):
        refused = browser.submit(f"{PATH}/{letter}/replay", message=correction)
    assert (refused.status_code, correction in unescape(refused.text)) == (503, True)
    done = browser.submit(f"{PATH}/{letter}/replay", message=correction)
    assert (done.status_code, done.url.path) == (200, f"{PATH}/{letter}")
    assert "Done: the dead letter is replayed" in done.text
    assert "corrected" in done.text
    assert gateway.status("shop.items")["accepted"]["rows"] == 1
    settled = browser.submit(f"{PATH}/{letter}/replay")
    assert (settled.status_code, "dead_letter_settled" in settled.text) == (409, True)


def test_selected_letters_are_replayed_or_after_a_question_discarded_each_with_its_outcome(
    browser: Browser, gateway: Gateway
) -> None:
    letters = [leave(gateway, id=str(key)) for key in range(3)]
    gateway.register("shop.items", {"id": "int64", "n": "int32"}, ["id"]).raise_for_status()
    replayed = browser.submit(f"{PATH}/replay", **{f"letter-{letter}": "on" for letter in letters[:2]})
    assert "0 of 2 done" in replayed.text
    assert replayed.text.count("bad_value") == 2
    asked = browser.submit(f"{PATH}/discard", **{f"letter-{letter}": "on" for letter in letters[:2]})
    assert "Discard 2 dead letters?" in asked.text
    assert gateway.status("shop.items")["dead_letters"]["waiting"] == 3
    done = browser.submit(f"{PATH}/discard", confirmed="yes", **{f"letter-{letter}": "on" for letter in letters[:2]})
    assert "2 of 2 done" in done.text
    assert gateway.status("shop.items")["dead_letters"]["waiting"] == 1
    assert [
        event["actor"] for event in gateway.events("shop.items") if event["action"] == "dead letters discarded"
    ] == [
        "0000000000000001",
        "0000000000000001",
    ]
    nothing = browser.submit(f"{PATH}/replay")
    assert (nothing.status_code, "no dead letter is selected" in nothing.text) == (400, True)


def test_all_letters_of_one_table_are_replayed_or_discarded_with_the_generation_typed_in(
    browser: Browser, gateway: Gateway
) -> None:
    letters = [leave(gateway, id=str(key)) for key in range(2)]
    page = browser.page(PATH, table="Shop.Items")
    assert "Replay all of shop.items" in page
    answer = browser.submit(f"{PATH}/replay-table", table="shop.items")
    assert "0 replayed, 2 rejected again" in answer.text
    wanted = {"table": "shop.items", "through": max(letters)}
    assert browser.submit(f"{PATH}/discard-table", generation=2, **wanted).status_code == 409
    assert "No dead letters" in browser.submit(f"{PATH}/discard-table", generation=1, **wanted).text


def test_one_letter_is_discarded_only_with_its_id_typed_in(browser: Browser, gateway: Gateway) -> None:
    letter = leave(gateway)
    assert browser.submit(f"{PATH}/{letter}/discard", dead_letter=letter + 1).status_code == 400
    assert "Done: the dead letter is discarded" in browser.submit(f"{PATH}/{letter}/discard", dead_letter=letter).text


def test_a_letter_of_an_ended_generation_cannot_be_settled_and_a_settled_one_not_discarded_again(
    browser: Browser, gateway: Gateway
) -> None:
    ended, dropped = leave(gateway), leave(gateway, "hr.people")
    gateway.post("/v1/tables/shop.items/recreate?generation=1").raise_for_status()
    gateway.delete("/v1/tables/hr.people?generation=1").raise_for_status()
    for name in ("shop.items", "hr.people"):
        table = current(gateway.engine, name)
        _, epoch = claim_by(gateway.engine, table.table_id)
        sql.call(gateway.engine, finish_drop, table, epoch, marker_first=False)
    page = browser.page(PATH)
    assert (page.count("generation ended"), "checkbox" in page) == (2, False)
    for letter in (ended, dropped):
        assert 'action="' + f"{PATH}/{letter}" not in browser.page(f"{PATH}/{letter}")
        refused = browser.submit(f"{PATH}/{letter}/discard", dead_letter=letter)
        assert (refused.status_code, "generation_mismatch" in refused.text) == (409, True)
    all_of = {f"letter-{letter}": "on" for letter in (ended, dropped)}
    assert "0 of 2 done" in browser.submit(f"{PATH}/discard", confirmed="yes", **all_of).text
    settled = leave(gateway)
    browser.submit(f"{PATH}/{settled}/discard", dead_letter=settled)
    again = browser.submit(f"{PATH}/{settled}/discard", dead_letter=settled)
    assert (again.status_code, "dead_letter_settled" in again.text) == (409, True)
    listed = browser.submit(f"{PATH}/discard", confirmed="yes", **{f"letter-{settled}": "on"})
    assert "0 of 1 done" in listed.text


def test_when_postgres_refuses_the_rest_of_the_selection_is_listed_as_not_tried(
    browser: Browser, gateway: Gateway
) -> None:
    letters = [leave(gateway, id=str(key)) for key in range(3)]
    chosen = {f"letter-{letter}": "on" for letter in letters}
    with full_disk_at(gateway.engine, letters[1]):
        done = browser.submit(f"{PATH}/discard", confirmed="yes", **chosen)
        assert (done.status_code, "1 of 3 done" in done.text) == (200, True)
        assert (done.text.count("database_unavailable"), done.text.count("Not tried.")) == (1, 1)
    assert gateway.status("shop.items")["dead_letters"]["waiting"] == 2
    assert "2 of 3 done" in browser.submit(f"{PATH}/discard", confirmed="yes", **chosen).text
