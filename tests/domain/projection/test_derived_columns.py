"""Derived columns have the values that SQL gives them, and name the rows that have none."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.model.expressions import ExpressionError, parse_expression
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.domain.rows.derived_columns import carried_column, with_derived
from app.domain.rows.row_rules import RowMarker, RowRules

TYPES = {"a": "int64", "b": "int64", "p": "decimal(10,2)", "f": "float64", "s": "string", "u": "string", "t": "boolean"}
TYPES |= {"d": "date", "m": "timestamp", "small": "int16", "wide": "decimal(38,0)"}
COLUMNS = [Column(name, ColumnType.parse(text)) for name, text in TYPES.items()]
SCHEMA = TableSchema.declare(tuple(COLUMNS), ())


def derived(text: str, rows: Sequence[dict[str, Any]], markers: Sequence[int] = ()) -> tuple[list[Any], list[int]]:
    """Return the values of an expression, and the rows that have none."""
    rules = RowRules(SCHEMA, TableOptions(derive={"x": text}))
    arrays = [pa.array([row.get(one.name) for row in rows], one.type.arrow) for one in COLUMNS]
    batch = pa.RecordBatch.from_arrays([*arrays, pa.array(markers or [0] * len(rows), pa.int32())], schema=SCHEMA.arrow)
    found, wrong = with_derived(batch, rules)
    found.validate(full=True)
    return found.column(found.schema.names.index(carried_column("x"))).to_pylist(), [one.row for one in wrong]


def value(text: str, **row: Any) -> Any:
    values, wrong = derived(text, [row])
    assert not wrong
    return values[0]


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("s || ' ' || u", {"s": "Ada", "u": "Lovelace"}, "Ada Lovelace"),
        ("s || u", {"s": "Ada"}, None),
        ("coalesce(s, '') || coalesce(u, '')", {"s": "Ada"}, "Ada"),
        ("a * p", {"a": 3, "p": Decimal("1.10")}, Decimal("3.30")),
        ("p * 1.19", {"p": Decimal("10.00")}, Decimal("11.9000")),
        ("p / a", {"a": 4, "p": Decimal("1.00")}, 0.25),
        ("a / b", {"a": 1, "b": 2}, 0.5),
        ("case when b <> 0 then a / b end", {"a": 1, "b": 0}, None),
        ("case when b <> 0 then a / b else -1 end", {"a": 1, "b": 0}, -1.0),
        ("b <> 0 and a / b > 1", {"a": 1, "b": 0}, False),
        ("b = 0 or a / b > 1", {"a": 1, "b": 0}, True),
        ("coalesce(f, a / b)", {"f": 1.5, "a": 1, "b": 0}, 1.5),
        ("try_cast(s as int32)", {"s": "12x"}, None),
        ("cast(s as int32)", {"s": "12"}, 12),
        ("cast(p as int16)", {"p": Decimal("2.50")}, 3),
        ("cast(p as int16)", {"p": Decimal("-2.50")}, -3),
        ("cast(f as decimal(5,1))", {"f": 2.26}, Decimal("2.3")),
        ("cast(p as decimal(4,1))", {"p": Decimal("9.95")}, Decimal("10.0")),
        ("cast(wide as int64)", {"wide": Decimal(2**63 - 1)}, 2**63 - 1),
        ("cast(wide / 10 as float32)", {"wide": Decimal(5)}, 0.5),
        ("cast(f as decimal(5,2))", {"f": -0.125}, Decimal("-0.13")),
        ("cast(f as decimal(5,0))", {"f": 2.5}, Decimal(3)),
        ("cast(f as decimal(38,38))", {"f": 5e-324}, Decimal(0)),
        ("cast(p as float64)", {"p": Decimal("0.35")}, 0.35),
        ("p * 1e0", {"p": Decimal("999999.95")}, 999999.95),
        ("cast(wide as float32)", {"wide": Decimal(9007199791611905)}, 9007200328482816.0),
        ("cast(a as float32)", {"a": 9007199791611905}, 9007200328482816.0),
        ("cast(a as float64)", {"a": 2**53 + 1}, 2.0**53),
        ("a / b", {"a": 2**63 - 1, "b": 1}, 2.0**63),
        ("a > 0.5e0", {"a": -(2**53) - 1}, False),
        ("cast(p as string)", {"p": Decimal("0.00")}, "0.00"),
        ("cast(cast(f as decimal(20,10)) as string)", {"f": 1e-9}, "0.0000000010"),
        ("cast(m as string)", {"m": datetime(2026, 7, 1, 10, tzinfo=UTC)}, "2026-07-01 10:00:00.000000Z"),
        ("cast(m as date)", {"m": datetime(1969, 12, 31, 23, 59, tzinfo=UTC)}, date(1969, 12, 31)),
        ("cast(d as timestamp)", {"d": date(1, 1, 1)}, datetime(1, 1, 1, tzinfo=UTC)),
        ("round(f, 2)", {"f": 1234.5678}, 1234.57),
        ("round(p, 1)", {"p": Decimal("-0.25")}, Decimal("-0.30")),
        ("round(f, 38)", {"f": 1e300}, 1e300),
        ("date_trunc('hour', m)", {"m": datetime(1, 1, 1, 0, 59, tzinfo=UTC)}, datetime(1, 1, 1, tzinfo=UTC)),
        ("date_trunc('week', d)", {"d": date(2026, 11, 29)}, date(2026, 11, 23)),
        ("extract(isodow from d)", {"d": date(2026, 11, 29)}, 7),
        ("year(m) * 100 + month(m)", {"m": datetime(2026, 7, 1, tzinfo=UTC)}, 202607),
        ("substr(s, 2, 2)", {"s": "añbc"}, "ñb"),
        ("upper(trim(s))", {"s": "  ada "}, "ADA"),
        ("length(s)", {"s": "ñé"}, 2),
        ("nullif(a, 0)", {"a": 0}, None),
        ("a in (1, null)", {"a": 2}, None),
        ("not (a between 1 and 3)", {"a": 2}, False),
        ("small + 1", {"small": 32767}, 32768),
        ("f = f", {"f": float("inf")}, True),
    ],
)
def test_a_derived_column_has_the_value_of_its_expression(text: str, row: dict[str, Any], expected: Any) -> None:
    assert value(text, **row) == expected


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("a / b", {"a": 1, "b": 0}),
        ("f / b", {"f": 1.0, "b": 0}),
        ("a + b", {"a": 2**63 - 1, "b": 1}),
        ("a * b", {"a": 2**62, "b": 4}),
        ("-a", {"a": -(2**63)}),
        ("f * f", {"f": 1e300}),
        ("wide * wide", {"wide": Decimal(10**30)}),
        ("wide + wide", {"wide": Decimal(9 * 10**37)}),
        ("cast(a as int16)", {"a": 40_000}),
        ("cast(f as int32)", {"f": 3e9}),
        ("cast(f as int64)", {"f": 2.0**63}),
        ("cast(f as decimal(3,1))", {"f": 99.99}),
        ("cast(f as decimal(38,37))", {"f": 1.7e308}),
        ("cast(f as decimal(3,1))", {"f": float("nan")}),
        ("cast(f as float32)", {"f": 1e200}),
        ("cast(p as decimal(2,1))", {"p": Decimal("9.95")}),
        ("cast(wide as int64)", {"wide": Decimal(10**30)}),
        ("cast(s as date)", {"s": "2026-02-30"}),
        ("cast(s as decimal(4,2))", {"s": "1.234"}),
    ],
)
def test_a_number_that_leaves_its_type_and_a_wrong_cast_have_no_value(text: str, row: dict[str, Any]) -> None:
    good = {"a": 1, "b": 1, "f": 1.0, "s": None, "p": Decimal(1), "wide": Decimal(1)}
    values, wrong = derived(text, [good, row, {}, good])
    assert wrong == [1]
    assert values[1] is None
    assert values[0] == values[3] == value(text, **good)


def test_the_columns_of_a_delete_are_null_whatever_the_expression_says() -> None:
    rows = [{"a": 1, "b": 0}] * 2
    assert derived("coalesce(s, 'none')", rows, [RowMarker.DELETE, RowMarker.UPDATE]) == ([None, "none"], [])
    assert derived("a / b", rows, [RowMarker.DELETE, RowMarker.DELETE]) == ([None, None], [])


def test_no_rows_have_no_values() -> None:
    assert derived("case when a > 1 then s || 'x' end", []) == ([], [])


NUMBERS = st.sampled_from(["a", "b", "p", "f", "0", "1", "2", "0.5", "1.25", "7e0"])
TEXTS = st.sampled_from(["s", "u", "'x'", "''", "' b '"])
TRUTHS = st.sampled_from(["t", "true", "false"])


def _deeper(number: st.SearchStrategy[str], text: st.SearchStrategy[str], truth: st.SearchStrategy[str]) -> Any:
    compared = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    join = "{} {} {}".format
    numbers = st.one_of(
        number,
        st.builds(lambda x, op, y: f"({x} {op} {y})", number, st.sampled_from("+-*/"), number),
        st.builds("round({}, {})".format, number, st.integers(0, 3)),
        st.builds("case when {} then {} else {} end".format, truth, number, number),
        st.builds("coalesce({}, {})".format, number, number),
        st.builds("nullif({}, {})".format, number, number),
        st.builds("length({})".format, text),
        st.builds("(- {})".format, number),
        st.builds("try_cast({} as int64)".format, text),
        st.sampled_from(["extract(isodow from d)", "extract(week from d)", "year(m)", "hour(m)", "quarter(d)"]),
    )
    texts = st.one_of(
        text,
        st.builds("({} || {})".format, text, text),
        st.builds("{}({})".format, st.sampled_from(["upper", "lower", "trim"]), text),
        st.builds("substr({}, {}, {})".format, text, st.integers(1, 4), st.integers(0, 4)),
        st.builds("case when {} then {} end".format, truth, text),
        st.builds("coalesce({}, {})".format, text, text),
    )
    truths = st.one_of(
        truth,
        st.builds(lambda x, op, y: f"({join(x, op, y)})", number, compared, number),
        st.builds(lambda x, op, y: f"({join(x, op, y)})", text, compared, text),
        st.builds("({} and {})".format, truth, truth),
        st.builds("({} or {})".format, truth, truth),
        st.builds("(not {})".format, truth),
        st.builds("({} is null)".format, st.one_of(number, text, truth)),
        st.builds("({} in ({}, {}))".format, number, number, number),
        st.builds("({} between {} and {})".format, number, number, number),
    )
    return numbers, texts, truths


def _expressions() -> st.SearchStrategy[str]:
    levels = (NUMBERS, TEXTS, TRUTHS)
    for _ in range(3):
        levels = _deeper(*levels)
    return st.one_of(*levels)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.none() | st.integers(-1_000, 1_000),
            "b": st.none() | st.integers(-3, 3),
            "p": st.none() | st.decimals(-9_999, 9_999, places=2),
            "f": st.none() | st.integers(-4_000, 4_000).map(lambda number: number / 8),
            "s": st.none() | st.text("aB ñ1", max_size=4).map(str.strip),  # DuckDB reads "1 " as a number
            "u": st.none() | st.sampled_from(["", "12", " x "]),
            "t": st.none() | st.booleans(),
            "d": st.none() | st.dates(date(1900, 1, 1), date(2100, 1, 1)),
            "m": st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
        }
    ),
    min_size=1,
    max_size=5,
)
_CONNECTION = duckdb.connect(":memory:")
_CONNECTION.execute("SET TimeZone = 'UTC'")
_DUCKDB = {"int64": "BIGINT", "int16": "SMALLINT", "float64": "DOUBLE", "string": "VARCHAR", "timestamp": "TIMESTAMPTZ"}
_CONNECTION.execute(
    "CREATE TABLE rows (n INT, " + ", ".join(f"{name} {_DUCKDB.get(of, of)}" for name, of in TYPES.items()) + ")"
)


@settings(max_examples=400, deadline=None)
@given(_expressions(), ROWS)
def test_random_expressions_have_the_values_that_duckdb_computes(text: str, rows: list[dict[str, Any]]) -> None:
    try:
        parse_expression(text, COLUMNS)
    except ExpressionError:
        return
    values, wrong = derived(text, rows)
    assert derived(text, rows[:1])[0] == values[:1]  # a row does not depend on the others
    for number, row in enumerate(rows):
        if number in wrong:
            continue
        _CONNECTION.execute("DELETE FROM rows")
        _CONNECTION.execute(
            f"INSERT INTO rows (n, {', '.join(row)}) VALUES (?{', ?' * len(row)})", [number, *row.values()]
        )
        try:
            [(expected,)] = _CONNECTION.execute(f"SELECT {text} FROM rows").fetchall()
        except duckdb.Error:
            continue  # a type that DuckDB does not have, or an operand that it computes although nothing needs it
        found = values[number]
        if isinstance(found, float | int | Decimal) and not isinstance(found, bool) and expected is not None:
            assert float(found) == pytest.approx(float(expected), rel=1e-6, abs=1e-6), (text, row)
        else:
            assert found == expected, (text, row)


PARTS = (
    "a p s ( ) case when then else end and not || + - * / , cast( as int64 in is null ' 1 0.1 1e9 extract( from year ; "
    'date_trunc( substr( select { } [ -- /* $1 ? @x \\ \0 é interval "'
)


@settings(max_examples=600, deadline=None)
@given(
    st.lists(
        st.sampled_from(PARTS.split(" ")),
        max_size=30,
    ).map(" ".join)
    | st.text(max_size=60)
)
def test_a_hostile_expression_gets_an_error_and_never_a_crash(text: str) -> None:
    try:
        parse_expression(text, COLUMNS)
    except ExpressionError as error:
        assert 1 <= error.at <= max(1, len(text))
        return
    derived(text, [{"a": 1, "s": "x"}])
