"""The canonical texts of rows: what the SQL of the source has to give too."""

from typing import Any

import pyarrow as pa
import pytest

from app.domain.canonical_text import canonical_rows
from app.domain.model.table_schema import Column, ColumnType
from app.domain.rows.conversion import convert
from app.domain.source_checks import bucket_of, checksum_of


def texts(declared: str, *values: Any) -> list[str]:
    column = Column("c", ColumnType.parse(declared))
    return [*canonical_rows([convert(values, column.type)], [column], ["c"]).rows]


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        ("int64", [-7, None, 0], ["-7", "\\N", "0"]),
        ("boolean", [True, False, None], ["1", "0", "\\N"]),
        ("date", ["0001-01-01", None], ["0001-01-01", "\\N"]),
        ("timestamp", ["2024-02-29 01:02:03+01:00", None], ["2024-02-29 00:02:03.000000", "\\N"]),
        ("decimal(9,2)", ["1", "-0.5", None], ["1.00", "-0.50", "\\N"]),
        ("decimal(38,10)", ["0.0000000001", "1", None], ["0.0000000001", "1.0000000000", "\\N"]),
        ("decimal(38,10)", [None], ["\\N"]),
        ("binary", ["0aff", "", None], ["0AFF", "", "\\N"]),
        ("binary", [None], ["\\N"]),
        ("string", ["é\n", "", None], ["é\n", "", "\\N"]),
    ],
)
def test_a_value_has_one_text_that_every_database_can_make(
    declared: str, values: list[Any], expected: list[str]
) -> None:
    assert texts(declared, *values) == expected


def test_keys_are_joined_in_key_order_and_rows_in_the_order_of_the_columns() -> None:
    columns = [Column(name, ColumnType.parse("string")) for name in "abc"]
    arrays = [pa.array(values) for values in (["a", None], ["b", "B"], ["c", "C"])]
    found = canonical_rows(arrays, columns, ["c", "a"])
    assert found.keys == ["c\x1fa", "C\x1f\\N"]
    assert found.rows == ["a\x1fb\x1fc", "\\N\x1fB\x1fC"]


def test_buckets_and_checksums_are_digits_of_the_md5_of_the_text_in_utf8() -> None:
    assert bucket_of("é", 4) == "66dd"
    assert checksum_of("é") == 0x66DDCD97
