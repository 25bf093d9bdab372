"""Comparing a table with its source: its SQL, columns, canonical values and digests."""

from hashlib import md5
from string import hexdigits
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.canonical_text import canonical_rows
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.domain.rows.conversion import convert
from app.domain.source_checks import (
    GRAMMARS,
    MAX_LISTED,
    NO_ROWS,
    BucketDifference,
    BucketDigests,
    BucketRows,
    CanonicalRows,
    Dialect,
    Digest,
    SourceQueries,
    bucket_of,
    checksum_of,
    compared_columns,
)
from mirrorgate.errors import RejectedInput


def column(name: str, declared: str = "int64") -> Column:
    return Column(name, ColumnType.parse(declared))


def queries(dialect: Dialect, relation: str = "s.orders", *, is_table: bool = True) -> SourceQueries:
    """Return the queries of a table whose key has two columns, in another order than the table."""
    columns = [column("id"), column("day", "date")]
    return SourceQueries.of(dialect, relation, columns, ["day", "id"], {"id": "n + 1"}, is_table=is_table)


HASHES = {
    Dialect.POSTGRESQL: (
        "SELECT COALESCE(to_char(\"day\", 'YYYY-MM-DD'), E'\\\\N') || chr(31) || COALESCE((n + 1)::text, E'\\\\N')"
        " AS key_text,"
        " md5(convert_to(COALESCE(to_char(\"day\", 'YYYY-MM-DD'), E'\\\\N') || chr(31)"
        " || COALESCE((n + 1)::text, E'\\\\N'), 'UTF8')) AS k,"
        " md5(convert_to(COALESCE((n + 1)::text, E'\\\\N') || chr(31)"
        " || COALESCE(to_char(\"day\", 'YYYY-MM-DD'), E'\\\\N'), 'UTF8')) AS r"
        ' FROM "s"."orders" source'
    ),
    Dialect.MYSQL: (
        "SELECT CONCAT(COALESCE(DATE_FORMAT(`day`, '%Y-%m-%d'), _utf8mb4 0x5c4e), CHAR(31 USING utf8mb4),"
        " COALESCE(CAST(n + 1 AS CHAR CHARACTER SET utf8mb4), _utf8mb4 0x5c4e)) AS key_text,"
        " MD5(CONVERT(CONCAT(COALESCE(DATE_FORMAT(`day`, '%Y-%m-%d'), _utf8mb4 0x5c4e), CHAR(31 USING utf8mb4),"
        " COALESCE(CAST(n + 1 AS CHAR CHARACTER SET utf8mb4), _utf8mb4 0x5c4e)) USING utf8mb4)) AS k,"
        " MD5(CONVERT(CONCAT(COALESCE(CAST(n + 1 AS CHAR CHARACTER SET utf8mb4), _utf8mb4 0x5c4e),"
        " CHAR(31 USING utf8mb4), COALESCE(DATE_FORMAT(`day`, '%Y-%m-%d'), _utf8mb4 0x5c4e)) USING utf8mb4)) AS r"
        " FROM `s`.`orders` source"
    ),
}
CHECKSUMS = {
    Dialect.POSTGRESQL: "('x' || substr(r, 1, 8))::bit(32)::bigint",
    Dialect.MYSQL: "CAST(CONV(SUBSTR(r, 1, 8), 16, 10) AS UNSIGNED)",
    Dialect.MSSQL: "CAST(CONVERT(binary(4), SUBSTRING(r, 1, 8), 2) AS bigint)",
    Dialect.ORACLE: "TO_NUMBER(SUBSTR(r, 1, 8), 'XXXXXXXX')",
}


@pytest.mark.parametrize("dialect", HASHES)
def test_rows_are_hashed_by_their_key_and_by_all_their_columns(dialect: Dialect) -> None:
    assert queries(dialect).buckets(2) == (
        f"SELECT SUBSTR(k, 1, 2) AS bucket, COUNT(*) AS row_count, SUM({CHECKSUMS[dialect]}) AS checksum\n"
        f"FROM ({HASHES[dialect]}) hashed\nGROUP BY SUBSTR(k, 1, 2)"
    )
    assert queries(dialect).rows({"b1", "a0", "ff"}) == (
        f"SELECT key_text, {CHECKSUMS[dialect]} AS checksum\n"
        f"FROM ({HASHES[dialect]}) hashed\nWHERE SUBSTR(k, 1, 2) IN ('a0', 'b1', 'ff')"
    )


@pytest.mark.parametrize("dialect", Dialect)
def test_each_database_is_asked_with_its_own_functions(dialect: Dialect) -> None:
    function = "SUBSTRING" if dialect is Dialect.MSSQL else "SUBSTR"
    buckets, rows = queries(dialect).buckets(3), queries(dialect).rows(["abc"])
    assert buckets.startswith(f"SELECT {function}(k, 1, 3) AS bucket, COUNT(*) AS row_count, SUM({CHECKSUMS[dialect]})")
    assert buckets.endswith(f") hashed\nGROUP BY {function}(k, 1, 3)")
    assert rows.startswith(f"SELECT key_text, {CHECKSUMS[dialect]} AS checksum\nFROM (SELECT ")
    assert rows.endswith(f") hashed\nWHERE {function}(k, 1, 3) IN ('abc')")


def test_a_relation_is_quoted_only_if_it_names_a_table() -> None:
    assert ' FROM "s"."or""d" source)' in queries(Dialect.POSTGRESQL, 's.or"d').buckets(1)
    subquery = "(SELECT * FROM s.orders)"
    assert f" FROM {subquery} source)" in queries(Dialect.POSTGRESQL, subquery, is_table=False).buckets(1)


@pytest.mark.parametrize(
    ("dialect", "quoted"),
    [
        (Dialect.POSTGRESQL, '"a""b`]["'),
        (Dialect.MYSQL, '`a"b``][`'),
        (Dialect.MSSQL, '[a"b`]][]'),
        (Dialect.ORACLE, '"a""b`]["'),
    ],
)
def test_a_name_cannot_end_its_quotes(dialect: Dialect, quoted: str) -> None:
    assert GRAMMARS[dialect].quoted('a"b`][') == quoted


TEXTS = {
    Dialect.POSTGRESQL: [
        "(x)::text",
        "(x)::int::text",
        "(x)::numeric(9,2)::text",
        "(x)::numeric(5,0)::text",
        "to_char(x, 'YYYY-MM-DD HH24:MI:SS.US')",
        "(x)::text",
        "upper(encode(x, 'hex'))",
    ],
    Dialect.MYSQL: [
        "CAST(x AS CHAR CHARACTER SET utf8mb4)",
        "CAST((x) + 0 AS CHAR CHARACTER SET utf8mb4)",
        "CAST(CAST(x AS DECIMAL(9,2)) AS CHAR CHARACTER SET utf8mb4)",
        "CAST(CAST(x AS DECIMAL(5,0)) AS CHAR CHARACTER SET utf8mb4)",
        "DATE_FORMAT(x, '%Y-%m-%d %H:%i:%s.%f')",
        "CAST(x AS CHAR CHARACTER SET utf8mb4)",
        "HEX(x)",
    ],
    Dialect.MSSQL: [
        "CAST(x AS nvarchar(max))",
        "CAST(CAST(x AS int) AS nvarchar(max))",
        "CAST(CAST(x AS decimal(9,2)) AS nvarchar(max))",
        "CAST(CAST(x AS decimal(5,0)) AS nvarchar(max))",
        "CONVERT(nvarchar(max), CAST(SWITCHOFFSET(CAST(x AS datetimeoffset(6)), '+00:00') AS datetime2(6)), 121)",
        "CAST(x AS nvarchar(max))",
        "CONVERT(nvarchar(max), x, 2)",
    ],
    Dialect.ORACLE: [
        "TO_CHAR(x)",
        "TO_CHAR(x)",
        "TO_CHAR(CAST(x AS NUMBER(9,2)), 'FM9999990.00', 'NLS_NUMERIC_CHARACTERS=''.,''')",
        "TO_CHAR(CAST(x AS NUMBER(5,0)), 'FM99990', 'NLS_NUMERIC_CHARACTERS=''.,''')",
        "TO_CHAR(SYS_EXTRACT_UTC(CAST(x AS TIMESTAMP(6) WITH TIME ZONE)), 'YYYY-MM-DD HH24:MI:SS.FF6')",
        "TO_CHAR(x)",
        "RAWTOHEX(x)",
    ],
}


@pytest.mark.parametrize("dialect", Dialect)
def test_each_type_has_its_text(dialect: Dialect) -> None:
    types = ["int16", "boolean", "decimal(9,2)", "decimal(5,0)", "timestamp", "string", "binary"]
    assert [GRAMMARS[dialect].text(column("x", declared), "x") for declared in types] == TEXTS[dialect]


@pytest.mark.parametrize(
    ("dialect", "session"),
    [
        (Dialect.POSTGRESQL, "SET TIME ZONE 'UTC';\n"),
        (Dialect.MYSQL, "SET time_zone = '+00:00';\n"),
        (Dialect.MSSQL, ""),
        (Dialect.ORACLE, "ALTER SESSION SET TIME_ZONE = 'UTC';\n"),
    ],
)
def test_a_script_reads_times_in_utc_and_then_asks_for_buckets_or_for_rows(dialect: Dialect, session: str) -> None:
    asked = queries(dialect)
    assert asked.script(3) == f"{session}{asked.buckets(3)};"
    assert asked.script(3, ["0aa", "abc"]) == f"{session}{asked.rows(['0aa', 'abc'])};"


SCHEMA = TableSchema.declare(
    tuple(
        Column(name, ColumnType.parse(of), nullable=name != "id")
        for name, of in {"id": "int64", "note": "string", "ratio": "float64", "extra": "json", "city": "string"}.items()
    ),
    ("id",),
)


@pytest.mark.parametrize(
    ("chosen", "unfit", "names"),
    [
        (None, {}, ["id", "note", "city"]),
        (["note"], {}, ["id", "note"]),
        (None, {"masked": {"note"}}, ["id", "city"]),
        (None, {"left": {"note"}}, ["id", "city"]),
    ],
    ids=["no column that databases write differently", "always the key", "no masked one", "none that left the source"],
)
def test_these_columns_are_compared(chosen: list[str] | None, unfit: dict[str, set[str]], names: list[str]) -> None:
    assert [column.name for column in compared_columns(SCHEMA, chosen, **unfit)] == names


@pytest.mark.parametrize(
    ("chosen", "unfit", "detail"),
    [
        (["ratio"], {}, "not_comparable: .*ratio"),
        (["extra"], {}, "not_comparable: .*extra"),
        (["nope"], {}, "unknown_column: .*nope"),
        (["note"], {"masked": {"note"}}, "'note' is masked"),
        (None, {"masked": {"id"}}, "'id' is masked"),
        (["note"], {"left": {"note"}}, "'note' has left the source"),
    ],
)
def test_a_column_that_cannot_be_compared_is_named(
    chosen: list[str] | None, unfit: dict[str, set[str]], detail: str
) -> None:
    with pytest.raises(RejectedInput, match=detail):
        compared_columns(SCHEMA, chosen, **unfit)


def test_a_table_without_keys_cannot_be_compared() -> None:
    with pytest.raises(RejectedInput, match=r": a table without key columns cannot be compared with its source$"):
        compared_columns(TableSchema(SCHEMA.columns), None)


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


ROWS = st.dictionaries(st.text(max_size=8), st.text(max_size=12), max_size=40)


def digests(rows: dict[str, str], digits: int) -> BucketDigests:
    found = BucketDigests(digits)
    found.add(CanonicalRows([*rows], [*rows.values()]))
    return found


def as_source(rows: dict[str, str], digits: int) -> dict[str, Digest]:
    return {name: Digest(*sums) for name, sums in digests(rows, digits).found.items()}


@given(source=ROWS, gateway=ROWS, digits=st.integers(1, 4))
def test_buckets_differ_exactly_if_rows_do(source: dict[str, str], gateway: dict[str, str], digits: int) -> None:
    differences = digests(gateway, digits).differences(as_source(source, digits))
    assert bool(differences) == (source != gateway)


@given(source=ROWS, gateway=ROWS, digits=st.integers(1, 2))
def test_the_rows_of_the_differing_buckets_name_every_difference(
    source: dict[str, str], gateway: dict[str, str], digits: int
) -> None:
    buckets = {one.bucket for one in digests(gateway, digits).differences(as_source(source, digits))}
    theirs = {key: checksum_of(row) for key, row in source.items() if bucket_of(key, digits) in buckets}
    ours = BucketRows(buckets, theirs.items())
    ours.add(CanonicalRows([*gateway], [*gateway.values()]))
    found = ours.differences()
    assert found.missing == sorted(source.keys() - gateway.keys())
    assert found.surplus == sorted(gateway.keys() - source.keys())
    assert found.changed == sorted(key for key in source.keys() & gateway.keys() if source[key] != gateway[key])
    assert found.rows == len(found.missing) + len(found.surplus) + len(found.changed)


def test_a_list_of_rows_ends_and_the_count_does_not() -> None:
    ours = BucketRows({*hexdigits.lower()}, ())
    keys = [str(key) for key in range(4_500, 0, -1)]
    ours.add(CanonicalRows(keys, ["x"] * len(keys)))
    found = ours.differences()
    assert found.surplus == sorted(keys)[:MAX_LISTED]
    assert found.rows == ours.rows == len(keys)


@given(rows=ROWS, digits=st.integers(1, 4))
def test_a_bucket_has_the_count_and_the_sum_that_the_query_of_the_source_gives(
    rows: dict[str, str], digits: int
) -> None:
    expected: dict[str, Digest] = {}
    for key, row in rows.items():
        bucket = md5(key.encode()).hexdigest()[:digits]
        count, total = expected.get(bucket, NO_ROWS)
        expected[bucket] = Digest(count + 1, total + int(md5(row.encode()).hexdigest()[:8], 16))
    found = digests(rows, digits)
    assert {bucket: Digest(*sums) for bucket, sums in found.found.items()} == expected
    assert found.rows == len(rows)
    assert found.differences({}) == [BucketDifference(name, NO_ROWS, expected[name]) for name in sorted(expected)]
    assert BucketDigests(digits).differences(expected) == [
        BucketDifference(name, expected[name], NO_ROWS) for name in sorted(expected)
    ]
