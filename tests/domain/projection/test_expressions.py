"""Expressions of derived columns have types when a table is registered, and an error says where one is wrong."""

import pytest

from app.domain.model.expressions import ExpressionError, parse_expression, renamed_expression
from app.domain.model.table_schema import Column, ColumnType

TYPES = {
    "first": "string",
    "last": "string",
    "quantity": "int32",
    "price": "decimal(12,2)",
    "wide": "decimal(38,10)",
    "at": "timestamp",
    "day": "date",
    "ratio": "float64",
    "small": "float32",
    "paid": "boolean",
    "Last Name": "string",
    "seal": "binary",
    "note": "json",
}
COLUMNS = [Column(name, ColumnType.parse(text)) for name, text in TYPES.items()]


@pytest.mark.parametrize(
    ("text", "of_type"),
    [
        ("first || ' ' || last", "string"),
        ("quantity * price", "decimal(23,2)"),
        ("quantity + 1", "int64"),
        ("price + 0.005", "decimal(14,3)"),
        ("wide * wide * wide", "decimal(38,30)"),
        ("price / quantity", "float64"),
        ("small + quantity", "float64"),
        ("round(small, 2)", "float32"),
        ("round(price, 1)", "decimal(12,2)"),
        ("-quantity", "int64"),
        ("-5 * price", "decimal(14,2)"),
        ("nullif(quantity, 0)", "int32"),
        ("case when paid then price else quantity end", "decimal(12,2)"),
        ("case quantity when 1 then 'one' when 2 then 'two' end", "string"),
        ("coalesce(day, at)", "timestamp"),
        ("coalesce(note, 'none')", "string"),
        ("quantity in (1, 2, null) or not paid", "boolean"),
        ("day between date '2026-01-01' and at", "boolean"),
        ('"Last Name" is not null', "boolean"),
        ("extract(hour from at)", "int64"),
        ("year(day) * 100 + month(day)", "int64"),
        ("date_trunc('hour', at)", "timestamp"),
        ("cast(first as decimal(12,2))", "decimal(12,2)"),
        ("try_cast(first as int32)", "int32"),
        ("cast(ratio as float32)", "float32"),
        ("upper(trim(substr(note, 1, 3)))", "string"),
        ("length(first)", "int64"),
        ("cast(null as date)", "date"),
        ("coalesce(seal, seal)", "binary"),
    ],
)
def test_an_expression_is_typed_when_the_table_is_registered(text: str, of_type: str) -> None:
    assert str(parse_expression(text, COLUMNS).tree.type) == of_type


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("quantiy + 1", "the table has no column 'quantiy', at character 1"),
        ("1 + quantiy", "the table has no column 'quantiy', at character 5"),
        ("Quantity + 1", "the table has no column 'Quantity', at character 1"),
        ("quantity = = 1", "the expression cannot be read, at character 12"),
        ("quantity +\n)", "the expression cannot be read, at character 12"),
        ("", "the expression cannot be read, at character 1"),
        ("first || quantity", "a string is needed here, and this is int32; cast it, at character 10"),
        ("first = 1", "int64 and string do not go together; cast one of them, at character 1"),
        ("null", "NULL has no type; write for example cast(null as string), at character 1"),
        ("extract(hour from day)", "a date has no 'hour'"),
        ("date_trunc('fortnight', at)", "cannot be truncated to 'fortnight'"),
        ("substr(first, quantity)", "a number from 1 to 1000000 is needed here, at character 15"),
        ("cast(quantity as float)", "there is no type to cast to of this name"),
        ("cast(quantity as decimal(²,1))", "decimal(p,s) needs 1 <= p <= 38 and 0 <= s <= p"),
        ("cast(seal as string)", "binary cannot be cast as string"),
        ("paid < paid", "boolean has no order"),
        ("wide * 1.0000000000000000000000000000 * 1.000000000000", "digits after the point"),
        ("1e400", "not in the range of float64"),
        ("1" * 39, "more than 38 digits"),
        ("'abc", "a quote or a comment has no end"),
        ("'" + "x" * 1_000 + "'", "more than 1000 characters"),
        ("select 1", "the expression cannot be read"),
        ("(select 1)", "`subquery` is not in the language of derived columns"),
        ("sum(quantity)", "`sum` is not in the language of derived columns, at character 1"),
        ("read_csv('/etc/passwd')", "is not in the language of derived columns"),
        ("current_timestamp", "is not in the language of derived columns"),
        ("t.quantity", "not supported"),
        ("quantity; drop table x", "the expression cannot be read"),
        ("first last", "the expression cannot be read"),
        ("1 + 1e", "the expression cannot be read"),
        ("quantity {:1}", "the expression cannot be read"),
        ("1" + " + 1" * 60, "nests more than 50 deep"),
        ("(" * 900, "nests more than 50 deep"),
        ("not " * 200 + "paid", "nests more than 50 deep"),
        ("quantity in (" + ", ".join(["1"] * 251) + ")", "more than 250 parts"),
    ],
)
def test_an_error_names_its_position_in_the_expression(text: str, detail: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse_expression(text, COLUMNS)
    assert detail in str(error.value)
    assert 1 <= error.value.at <= max(1, len(text))


def test_an_expression_follows_renamed_columns() -> None:
    text = "first || ' first ' || \"Last Name\""
    parsed = parse_expression(text, COLUMNS)
    assert parsed.columns == {"first", "Last Name"}
    new_names = {"first": 'given "name"', "Last Name": "Last Name"}
    assert renamed_expression(text, parsed, new_names) == '"given ""name""" || \' first \' || "Last Name"'
