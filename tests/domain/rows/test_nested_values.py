"""Lists, structs and maps of Arrow columns become the JSON texts that the equal values of a JSON body become."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.table_options import TableOptions
from app.domain.rows import nested_values
from app.domain.rows.from_arrow import snapshot_rows
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_rules import RowRules
from app.formats.arrow import decode_arrow_stream
from app.formats.rows.messages import decode_rows
from mirrorgate.errors import Code
from mirrorgate.parameters import RowOperation
from tests.support.rejections import rejected
from tests.support.samples.arrow_streams import stream
from tests.support.samples.schemas import schema_of

STRUCT: Final = pa.struct(
    [pa.field("n", pa.int64()), pa.field("é", pa.list_(pa.string())), pa.field("x", pa.float64())]
)
NAMES: Final = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
ITEMS: Final = st.none() | st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.lists(st.none() | NAMES, max_size=3),
    st.none() | st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e15, -123.456]),
).map(lambda values: dict(zip(("n", "é", "x"), values, strict=True)))
LISTS: Final = st.lists(st.none() | st.lists(ITEMS, max_size=3), min_size=1, max_size=6)


def landed(
    values: Sequence[Any], of: pa.DataType, wanted: str = "json", options: TableOptions | None = None
) -> list[Any]:
    """Return what lands of a column, which passes through the bytes of a stream."""
    rules = RowRules(schema_of({"doc": wanted}, []), options or TableOptions())
    rows = snapshot_rows(decode_arrow_stream(stream(pa.table({"doc": pa.array(values, of)}))), rules)
    return rows.batch.column("doc").to_pylist()


@given(LISTS, st.sampled_from(["json", "string"]))
def test_complex_types_should_be_written_as_a_json_string(values: list[Any], wanted: str) -> None:
    """The same texts as those of a JSON body with the same values."""
    body = json.dumps([{"doc": value} for value in values]).encode()
    rules = RowRules(schema_of({"doc": wanted}, []))
    expected = landing_rows(decode_rows(body, RowOperation.INSERT, frozenset(["doc"])).changes, rules)
    assert landed(values, pa.list_(STRUCT), wanted) == expected.batch.column("doc").to_pylist()


@pytest.mark.parametrize(
    ("value", "of", "text"),
    [
        ([1, None], pa.list_(pa.int8(), 2), "[1,null]"),
        ([], pa.large_list(pa.int8()), "[]"),
        ([("a", 1), ("b", None)], pa.map_(pa.string(), pa.int8()), '{"a":1,"b":null}'),
        ([(7, True)], pa.map_(pa.int16(), pa.bool_()), '{"7":true}'),
        ({}, pa.struct([]), "{}"),
        ([0.1, 1e20], pa.list_(pa.float32()), "[0.1,1e+20]"),
        (
            [Decimal("0.10"), Decimal("12345678901234567890.12")],
            pa.list_(pa.decimal128(38, 2)),
            "[0.10,12345678901234567890.12]",
        ),
        ([date(1, 1, 1)], pa.list_(pa.date64()), '["0001-01-01"]'),
        ([datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)], pa.list_(pa.timestamp("s", "UTC")), '["2026-01-02 03:04:05Z"]'),
        ([datetime(2026, 1, 2)], pa.list_(pa.timestamp("ns")), '["2026-01-02 00:00:00"]'),
        ([b"\x00\xff"], pa.list_(pa.binary()), '["00ff"]'),
        (
            ["a", "a text of more than twelve bytes"],
            pa.list_(pa.string_view()),
            '["a","a text of more than twelve bytes"]',
        ),
        (["a", None, "a"], pa.list_(pa.dictionary(pa.int8(), pa.string())), '["a",null,"a"]'),
        ([None, None], pa.list_(pa.null()), "[null,null]"),
    ],
    ids=str,
)
def test_a_nested_value_has_this_text(value: Any, of: pa.DataType, text: str) -> None:
    assert landed([None, value], of) == [None, text]


def test_bytes_in_lists_are_encoded_as_the_table_declares() -> None:
    options = TableOptions.parse({"binary_encoding": "base64"})
    assert landed([[b"\x00\xff"]], pa.list_(pa.binary()), options=options) == ['["AP8="]']


@pytest.mark.parametrize(
    ("value", "of", "why"),
    [
        ([1.0, float("nan")], pa.list_(pa.float64()), "a number that JSON does not have"),
        ([float("-inf")], pa.list_(pa.float16()), "a number that JSON does not have"),
        (["a\0"], pa.list_(pa.string()), "U+0000"),
        ([("a", 1), ("a", 2)], pa.map_(pa.string(), pa.int8()), "a key twice"),
    ],
    ids=str,
)
def test_a_nested_value_that_json_does_not_have_is_rejected_by_row(value: Any, of: pa.DataType, why: str) -> None:
    with rejected(places=[(Code.BAD_VALUE, 1, "/doc", "doc")]) as rejection:
        landed([None, value], of)
    assert why in rejection.text


def test_a_nested_column_fits_text_columns_only() -> None:
    with rejected() as rejection:
        landed([[1]], pa.list_(pa.int8()), "int64")
    assert (rejection.code, "a list, struct or map" in rejection.text) == (Code.SCHEMA_MISMATCH, True)


@pytest.mark.parametrize("at_once", [1, 100, 10_000])
def test_rows_have_the_same_texts_however_many_become_python_values_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [[{"n": number, "é": ["a"] * (number % 5), "x": None}] * (number % 3) for number in range(200)]
    pairs = [[number, number + 1] if number % 7 else None for number in range(200)]
    expected = landed(values, pa.list_(STRUCT)), landed(pairs, pa.list_(pa.int16(), 2))
    monkeypatch.setattr(nested_values, "_NESTED_AT_ONCE", at_once)
    assert (landed(values, pa.list_(STRUCT)), landed(pairs, pa.list_(pa.int16(), 2))) == expected


def test_a_value_of_too_many_elements_is_rejected_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.domain.rows.from_arrow.MAX_NESTED_BYTES", 1_000)
    with rejected(places=[(Code.VALUE_TOO_LARGE, 1, "/doc", "doc")]):
        landed([[1], [1] * 100], pa.list_(pa.int8()))
