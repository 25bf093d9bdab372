"""Columnar reading of plain rows gives the rows of the exact path, and accepts nothing that it rejects."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate.parameters import RowOperation
from tests.fuzz.decoders import ROWS_RULES, columnar_rows, exact_rows, tried
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
