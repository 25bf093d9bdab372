"""Plain rows over HTTP: operations, keys, typed values, CSV, rejections with place and remedy, repeats, dry runs."""

import json
from typing import Any, Final

import pytest

from tests.api.calls import Gateway, insert, problem

COLUMNS: Final = {"id": "int64", "name": "string", "price": "decimal(20,2)"}


def register(gateway: Gateway, **options: str) -> None:
    gateway.register(TABLE, COLUMNS, ["id"], **options).raise_for_status()


TABLE: Final = "shop.items"


@pytest.fixture
def shop(gateway: Gateway) -> Gateway:
    """Give a gateway with the table of all tests."""
    register(gateway)
    return gateway


def dry(gateway: Gateway, *rows: Any, **parameters: Any) -> list[list[Any]]:
    """Return the marker and the values of the rows that would land."""
    return landed(gateway.rows(TABLE, *rows, dry_run=True, **parameters))


def landed(response: Any) -> list[list[Any]]:
    assert response.status_code == 200, response.text
    [table] = response.json()["tables"]
    return [[row["__rowMarker__"], row["id"], row["name"], row["price"]] for row in table["rows"]]


def row(key: int = 1, name: str | None = "lamp", price: Any = 1) -> dict[str, Any]:
    return {"id": key, "name": name, "price": price}


def test_rows_are_upserts_unless_the_request_or_the_row_has_another_operation(shop: Gateway) -> None:
    given = [row(1), row(2) | {"__op__": "insert"}, row(3) | {"__op__": "U"}, {"__op__": "Delete", "id": 4}]
    assert dry(shop, *given) == [
        [4, 1, "lamp", "1.00"],
        [0, 2, "lamp", "1.00"],
        [1, 3, "lamp", "1.00"],
        [2, 4, None, None],
    ]
    assert dry(shop, row(1), op="insert") == [[0, 1, "lamp", "1.00"]]
    assert dry(shop, row(1), {"id": 2}, op="delete") == [[2, 1, None, None], [2, 2, None, None]]
    assert dry(shop, row(1) | {"__op__": None}, row(2) | {"__op__": "r"}, op="delete") == [
        [2, 1, None, None],
        [4, 2, "lamp", "1.00"],
    ]


def test_an_accepted_body_gets_a_receipt_and_is_counted_by_format(shop: Gateway) -> None:
    accepted, path = 'accepted_changes_total{format="rows"}', 'ingest_path_total{format="rows"'
    before = shop.metric(accepted), shop.metric(path)
    answer = shop.rows(TABLE, row(1), row(2, None, None))
    assert answer.status_code == 202
    assert answer.json()["receipts"] == [{"table": TABLE, "generation": 1, "sequence": 1, "changes": 2, "rows": 2}]
    assert (shop.metric(accepted), shop.metric(path)) == (before[0] + 2, before[1] + 1)
    assert shop.status(TABLE)["last_sequence"] == 1


def test_csv_has_a_header_and_an_empty_field_is_null_unless_it_is_quoted(shop: Gateway) -> None:
    text = 'price, id ,name,__op__\n1.5,1,,\nNULL, 2 ,"",i\n,3,"NULL",\n\n,4,,D\n'
    assert landed(shop.csv_rows(TABLE, text, dry_run=True)) == [
        [4, 1, None, "1.50"],
        [0, 2, "", None],
        [4, 3, "NULL", None],
        [2, 4, None, None],
    ]
    other = shop.csv_rows(TABLE, "id;name;price\n1;'a;b';2\n", dry_run=True, delimiter=";", quote="'")
    assert landed(other) == [[4, 1, "a;b", "2.00"]]
    assert landed(shop.csv_rows(TABLE, "id\n7\n", dry_run=True, op="delete")) == [[2, 7, None, None]]


@pytest.mark.parametrize(
    ("text", "code", "index", "detail"),
    [
        ("id,name,price\n1,a,2\n2,b\n", "csv_field_count", 1, "line 3: the record has 2 fields, and the header has 3"),
        ("id,name,price\n1,a,many\n", "bad_value", 0, "line 2: value is not a decimal number (decimal(20,2))"),
        (
            "id,name,price,__op__\n1,a,2,X\n",
            "bad_op",
            0,
            "line 2: __op__ must be upsert, insert, update or delete, or R, I, U or D",
        ),
        ("id,name\n1,a\n", "incomplete_update", 0, "line 2: the row does not have this column"),
    ],
)
def test_a_wrong_record_is_named_by_index_and_line(
    shop: Gateway, text: str, code: str, index: int, detail: str
) -> None:
    details = problem(shop.csv_rows(TABLE, text), 422, code)
    assert (details["errors"][0]["index"], details["errors"][0]["detail"]) == (index, detail)


@pytest.mark.parametrize(
    ("text", "status", "code", "detail"),
    [
        ("", 422, "empty_request", "the body does not begin with a header"),
        ("id,name,price\n", 422, "empty_request", "the body contains no row"),
        ("id,name,id\n1,a,2\n", 400, "bad_request", "the header names a column twice"),
        ('id,name,price\n1,"a,2\n', 400, "malformed_csv", "line 2 has a field with unbalanced quotes"),
        ("id,name,price\r1,a,2\r", 400, "malformed_csv", "line 1 ends with CR only"),
        ('"id,name"\n1\n', 422, "unknown_column", "the column is not in the table, column id,name"),
    ],
)
def test_csv_that_cannot_be_read_is_rejected(shop: Gateway, text: str, status: int, code: str, detail: str) -> None:
    assert detail in problem(shop.csv_rows(TABLE, text), status, code)["detail"]


@pytest.mark.parametrize(
    ("wrong", "code", "pointer"),
    [
        ({"id": 1, "name": "a"}, "incomplete_update", "/price"),
        (row() | {"color": "red"}, "unknown_column", "/color"),
        (row() | {"__rowMarker__": 2}, "reserved_name", "/__rowMarker__"),
        (row(price="many"), "bad_value", "/price"),
        (row(price=1.234), "bad_value", "/price"),
        (row(price=[1]), "bad_value", "/price"),
        ({"id": None, "name": "a", "price": 1}, "null_key", "/id"),
        ({"__op__": "delete", "name": "a"}, "missing_key", "/id"),
        ({"__op__": "insert", "name": "a"}, "missing_key", "/id"),
        ({"__op__": "truncate"} | row(), "bad_op", "/__op__"),
        ({"__op__": 1} | row(), "bad_op", "/__op__"),
    ],
)
def test_a_wrong_row_is_named_by_index_and_pointer(
    shop: Gateway, wrong: dict[str, Any], code: str, pointer: str
) -> None:
    details = problem(shop.rows(TABLE, row(), wrong), 422, code)
    [found] = details["errors"]
    assert (found["index"], found["pointer"], found["code"]) == (1, pointer, code)
    assert shop.status(TABLE)["last_sequence"] == 0


WRONG_ROWS: Final[list[tuple[dict[str, Any], list[str]]]] = [
    ({"id": 1, "nam": "a"}, ["unknown_column nam", "incomplete_update name", "incomplete_update price"]),
    ({"id": "x", "price": 1.234}, ["bad_value id", "bad_value price", "incomplete_update name"]),
    ({"n": "a", "price": "?"}, ["unknown_column n", "bad_value price", "missing_key id", "incomplete_update name"]),
    (row(price="?") | {"color": "red"}, ["unknown_column color", "bad_value price"]),
    ({"id": None, "name": "a"}, ["null_key id", "incomplete_update price"]),
    ({"__op__": "insert", "price": "?"}, ["bad_value price", "missing_key id"]),
]
"""Rows, and all that is wrong with each."""


def test_all_problems_of_a_row_are_reported_at_once(shop: Gateway) -> None:
    for wrong, found in WRONG_ROWS:
        text = f"{','.join(wrong)}\n{','.join('' if value is None else str(value) for value in wrong.values())}\n"
        for answer in (shop.rows(TABLE, wrong), shop.csv_rows(TABLE, text)):
            details = problem(answer, 422, found[0].split()[0])
            assert [f"{error['code']} {error['column']}" for error in details["errors"]] == found


REMEDIES: Final[list[tuple[Any, str]]] = [
    ([{"id": 1, "name": "a"}], "null in a column without a value"),
    ([{"name": "a", "price": 1}], "Give every key column"),
    ([{"__op__": "insert", "name": "a"}], "Give every key column"),
    ([{"__op__": "x"} | row()], "Use upsert, insert, update or delete."),
    ([[row()]], "Send each row as an object"),
    ([{"rows": [row()]}], "Send the array of rows itself"),
    ([{"table": TABLE, "data": [row()]}], "Send the array of rows itself"),
    ("id,name,price\n1,a,2,3\n", "Compare the record at the line with the header"),
    ("id,name\n1,a\n", "null in a column without a value"),
    ("id;name;price\n1;a;2\n", "`delimiter=%3B` for `;`"),
    ("id\tname\n1\ta\n", "`delimiter=%09` for a tab"),
    ('\ufeff"id";"name";"price"\r\n"1";"a";"2"\r\n', "`delimiter=%3B` for `;`"),
]
"""Wrong rows or CSV, and a part of the remedy."""


def test_a_remedy_is_for_applications_and_not_for_tools(shop: Gateway) -> None:
    for wrong, said in REMEDIES:
        answer = shop.csv_rows(TABLE, wrong) if isinstance(wrong, str) else shop.rows(TABLE, *wrong)
        remedy = answer.json()["remedy"]
        assert said in remedy
        assert not any(word in remedy for word in ("source tool", "after image", "Arcion", "Realtime"))
    assert shop.status(TABLE)["last_sequence"] == 0


def test_the_table_is_required_and_must_exist(shop: Gateway) -> None:
    missing = problem(shop.post("/v1/changes/rows", json=row()), 400, "bad_request")
    assert missing["detail"] == "plain rows require the parameter `table`"
    problem(shop.rows("shop.others", row()), 404, "unknown_table")
    problem(shop.csv_rows("shop.others", "id\n1\n"), 404, "unknown_table")


@pytest.mark.parametrize("parameters", [{"op": "update"}, {"mode": "snapshot"}, {"delimiter": ";"}, {"override": True}])
def test_a_parameter_of_another_format_is_rejected(shop: Gateway, parameters: dict[str, Any]) -> None:
    problem(shop.rows(TABLE, row(), **parameters), 400, "bad_request")


def test_a_table_with_columns_of_such_names_takes_them_as_columns(gateway: Gateway) -> None:
    gateway.register("t", {"id": "int64", "data": "json", "headers": "string", "message": "json"}, ["id"])
    given = {"id": 1, "data": {"a": 1}, "headers": "h", "message": {"b": 2}}
    assert gateway.rows("t", given).status_code == 202


@pytest.mark.parametrize("in_csv", [False, True])
def test_rejected_rows_become_dead_letters_that_can_be_corrected(gateway: Gateway, *, in_csv: bool) -> None:
    register(gateway, dead_letters="accept")
    if in_csv:
        text = "id;name;price;__op__\n1;a;1;\n2;b;many;\n3;c;1;x\n4;d\n"
        answer = gateway.csv_rows(TABLE, text, delimiter=";", on_reject="dead_letter", op="insert")
    else:
        rows = (row(1), row(2, price="many"), row(3) | {"__op__": "x"}, {"id": 4})
        answer = gateway.rows(TABLE, *rows, on_reject="dead_letter")
    assert (answer.status_code, answer.json()["dead_letters"]) == (202, 3)
    letters = gateway.letters(TABLE)
    assert {letter["format"] for letter in letters} == {"rows_csv" if in_csv else "rows"}
    first = min(letter["id"] for letter in letters)
    at = f"/v1/tables/{TABLE}/dead-letters/{first}"
    message = gateway.get(at, headers={"Accept": "application/octet-stream"}).raise_for_status()
    assert message.text == ("2;b;many;\n" if in_csv else json.dumps(row(2, price="many"), separators=(",", ":")))
    problem(gateway.post(f"{at}/replay"), 422, "bad_value")
    correction = "2;b;7;\n" if in_csv else json.dumps(row(2, price=7))
    of_another = gateway.post(f"{at}/replay", content=correction, headers={"Content-Type": "text/plain"})
    problem(of_another, 415, "unsupported_media_type")
    headers = {"Content-Type": "text/csv; charset=utf-8" if in_csv else "application/json"}
    assert gateway.post(f"{at}/replay", content=correction, headers=headers).status_code == 202


class TestPartialRows:
    """Upserts that do not give every column."""

    def test_insert_a_new_key_with_null_where_a_column_allows_it(self, gateway: Gateway) -> None:
        register(gateway, partial_updates="complete")
        given = ({"id": 1, "name": "a"}, {"id": 1, "price": 2}, {"id": 1, "__op__": "delete"}, {"id": 1, "price": 3})
        expected = [[4, 1, "a", None], [4, 1, "a", "2.00"], [2, 1, None, None], [4, 1, None, "3.00"]]
        assert dry(gateway, *given) == expected
        for one in given:
            gateway.rows(TABLE, one).raise_for_status()
        assert dry(gateway, {"id": 1, "name": "z"}) == [[4, 1, "z", "3.00"]]

    def test_need_every_required_column_of_a_new_row(self, gateway: Gateway) -> None:
        columns = [{"name": name, "type": of, "nullable": name == "price"} for name, of in COLUMNS.items()]
        wanted = {"key_columns": ["id"], "columns": columns, "options": {"partial_updates": "complete"}}
        gateway.put(f"/v1/tables/{TABLE}", json=wanted).raise_for_status()
        [found] = problem(gateway.rows(TABLE, {"id": 1}), 422, "incomplete_update")["errors"]
        assert found["pointer"] == "/name"
        assert dry(gateway, {"id": 1, "name": "a"}) == [[4, 1, "a", None]]

    def test_never_write_null_over_a_row_that_was_sent_before_the_option_was_set(self, gateway: Gateway) -> None:
        register(gateway)
        gateway.rows(TABLE, row(1, "lamp", 5)).raise_for_status()
        register(gateway, partial_updates="complete")
        for given in ({"id": 1, "price": 6}, {"id": 2, "price": 6}):  # no image tells which of them is new
            [found] = problem(gateway.rows(TABLE, given), 422, "incomplete_update")["errors"]
            assert found["pointer"] == "/name"
        gateway.rows(TABLE, row(1, "lamp", 5)).raise_for_status()
        assert dry(gateway, {"id": 1, "price": 6}) == [[4, 1, "lamp", "6.00"]]

    def test_of_arcion_replacements_are_still_rejected(self, gateway: Gateway) -> None:
        register(gateway, partial_updates="complete")
        replacement = insert(TABLE, id="1", name="a") | {"opType": "R"}
        problem(gateway.arcion(replacement), 422, "incomplete_update")
