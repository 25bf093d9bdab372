"""What the SQL of databases says differently: the text of a value of each type, and MD5 of a text.

Templates have `{0}` in the place of a column or another expression. `canonical` defines the texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.model.table_schema import Column, TypeName
from app.domain.source_checks.columns import NULL_TEXT

_NULL_LITERAL: Final = f"'{NULL_TEXT}'"


class Dialect(StrEnum):
    """Databases for which queries can be written, by the names that SQLAlchemy has for them."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    MSSQL = "mssql"
    ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class Grammar:
    """How one database writes what the queries need."""

    quotes: tuple[str, str]
    """Around a name; the second one is doubled within it."""
    plain: str
    """Of integers and texts."""
    boolean: str
    decimal: str
    """With `{p}` and `{s}`, and for Oracle `{form}`."""
    date: str
    timestamp: str
    """UTC, with six digits after the second. A column without a time zone is taken as it is."""
    binary: str
    separator: str
    joined: str
    """Between the texts of two columns: an operator, or a comma in a function."""
    whole: str
    """Around the joined texts."""
    md5: str
    """The MD5 of a text in UTF-8, in small letters."""
    checksum: str
    """The number of the first 8 hexadecimal digits of such an MD5."""
    null_text: str
    """A literal of `NULL_TEXT`."""
    session: str | None = None
    """What a session says first, so that it reads times with a zone in UTC; None if it needs nothing."""

    def quoted(self, name: str) -> str:
        """Return a name as the database writes it."""
        first, last = self.quotes
        return first + name.replace(last, last * 2) + last

    def text(self, column: Column, expression: str) -> str:
        """Return SQL for the canonical text of an expression of this column's type; NULL stays NULL."""
        kind = column.type
        match kind.name:
            case TypeName.DECIMAL:
                form = f"FM{'9' * (kind.precision - kind.scale - 1)}0" + (f".{'0' * kind.scale}" if kind.scale else "")
                return self.decimal.format(expression, p=kind.precision, s=kind.scale, form=form)
            case TypeName.BOOLEAN:
                return self.boolean.format(expression)
            case TypeName.DATE:
                return self.date.format(expression)
            case TypeName.TIMESTAMP:
                return self.timestamp.format(expression)
            case TypeName.BINARY:
                return self.binary.format(expression)
            case _:
                return self.plain.format(expression)


GRAMMARS: Final[Mapping[Dialect, Grammar]] = {
    Dialect.POSTGRESQL: Grammar(
        quotes=('"', '"'),
        plain="({0})::text",
        boolean="({0})::int::text",
        decimal="({0})::numeric({p},{s})::text",
        date="to_char({0}, 'YYYY-MM-DD')",
        timestamp="to_char({0}, 'YYYY-MM-DD HH24:MI:SS.US')",
        binary="upper(encode({0}, 'hex'))",
        separator="chr(31)",
        joined=" || ",
        whole="{0}",
        md5="md5(convert_to({0}, 'UTF8'))",
        checksum="('x' || substr({0}, 1, 8))::bit(32)::bigint",
        null_text=_NULL_LITERAL,
        session="SET TIME ZONE 'UTC'",
    ),
    Dialect.MYSQL: Grammar(
        quotes=("`", "`"),
        plain="CAST({0} AS CHAR CHARACTER SET utf8mb4)",
        boolean="CAST(({0}) + 0 AS CHAR CHARACTER SET utf8mb4)",
        decimal="CAST(CAST({0} AS DECIMAL({p},{s})) AS CHAR CHARACTER SET utf8mb4)",
        date="DATE_FORMAT({0}, '%Y-%m-%d')",
        timestamp="DATE_FORMAT({0}, '%Y-%m-%d %H:%i:%s.%f')",
        binary="HEX({0})",
        separator="CHAR(31 USING utf8mb4)",
        joined=", ",
        whole="CONCAT({0})",
        md5="MD5(CONVERT({0} USING utf8mb4))",
        checksum="CAST(CONV(SUBSTR({0}, 1, 8), 16, 10) AS UNSIGNED)",
        null_text=f"_utf8mb4 0x{NULL_TEXT.encode().hex()}",
        session="SET time_zone = '+00:00'",
    ),
    Dialect.MSSQL: Grammar(
        quotes=("[", "]"),
        plain="CAST({0} AS nvarchar(max))",
        boolean="CAST(CAST({0} AS int) AS nvarchar(max))",
        decimal="CAST(CAST({0} AS decimal({p},{s})) AS nvarchar(max))",
        date="CONVERT(nvarchar(max), {0}, 23)",
        timestamp="CONVERT(nvarchar(max), "
        "CAST(SWITCHOFFSET(CAST({0} AS datetimeoffset(6)), '+00:00') AS datetime2(6)), 121)",
        binary="CONVERT(nvarchar(max), {0}, 2)",
        separator="NCHAR(31)",
        joined=" + ",
        whole="{0}",
        md5="LOWER(CONVERT(char(32), HASHBYTES('MD5', "
        "CAST(({0}) COLLATE Latin1_General_100_BIN2_UTF8 AS varchar(max))), 2))",
        checksum="CAST(CONVERT(binary(4), SUBSTRING({0}, 1, 8), 2) AS bigint)",
        null_text=_NULL_LITERAL,
    ),
    Dialect.ORACLE: Grammar(
        quotes=('"', '"'),
        plain="TO_CHAR({0})",
        boolean="TO_CHAR({0})",
        decimal="TO_CHAR(CAST({0} AS NUMBER({p},{s})), '{form}', 'NLS_NUMERIC_CHARACTERS=''.,''')",
        date="TO_CHAR({0}, 'YYYY-MM-DD')",
        timestamp="TO_CHAR(SYS_EXTRACT_UTC(CAST({0} AS TIMESTAMP(6) WITH TIME ZONE)), 'YYYY-MM-DD HH24:MI:SS.FF6')",
        binary="RAWTOHEX({0})",
        separator="CHR(31)",
        joined=" || ",
        whole="{0}",
        md5="LOWER(RAWTOHEX(STANDARD_HASH({0}, 'MD5')))",
        checksum="TO_NUMBER(SUBSTR({0}, 1, 8), 'XXXXXXXX')",
        null_text=_NULL_LITERAL,
        session="ALTER SESSION SET TIME_ZONE = 'UTC'",
    ),
}
"""The grammars. Oracle and SQL Server take whole texts up to 4,000 bytes and 8,000 bytes without LOB columns."""
