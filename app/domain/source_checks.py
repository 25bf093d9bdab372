r"""Comparison of a table's rows with its source by counts and checksums, so that no row has to be sent.

A row's bucket is the first hexadecimal digits of the MD5 of its key text: no order of keys is needed, which databases
sort differently. Its checksum is the first 32 bits of the MD5 of its row text, and that of a bucket their sum. MD5 is
what every database has; it protects against chance, not against an attacker who writes the rows. Only the rows of
buckets that differ are compared one by one.

The text of a row joins those of its columns by U+001F; NULL is `\N`. Integers and dates are as JSON writes them,
decimals have all digits of their scale, timestamps are `YYYY-MM-DD HH:MM:SS.ffffff` in UTC, booleans 1 or 0, bytes
hexadecimal in capitals. `app.domain.canonical_text` makes it of typed rows. `SourceQueries` has it in SQL: the caller
runs the queries with its own account of the source, and writes the SQL of the relation and expressions itself.

Commands import this module, so it imports no Arrow.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import md5
from typing import Final, NamedTuple, Self

from app.domain.model.table_schema import Column, TableSchema, TypeName
from mirrorgate.errors import Code, RejectedInput

SEPARATOR: Final = "\x1f"
"""Between the texts of two columns."""

NULL_TEXT: Final = "\\N"
INCOMPARABLE: Final = frozenset({TypeName.FLOAT32, TypeName.FLOAT64, TypeName.JSON})
"""Types whose text differs between databases."""


def compared_columns(
    schema: TableSchema, chosen: Sequence[str] | None, masked: Collection[str] = (), left: Collection[str] = ()
) -> list[Column]:
    """Return the columns to compare, in the order of the table: the chosen ones, or all that can be compared.

    The key columns are always among them. Raises RejectedInput `unknown_column`, or `not_comparable` for a column whose
    type has no canonical text, whose values are masked or that has left the source, or for a table without keys.
    """
    if not schema.key_columns:
        raise RejectedInput(Code.NOT_COMPARABLE, "a table without key columns cannot be compared with its source")
    names = {column.name for column in schema.columns}
    if chosen is not None and (unknown := [name for name in chosen if name not in names]):
        raise RejectedInput(Code.UNKNOWN_COLUMN, f"the table has no column {unknown[0]!r}")
    wanted = names if chosen is None else {*chosen, *schema.key_columns}
    found = [column for column in schema.columns if column.name in wanted]
    compared = []
    for column in found:
        why = None
        if column.type.name in INCOMPARABLE:
            why = f"is {column.type}, which databases write differently"
        elif column.name in masked:
            why = "is masked or derived, so the source has other values"
        elif column.name in left:
            why = "has left the source or is excluded, so rows do not have its values"
        if why is None:
            compared.append(column)
        elif chosen is not None or column.name in schema.key_set:
            raise RejectedInput(Code.NOT_COMPARABLE, f"column {column.name!r} {why}")
    return compared


class CanonicalRows(NamedTuple):
    """Canonical texts of some rows: of their keys and of all their compared columns."""

    keys: Sequence[str]
    rows: Sequence[str]


class Dialect(StrEnum):
    """Databases for which queries can be written, by the names that SQLAlchemy has for them."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    MSSQL = "mssql"
    ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class Grammar:
    """The SQL dialect of one database for the queries."""

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
    null_text: str = f"'{NULL_TEXT}'"
    """A literal of `NULL_TEXT`."""
    session: str | None = None
    """First statement of a session, so that it reads times with a zone in UTC; None if it needs nothing."""

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
        null_text=rf"E'\{NULL_TEXT}'",
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
        session="ALTER SESSION SET TIME_ZONE = 'UTC'",
    ),
}
"""The grammars. Oracle and SQL Server take whole texts up to 4,000 bytes and 8,000 bytes without LOB columns."""


MAX_DIGITS: Final = 4
"""Digits of a bucket: 65,536 buckets."""

MAX_LISTED: Final = 1_000
"""Differing rows that are listed by kind; beyond it they are only counted."""

MAX_ROWS: Final = 100_000
"""Rows of the source in one request."""

_CHECKSUM_DIGITS: Final = 8
_BUCKET: Final = re.compile(rf"[0-9a-f]{{1,{MAX_DIGITS}}}")


class Digest(NamedTuple):
    """The number of rows of a bucket, and the sum of their checksums."""

    rows: int
    checksum: int


NO_ROWS: Final = Digest(0, 0)


class BucketDifference(NamedTuple):
    """A bucket whose rows differ."""

    bucket: str
    source: Digest
    gateway: Digest


@dataclass
class BucketDigests:
    """Digests of rows by bucket, to which rows are added."""

    digits: int
    found: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))

    def add(self, rows: "CanonicalRows") -> None:
        """Add rows."""
        for key, row in zip(*rows, strict=True):
            bucket = self.found[bucket_of(key, self.digits)]
            bucket[0] += 1
            bucket[1] += checksum_of(row)

    @property
    def rows(self) -> int:
        """The number of rows that were added."""
        return sum(rows for rows, _ in self.found.values())

    def differences(self, source: Mapping[str, Digest]) -> list[BucketDifference]:
        """Return the buckets in which the source has other rows, in the order of their names."""
        own = {bucket: Digest(*sums) for bucket, sums in self.found.items()}
        pairs = ((name, source.get(name, NO_ROWS), own.get(name, NO_ROWS)) for name in sorted({*source, *own}))
        return [BucketDifference(*pair) for pair in pairs if pair[1] != pair[2]]


class RowDifferences(NamedTuple):
    """Key texts of rows that differ, sorted; each list ends at MAX_LISTED. `rows` counts all of them."""

    missing: list[str]
    """Rows that only the source has."""
    surplus: list[str]
    """Rows that only the gateway has."""
    changed: list[str]
    """Rows that both have with different values."""
    rows: int


class BucketRows:
    """Comparison of the rows in some buckets, whose names have the same length, with those of the source.

    Memory grows with the rows of the source, which a request limits, and not with those of the table.
    """

    def __init__(self, buckets: Collection[str], source: Iterable[tuple[str, int]]) -> None:
        """Begin with the key texts and checksums of the source's rows in these buckets."""
        self.rows = 0
        """The rows of the gateway in the buckets."""
        self._buckets = buckets
        self._digits = len(next(iter(buckets), ""))
        self._unseen = dict(source)
        self._surplus, self._changed = _FirstKeys(), _FirstKeys()

    def add(self, rows: "CanonicalRows") -> None:
        """Add those of these rows that are in the buckets; each key at most once."""
        for key, row in zip(*rows, strict=True):
            if bucket_of(key, self._digits) not in self._buckets:
                continue
            self.rows += 1
            theirs = self._unseen.pop(key, None)
            if theirs is None:
                self._surplus.add(key)
            elif theirs != checksum_of(row):
                self._changed.add(key)

    def differences(self) -> RowDifferences:
        """Return the rows that differ from those of the source."""
        missing = sorted(self._unseen)
        total = len(missing) + self._surplus.count + self._changed.count
        return RowDifferences(missing[:MAX_LISTED], self._surplus.listed(), self._changed.listed(), total)


def is_bucket(name: str, digits: int) -> bool:
    """Return True if a string is the name of a bucket with so many digits."""
    return len(name) == digits and _BUCKET.fullmatch(name) is not None


class _FirstKeys:
    """Count of keys, and the first MAX_LISTED of them in their order."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[str] = []

    def add(self, key: str) -> None:
        self.count += 1
        self._kept.append(key)
        if len(self._kept) > 2 * MAX_LISTED:
            self._kept = self.listed()

    def listed(self) -> list[str]:
        return sorted(self._kept)[:MAX_LISTED]


def bucket_of(key: str, digits: int) -> str:
    """Return the bucket of a row with this key text."""
    return md5(key.encode(), usedforsecurity=False).hexdigest()[:digits]


def checksum_of(row: str) -> int:
    """Return the checksum of a row text."""
    return int(md5(row.encode(), usedforsecurity=False).hexdigest()[:_CHECKSUM_DIGITS], 16)


@dataclass(frozen=True)
class SourceQueries:
    """The queries of one table; `relation` is the SQL of a table or of a subquery in parentheses."""

    dialect: Dialect
    relation: str
    columns: Sequence[Column]
    key_columns: Sequence[str]
    """In key order, as the gateway joins them."""
    expressions: Mapping[str, str] = field(default_factory=dict)
    """SQL for columns that are not simply a column of the relation with the same name."""

    @classmethod
    def of(
        cls,
        dialect: Dialect,
        relation: str,
        columns: Sequence[Column],
        key_columns: Sequence[str],
        expressions: Mapping[str, str],
        *,
        is_table: bool,
    ) -> Self:
        """Return the queries; `is_table` says that the relation is the name of a table, which has to be quoted."""
        if is_table:
            relation = ".".join(map(GRAMMARS[dialect].quoted, relation.split(".")))
        return cls(dialect, relation, columns, key_columns, expressions)

    def buckets(self, digits: int) -> str:
        """Return the query for the count and checksum of each bucket: columns bucket, rows, checksum."""
        grammar = self._grammar
        bucket = f"SUBSTR(k, 1, {digits})" if self.dialect is not Dialect.MSSQL else f"SUBSTRING(k, 1, {digits})"
        return (
            f"SELECT {bucket} AS bucket, COUNT(*) AS row_count, SUM({grammar.checksum.format('r')}) AS checksum\n"
            f"FROM ({self._hashes()}) hashed\nGROUP BY {bucket}"
        )

    def rows(self, buckets: Collection[str]) -> str:
        """Return the query for the rows in some buckets of one length: columns key text, checksum.

        Raises ValueError for a text that is not a bucket's name, because the names become part of the SQL.
        """
        digits = len(next(iter(buckets)))
        if not all(is_bucket(bucket, digits) for bucket in buckets):
            raise ValueError("a bucket is not named by one to four hexadecimal digits, the same number for each")
        function = "SUBSTRING" if self.dialect is Dialect.MSSQL else "SUBSTR"
        names = ", ".join(f"'{bucket}'" for bucket in sorted(buckets))
        return (
            f"SELECT key_text, {self._grammar.checksum.format('r')} AS checksum\n"
            f"FROM ({self._hashes()}) hashed\nWHERE {function}(k, 1, {digits}) IN ({names})"
        )

    def script(self, digits: int, buckets: Collection[str] | None = None) -> str:
        """Return what a client of the database runs: the query for all buckets, or for the rows of some."""
        query = self.rows(buckets) if buckets else self.buckets(digits)
        session = self._grammar.session
        return f"{query};" if session is None else f"{session};\n{query};"

    @property
    def _grammar(self) -> Grammar:
        return GRAMMARS[self.dialect]

    def _hashes(self) -> str:
        """Return the query for the key text of each row, its MD5 and that of the row text."""
        by_name = {column.name: column for column in self.columns}
        key = self._joined([by_name[name] for name in self.key_columns])
        row = self._joined(self.columns)
        md5 = self._grammar.md5
        texts = f"{key} AS key_text, {md5.format(key)} AS k, {md5.format(row)} AS r"
        return f"SELECT {texts} FROM {self.relation} source"  # noqa: S608  # quoted names; run with the caller's rights

    def _joined(self, columns: Sequence[Column]) -> str:
        grammar = self._grammar
        between = f"{grammar.joined}{grammar.separator}{grammar.joined}"
        texts = [f"COALESCE({self._text(column)}, {grammar.null_text})" for column in columns]
        return grammar.whole.format(between.join(texts))

    def _text(self, column: Column) -> str:
        expression = self.expressions.get(column.name, self._grammar.quoted(column.name))
        return self._grammar.text(column, expression)
