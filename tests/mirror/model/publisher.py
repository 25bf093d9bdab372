"""A random publisher of one table: every file is legal, most are odd. The same seed makes the same files."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.mirror.model.kinds import KINDS
from tests.mirror.model.landed import DELETE, INSERT, UPDATE, UPSERT, Column, FileLayout, LandedFile, Metadata, Row
from tests.mirror.model.values import Value

KEY_NAMES: Final = ("id", "Order ID", "k.ey", 'k"ey', "größe", "__d", "order", "s")
COLUMN_NAMES: Final = (
    "value",
    "Unit Price",
    "a.b",
    "select",
    "UPPER",
    "t",
    "source",
    "x;y",
    "a=b",
    'quo"te',
    "back`tick",
    "a,b",
    "{x}",
    "(y)",
    "tab\t",
    "new\nline",
    "%41",
    "#5",
    "ünï ✓",
    "__rowMarker",
    "it's",
    "path/name",
    "back\\slash",
    "$1",
    "null",
    "_",
    "target.k",
    "0",
    "Ключ",
    "列",
)
FOLDERS: Final = (
    "sales.schema/Order Lines",
    "plain",
    "dbo.schema/größe ✓",
    "50% off #1",
    "a+b.schema/UPPER=x",
    "t@g1",
    "[x] ^ a|b ~23",
)
"""Folders of tables: with and without a schema, with blanks, Unicode, and characters that mean something in a URL."""


@dataclass(frozen=True)
class Style:
    """What one table's publisher does."""

    keys: int = 1
    """Key columns; 0 for a table that only gets inserts."""
    kinds: Sequence[str] = tuple(KINDS)
    first_columns: int = 6
    key_pool: int = 400
    """Different keys."""
    upsert_by_default: bool = False
    null_keys: float = 0.01
    """Share of rows with a NULL in the key."""
    names: Sequence[str] = COLUMN_NAMES
    key_names: Sequence[str] = KEY_NAMES


@dataclass
class Publisher:
    """Makes the metadata and the files of one generation of a table."""

    source: random.Random
    style: Style
    columns: list[Column] = field(default_factory=list)
    metadata: Metadata = field(default_factory=Metadata)
    _pool: list[tuple[Value, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = self.source.sample(list(self.style.key_names), self.style.keys)
        kinds = [kind for kind in self.style.kinds if KINDS[kind].is_key]
        self.columns = [Column(name, self.source.choice(kinds), required=self.source.random() < 0.5) for name in names]
        self._pool = self._draw_pool() if names else []
        self.metadata = Metadata(
            tuple(self._respelled(name) for name in names),
            upsert_by_default=self.style.upsert_by_default,
            keys_as=self.source.choice(("keyColumns", "KeyColumns")),
        )
        for _ in range(self.style.first_columns):
            self.add_column(required=self.source.random() < 0.2)

    def add_column(self, *, required: bool = False) -> None:
        """Let the next files have one more column."""
        taken = {column.folded for column in self.columns}
        free = [name for name in self.style.names if name.lower() not in taken]
        if free:
            self.columns.append(Column(self.source.choice(free), self.source.choice(list(self.style.kinds)), required))

    def file(self, changes: int) -> LandedFile:
        """Make a file of about so many rows."""
        columns = self._columns_of_file()
        bare = self.source.random() < 0.15
        rows: list[Row] = []
        while len(rows) < changes:
            rows += [self._row(columns, INSERT)] if bare or not self.style.keys else self._changes(columns)
        return LandedFile(tuple(columns), tuple(rows), not bare, self._layout(len(rows)))

    def _changes(self, columns: Sequence[Column]) -> list[Row]:
        """Return one change, or the two rows of a change of a key."""
        roll = self.source.random()
        if roll < 0.08:
            return [self._row(columns, DELETE), self._row(columns, INSERT)]
        if roll < 0.2:
            return [self._row(columns, DELETE)]
        if roll < 0.35:
            return [self._row(columns, INSERT)]
        return [self._row(columns, UPDATE if roll < 0.7 else UPSERT)]

    def _row(self, columns: Sequence[Column], marker: int) -> Row:
        keys = self.columns[: self.style.keys]
        given = dict(zip((key.folded for key in keys), self._key(), strict=True)) if keys else {}
        for column in columns:
            if column.folded not in given:
                absent = marker == DELETE or self.source.random() < 0.1
                given[column.folded] = None if absent and not column.required else self._value(column)
            elif not column.required and self.source.random() < self.style.null_keys:
                given[column.folded] = None
        return Row({column.name: given[column.folded] for column in columns}, marker)

    def _key(self) -> tuple[Value, ...]:
        """Return a key of the pool; a tenth of the keys gets half of the changes."""
        few = max(1, len(self._pool) // 10)
        return self._pool[self.source.randrange(few if self.source.random() < 0.5 else len(self._pool))]

    def _value(self, column: Column) -> Value:
        return column.of_kind.value(self.source)

    def _draw_pool(self) -> list[tuple[Value, ...]]:
        drawn = (tuple(self._value(column) for column in self.columns) for _ in range(self.style.key_pool))
        return list(dict.fromkeys(drawn))

    def _columns_of_file(self) -> list[Column]:
        """Return the columns of one file: some are missing, in another order, or in another letter case."""
        keys, others = self.columns[: self.style.keys], self.columns[self.style.keys :]
        kept = [column for column in others if column.required or self.source.random() < 0.97]
        columns = [*keys, *kept]
        if self.source.random() < 0.2:
            self.source.shuffle(columns)
        if self.source.random() < 0.2:
            columns = [Column(self._respelled(column.name), column.kind, column.required) for column in columns]
        return columns

    def _respelled(self, name: str) -> str:
        return self.source.choice((name, name.upper(), name.lower())) if name.isascii() else name

    def _layout(self, rows: int) -> FileLayout:
        return FileLayout(
            marker_first=self.source.random() < 0.2,
            marker_type=self.source.choice(("int32", "int32", "int64", "int8")),
            row_group_rows=max(1, rows // self.source.randint(1, 4)),
            compression=self.source.choice(("zstd", "snappy", "gzip", "none")),
            with_arrow_schema=self.source.random() < 0.5,
        )
