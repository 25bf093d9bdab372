"""The queries for the source, as each database is given them; tests with real databases run some of them."""

import pytest

from app.domain.model.table_schema import Column, ColumnType
from app.domain.source_checks import GRAMMARS, Dialect, SourceQueries


def column(name: str, declared: str = "int64") -> Column:
    return Column(name, ColumnType.parse(declared))


def queries(dialect: Dialect, relation: str = "s.orders", *, is_table: bool = True) -> SourceQueries:
    """Return the queries of a table whose key has two columns, in another order than the table."""
    columns = [column("id"), column("day", "date")]
    return SourceQueries.of(dialect, relation, columns, ["day", "id"], {"id": "n + 1"}, is_table=is_table)


HASHES = {
    Dialect.POSTGRESQL: (
        "SELECT COALESCE(to_char(\"day\", 'YYYY-MM-DD'), '\\N') || chr(31) || COALESCE((n + 1)::text, '\\N')"
        " AS key_text,"
        " md5(convert_to(COALESCE(to_char(\"day\", 'YYYY-MM-DD'), '\\N') || chr(31)"
        " || COALESCE((n + 1)::text, '\\N'), 'UTF8')) AS k,"
        " md5(convert_to(COALESCE((n + 1)::text, '\\N') || chr(31)"
        " || COALESCE(to_char(\"day\", 'YYYY-MM-DD'), '\\N'), 'UTF8')) AS r"
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
