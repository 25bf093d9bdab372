"""Testing messages in the console: the rows that would land, what is wrong with each, and that nothing stays."""

import json
import re

import pytest

from tests.api.calls import Gateway, insert
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser

PATH = "/console/try"
HOSTILE = "</textarea><script>alert(1)</script>\"'<img src=x onerror=alert(2)>"


def cells(page: str) -> list[list[str]]:
    """Return the texts of the rows that would land."""
    body = re.search(r'<table class="data">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    assert body is not None, page
    rows = re.findall(r"<tr>(.*?)</tr>", body[1], re.DOTALL)
    return [re.findall(r"<td><(?:bdi|i)[^>]*>([^<]*)<", row) for row in rows]


@pytest.fixture
def items(gateway: Gateway) -> Gateway:
    """Give the gateway with the table `shop.items`."""
    gateway.register("shop.items", {"id": "int64", "name": "string", "price": "decimal(8,2)"}, ["id"])
    return gateway


def test_rows_are_shown_as_they_would_land_and_nothing_stays(browser: Browser, items: Gateway) -> None:
    page = browser.page(PATH, format="rows", table="shop.items")
    assert 'value="shop.items"' in page
    message = json.dumps([{"id": 1, "name": HOSTILE, "price": 9.5}, {"id": 2, "__op__": "delete"}])
    answer = browser.submit(PATH, format="rows", table="shop.items", parameters="", message=message)
    assert (answer.status_code, "Accepted: 2 rows would land." in answer.text) == (200, True)
    escaped = HOSTILE.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&#34;").replace("'", "&#39;")
    assert cells(answer.text) == [["upsert", "1", escaped, "9.50"], ["delete", "2", "NULL", "NULL"]]
    assert "&lt;/textarea&gt;&lt;script&gt;" in answer.text
    assert 'href="/console/tables/shop.items"' in answer.text
    assert items.status("shop.items")["accepted"]["rows"] == 0


@pytest.mark.parametrize(
    ("form", "parameters", "message"),
    [
        ("rows_csv", "op=insert", "id,name\n1,Ada"),
        ("arcion", "", json.dumps(insert("shop.items", id="1", name="Ada"))),
        ("arcion_csv", "?mode=snapshot&header=true", "id,name,price\n1,Ada,NULL"),
        (
            "debezium",
            "",
            '{"op": "c", "after": {"id": 1, "name": "Ada", "price": null}, '
            '"source": {"connector": "postgresql", "schema": "shop", "table": "items"}}',
        ),
        (
            "replicate",
            "",
            '{"magic": "atMSG", "type": "DT", "message": {"data": {"id": 1, "name": "Ada", "price": null}, '
            '"headers": {"operation": "INSERT"}}}',
        ),
    ],
)
def test_every_format_can_be_tried(browser: Browser, items: Gateway, form: str, parameters: str, message: str) -> None:
    table = "" if form == "arcion" else "shop.items"
    answer = browser.submit(PATH, format=form, table=table, parameters=parameters, message=message)
    assert answer.status_code == 200, answer.text
    assert cells(answer.text) == [["insert", "1", "Ada", "NULL"]]
    assert f'<option value="{form}" selected>' in answer.text


def test_each_problem_has_its_place_and_remedy(browser: Browser, items: Gateway) -> None:
    row = {"name": "Ada", "price": 1}
    message = json.dumps([{"id": 1, **row}, {"id": "x", **row}, {"id": 3, **row, "color": "red"}])
    answer = browser.submit(PATH, format="rows", table="shop.items", parameters="", message=message)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    for words in ("<code>/id</code>", "<code>bad_value</code>", "<code>/color</code>", "Correct the value"):
        assert words in answer.text
    numbers = re.findall(r'<th scope="row" class="num">(\d+)</th>', answer.text)
    assert sorted({*numbers}) == ["2", "3"], "messages are counted from 1, as dead letters are"
    for fields, status, words in (
        ({"table": "shop.none"}, 404, "unknown_table: table shop.none is not registered"),
        ({"table": ""}, 400, "plain rows require the parameter `table`"),
        ({"parameters": "opp=insert"}, 400, "unknown query parameter `opp`"),
        ({"parameters": "op=steal"}, 400, "bad_request: query parameter op"),
        ({"message": "[{"}, 400, "malformed_json"),
        ({"message": json.dumps(insert("shop.items", id="1"))}, 422, "wrong_endpoint"),
    ):
        given = {"format": "rows", "table": "shop.items", "parameters": "", "message": "[]", **fields}
        answer = browser.submit(PATH, **given)
        assert (answer.status_code, words in answer.text) == (status, True), answer.text


def test_messages_that_would_register_a_table_leave_none(browser: Browser, items: Gateway) -> None:
    given = {"format": "rows", "table": "shop.new", "parameters": "columns=id:int64&key_columns=id"}
    answer = browser.submit(PATH, **given, message='{"id": 7}')
    assert cells(answer.text) == [["upsert", "7"]]
    assert items.get("/v1/tables/shop.new").status_code == 404


def test_a_large_answer_is_cut_and_a_large_message_is_rejected(browser: Browser, items: Gateway) -> None:
    rows = [{"id": number, "name": "a" * 200, "price": 1} for number in range(1_000)]
    answer = browser.submit(PATH, format="rows", table="shop.items", parameters="", message=json.dumps(rows))
    assert "Accepted: 1,000 rows would land." in answer.text
    assert len(cells(answer.text)) == 375
    assert "625 more rows" in answer.text
    assert cells(answer.text)[0][2] == "a" * 120 + "…"
    for number in range(22):
        items.register(f"shop.t{number}", {"id": "int64"}, ["id"]).raise_for_status()
    message = json.dumps([insert(f"shop.t{number}", id="1") for number in range(22)])
    answer = browser.submit(PATH, format="arcion", table="", parameters="", message=message)
    assert (answer.text.count('<table class="data">'), "2 more tables" in answer.text) == (20, True)
    answer = browser.submit(PATH, format="rows", table="shop.items", parameters="", message="a" * 2**20)
    assert answer.status_code == 413


def test_a_key_without_the_right_to_read_sees_no_stored_values(sign_in: SignIn, gateway: Gateway) -> None:
    gateway.register("shop.items", {"id": "int64", "name": "string"}, ["id"], partial_updates="complete")
    gateway.rows("shop.items", {"id": 1, "name": "secret"}).raise_for_status()
    given = {"format": "rows", "table": "shop.items", "parameters": "", "message": '{"id": 1}'}
    sender = sign_in("ingest", tables=["shop.*"])
    page = sender.submit(PATH, **given).text
    assert cells(page) == [["upsert", "1", "withheld"]]
    assert 'href="/console/tables/shop.items"' not in page
    assert "secret" not in page
    assert cells(sign_in().submit(PATH, **given).text) == [["upsert", "1", "secret"]]
