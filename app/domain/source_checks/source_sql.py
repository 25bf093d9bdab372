"""Queries for the source of a table, which give what `digests` compares.

The caller runs them with its own account of the source, and writes the SQL of the relation and expressions itself.
"""
# ruff: noqa: S608  # names are quoted; the caller runs the queries with its own rights

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from app.domain.model.table_schema import Column
from app.domain.source_checks.dialects import GRAMMARS, Dialect, Grammar
from app.domain.source_checks.digests import is_bucket


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

        Raises ValueError for anything but names of buckets: they become part of the SQL, and may come from elsewhere.
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
        return f"SELECT {key} AS key_text, {md5.format(key)} AS k, {md5.format(row)} AS r FROM {self.relation} source"

    def _joined(self, columns: Sequence[Column]) -> str:
        grammar = self._grammar
        between = f"{grammar.joined}{grammar.separator}{grammar.joined}"
        texts = [f"COALESCE({self._text(column)}, {grammar.null_text})" for column in columns]
        return grammar.whole.format(between.join(texts))

    def _text(self, column: Column) -> str:
        expression = self.expressions.get(column.name, self._grammar.quoted(column.name))
        return self._grammar.text(column, expression)
