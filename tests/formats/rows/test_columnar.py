"""Rows in JSON and CSV: the columnar path gives what the exact path gives."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.model.change import Operation
from app.domain.rows.row_rules import RowRules
from app.formats.rows.columnar import CsvBody, CsvReader
from app.formats.rows.messages import RowsLayout, decode_csv_rows
from mirrorgate.errors import RejectedInput
from mirrorgate.parameters import CsvDialect, RowOperation
from tests.fuzz.decoders import ROWS_RULES, check_csv_paths_agree, columnar_csv_rows, columnar_rows, exact_rows, tried
from tests.support.samples.messages import body_of
from tests.support.samples.schemas import schema_of

COLUMNS = ROWS_RULES[0].schema.names
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.sampled_from([1, 2, "3"]),
    "amount": st.sampled_from([1, -7, "2.50", None]) | st.decimals(-999, 999, places=2),
    "name": st.sampled_from(["", "null", 'a " : {', "\\", "ä", "\u2028", '","id":"3', None, 5, True]),
    "doc": st.sampled_from([None, "{}", 1, {"a": [1]}, [], {"__op__": 1}]),
}
OPERATIONS = st.sampled_from(["upsert", "Insert", "UPDATE", "delete", "d", "R", "i", "U", None, "x", 1])


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a row that gives all columns or some, and at times its operation or an unknown column."""
    given_columns = draw(st.just(COLUMNS) | st.lists(st.sampled_from(COLUMNS), unique=True))
    row = {name: draw(VALUES[name]) for name in given_columns}
    if draw(st.integers(0, 3)) == 0:
        row["__op__"] = draw(OPERATIONS)
    if draw(st.integers(0, 9)) == 0:
        row["other"] = 1
    return row


@given(
    all_rows=st.lists(rows(), min_size=1, max_size=6),
    lines=st.booleans(),
    escaped=st.booleans(),
    compact=st.booleans(),
)
def test_both_paths_give_the_same_rows_and_images(
    all_rows: list[dict[str, Any]], *, lines: bool, escaped: bool, compact: bool
) -> None:
    tried("plain_rows", body_of(all_rows, lines=lines, escaped=escaped, compact=compact))


@given(
    all_rows=st.lists(rows(), min_size=1, max_size=4),
    old=st.sampled_from(['"id"', '"__op__"', ": ", "}", "1", '"', ",", "null", "-7"]),
    new=st.sampled_from(['"id": 7, "id"', '"\\u0000"', '"\\ud800"', "-0", "1e5", "NaN", "{}", ', "z": 1', ""]),
    place=st.integers(0, 9),
)
def test_a_damaged_body_takes_the_exact_path_or_gives_the_same(
    all_rows: list[dict[str, Any]], old: str, new: str, place: int
) -> None:
    parts = body_of(all_rows, lines=False, escaped=True, compact=False).decode().split(old)
    place %= len(parts)
    tried("plain_rows", (old.join(parts[:place]) + new + old.join(parts[place:])).encode())


FULL = {"id": 1, "amount": "2.50", "name": "a", "doc": None}


@pytest.mark.parametrize(
    "body",
    [
        [FULL],
        [FULL | {"amount": 7}, FULL | {"amount": None}],
        [FULL, {"id": 1, "__op__": "delete"}],
        [{"id": 1, "__op__": "D"}],
        [FULL | {"__op__": "insert"}, FULL | {"__op__": None}],
        [{"id": 1, "name": "ä", "__op__": "I"}],
    ],
)
@pytest.mark.parametrize("lines", [True, False])
def test_a_usual_body_takes_the_columnar_path(body: list[dict[str, Any]], *, lines: bool) -> None:
    text = body_of(body, lines=lines, escaped=False)
    assert columnar_rows(text, RowOperation.UPSERT, ROWS_RULES[0]) == exact_rows(
        text, RowOperation.UPSERT, ROWS_RULES[0]
    )


def test_a_number_with_a_fraction_takes_the_columnar_path_with_all_its_digits() -> None:
    body = b'{"id": 1, "amount": 12345678901234567890.12, "name": 9007199254740993, "doc": 1e5}'
    found = columnar_rows(body, RowOperation.UPSERT, ROWS_RULES[0])
    row = found.batch.to_pylist()[0]
    assert (str(row["amount"]), row["name"], row["doc"]) == ("12345678901234567890.12", "9007199254740993", "1e5")


def test_more_rows_than_allowed_are_left_to_the_exact_path() -> None:
    body = body_of([FULL, FULL], lines=True, escaped=False)
    assert columnar_rows(body, RowOperation.UPSERT, ROWS_RULES[0], max_rows=1) is None
    assert columnar_rows(body, RowOperation.UPSERT, ROWS_RULES[0], max_rows=2) is not None


def test_rows_with_hundreds_of_shapes_are_left_to_the_exact_path() -> None:
    columns = {f"c{number}": 1 for number in range(300)}
    rules = replace(ROWS_RULES[0], schema=schema_of({"id": "int64"} | dict.fromkeys(columns, "int64"), ["id"]))
    body = json.dumps([{"id": 1, name: 1} for name in columns]).encode()
    assert columnar_rows(body, RowOperation.INSERT, rules) is None
    assert exact_rows(body, RowOperation.INSERT, rules).batch.num_rows == len(columns)


FIELDS = {
    "id": st.sampled_from(["1", "2", " 3 ", '"1"', "NULL", "", "one"]),
    "amount": st.sampled_from(["1.50", "-7", "", '"2"', "\t5", "many"]),
    "name": st.sampled_from(
        ["lamp", " a ", '""', '"x,y"', '"a\nb"', '"a""b"', '"{\\"a\\"}"', "NULL", '"NULL"', 'a"', "ä"]
    ),
    "doc": st.sampled_from(["", "{}", '"[1, 2]"', "no json"]),
    "__op__": st.sampled_from(["", "i", "Delete", "U", '"upsert"', "x"]),
    "other": st.just("1"),
}
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\r"])


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    names = draw(
        st.just([*COLUMNS]) | st.lists(st.sampled_from([*FIELDS]), min_size=1, unique=draw(st.integers(0, 9)) > 0)
    )
    header = [f'"{name}"' if draw(st.integers(0, 9)) == 0 else name for name in names]
    lines = [",".join(header)]
    for _ in range(draw(st.integers(0, 4))):
        fields = [draw(FIELDS[name]) for name in names]
        lines.append(",".join(fields[: draw(st.sampled_from([len(fields)] * 9 + [1]))]))
    mark = draw(st.sampled_from(["", "", "\ufeff", "\n"]))
    return (mark + "".join(line + draw(ENDS) for line in lines)).encode()


@given(bodies())
@example(b'id,name\n1,"{a\\""\n2,"\n')
@example(b"id\n\n1\r\n\r\n2")
@example(b"NULL\n1\n")
@example(b"id,amount,name,doc\n1,2,a\x00,\n")
@example(b"id,amount,name,doc\n1,2,\xff,\n")
def test_both_paths_read_csv_alike(body: bytes) -> None:
    tried("plain_rows_csv", b"\x01" + body)


@pytest.mark.parametrize(
    "body",
    [
        b"id,amount,name,doc\n1,2.50,lamp,\n2,,NULL,{}\n",
        b"doc,name, id ,amount\r\n{},lamp, 1 ,2\r\n",
        b'id,amount,name,doc\n1,2,"a,""b",\n2,3,b,{}\n',
        b'"id","amount","name","doc","__op__"\n1,2,a,,insert\n2,,,,d\n',
    ],
)
def test_a_usual_csv_body_takes_the_columnar_path(body: bytes) -> None:
    assert columnar_csv_rows(body, CsvDialect(), ROWS_RULES[0]) is not None
    check_csv_paths_agree(body, CsvDialect(), ROWS_RULES[0])


NULL_TEXTS = [
    (None, [None, "", None, "NULL", "\\N"]),
    ("", ["NULL", "", None, "NULL", "\\N"]),
    ("NULL", [None, "", "", "NULL", "\\N"]),
    ("\\N", ["NULL", "", "", "NULL", None]),
]
"""What the five names of ODD_NULLS land as, by the text that means NULL."""
ODD_NULLS = b'id,name\n1,NULL\n2,""\n3,\n4,"NULL"\n5,\\N\n'


@pytest.mark.parametrize(("null", "landed"), NULL_TEXTS)
def test_the_text_that_means_null_is_the_one_that_the_request_says(null: str | None, landed: list[str | None]) -> None:
    rules = RowRules(schema_of({"id": "int64", "name": "string"}, ["id"]))
    for body in (ODD_NULLS, ODD_NULLS.replace(b'2,""\n', b"").replace(b'4,"NULL"\n', b"")):
        assert columnar_csv_rows(body, CsvDialect(null=null), rules) is not None
        rows = check_csv_paths_agree(body, CsvDialect(null=null), rules)
        names = dict(zip(*(rows.batch.column(name).to_pylist() for name in ("id", "name")), strict=True))
        assert names == {key: landed[key - 1] for key in names}
        assert len(names) in (5, 3)


@pytest.mark.parametrize("quoted", ["", '"c"\n'])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("null", "empty"), [(None, []), ("", [None]), ("NULL", [])])
def test_an_empty_line_is_the_null_of_one_column_where_postgres_wrote_it(
    null: str | None, empty: list[None], end: str, quoted: str
) -> None:
    reader, layout = CsvReader(["s"], frozenset()), RowsLayout(RowOperation.INSERT, CsvDialect(null=null))
    whole = f"s\n\na\n\nb\n{quoted}".replace("\n", end).encode()
    for body in (whole, whole.removesuffix(end.encode())):
        exact = [change.after["s"] for change in decode_csv_rows(body, layout).changes if change.after]
        [columnar] = reader.read([CsvBody(body, layout.dialect, Operation.INSERT, 9)])
        assert exact == [*empty, "a", *empty, "b", *["c"] * bool(quoted)]
        assert columnar.after == [(value,) for value in exact]


@given(bodies(), st.sampled_from(["", "NULL", "lamp", "\\N", "7"]))
def test_both_paths_read_csv_alike_whatever_text_is_null(body: bytes, null: str) -> None:
    with suppress(RejectedInput):
        check_csv_paths_agree(body, CsvDialect(null=null), ROWS_RULES[0])


@pytest.mark.parametrize("null", ["a,b", '"', "a\n"])
def test_what_no_field_without_quotes_can_be_is_not_the_text_of_null(null: str) -> None:
    with pytest.raises(RejectedInput, match="null"):
        CsvDialect(null=null).checked()


@pytest.mark.parametrize("body", [b'id,name\n1,"a\nb"\n', b"id,id\n1,2\n", b"id,other\n1,2\n", b"id\n", b"id\n1,2\n"])
def test_an_unusual_body_is_left_to_the_exact_path(body: bytes) -> None:
    assert columnar_csv_rows(body, CsvDialect(), ROWS_RULES[0]) is None


def test_other_signs_take_the_columnar_path() -> None:
    dialect = CsvDialect("|", "'", "\\")
    body = b"id|amount|name|doc\n1|2|'a|\\'b'|\n"
    found = columnar_csv_rows(body, dialect, ROWS_RULES[0])
    assert found.batch.to_pylist()[0]["name"] == "a|'b"


def test_more_lines_than_allowed_are_left_to_the_exact_path() -> None:
    body = b"id,amount,name,doc\n" + b"1,2,a,\n" * 5
    assert columnar_csv_rows(body, CsvDialect(), ROWS_RULES[0], max_rows=4) is None
