"""Fabric's apply rules for one table, row by row, in plain Python: what the Delta table must hold after each file.

It shares no code with `app.mirror`, and is written for the eye: a dictionary from key to rows, a list of rows that no
key finds, one `if` for each rule.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.mirror.model.landed import DELETE, INSERT, UPDATE, UPSERT, Column, LandedFile, Metadata, Row
from tests.mirror.model.values import Value

Record = tuple[Value, ...]
"""The values of a row in the order of the table's columns. An old row is shorter: columns that came later are NULL."""


class Stops(Exception):
    """Fabric stops the table at this file, which leaves no trace; `why` is one word."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass
class TableModel:
    """The rows of one generation of a table."""

    columns: dict[str, Column] = field(default_factory=dict)
    """By folded name, in the order of the table; the spelling is that of the first file that had the column."""
    by_key: dict[Record, list[Record]] = field(default_factory=dict)
    unfindable: list[Record] = field(default_factory=list)
    """Rows with a NULL in their key, and all rows of a table without keys."""
    keys: tuple[str, ...] = ()
    read: Counter[int] = field(default_factory=Counter)
    """Rows read from files, by the marker that they have or get."""

    def apply(self, file: LandedFile, metadata: Metadata) -> None:
        """Apply one file. Raises Stops, and the table is as before."""
        self._check(file, metadata)
        self._take_keys(metadata)
        for column in file.columns:
            self.columns.setdefault(column.folded, column)
        given = {column.folded: column for column in file.columns}
        in_order = [given.get(name) for name in self.columns]
        for row in file.rows:
            marker = _marker(file, row, metadata)
            self.read[marker] += 1
            self._apply_row(marker, tuple(_expected(column, row) for column in in_order))

    def rows(self) -> Counter[Record]:
        """Return the table's rows and how often it has each."""
        width = len(self.columns)
        return Counter(record + (None,) * (width - len(record)) for record in self._records())

    @property
    def row_count(self) -> int:
        return len(self.unfindable) + sum(map(len, self.by_key.values()))

    def _records(self) -> Iterator[Record]:
        yield from self.unfindable
        for records in self.by_key.values():
            yield from records

    def _apply_row(self, marker: int, record: Record) -> None:
        key = self._key(record)
        if key is None:
            if marker != DELETE:
                self.unfindable.append(record)
        elif marker == INSERT:
            self.by_key.setdefault(key, []).append(record)
        elif marker == DELETE:
            self.by_key.pop(key, None)
        else:
            self.by_key[key] = [record]

    def _key(self, record: Record) -> Record | None:
        """Return the key's values; None if nothing can equal it."""
        key = tuple(record[place] for place in self._key_places)
        return None if not key or None in key else key

    @property
    def _key_places(self) -> tuple[int, ...]:
        names = list(self.columns)
        return tuple(names.index(key) for key in self.keys)

    def _check(self, file: LandedFile, metadata: Metadata) -> None:
        given = {column.folded: column for column in file.columns}
        for name, column in self.columns.items():
            if name not in given:
                if column.required:
                    raise Stops("missing_required")
            elif given[name].of_kind.delta != column.of_kind.delta:
                raise Stops("type_change")
        markers = {_marker(file, row, metadata) for row in file.rows}
        if not markers <= {INSERT, UPDATE, DELETE, UPSERT}:
            raise Stops("unknown_marker")
        if not metadata.key_columns and markers - {INSERT}:
            raise Stops("no_keys")
        if markers - {INSERT} and not {key.lower() for key in metadata.key_columns} <= set(given):
            raise Stops("missing_key")

    def _take_keys(self, metadata: Metadata) -> None:
        """Use the keys of the metadata, which a table may get later."""
        keys = tuple(key.lower() for key in metadata.key_columns)
        if keys == self.keys:
            return
        records = list(self._records())
        self.keys, self.by_key, self.unfindable = keys, {}, []
        width = len(self.columns)
        for record in records:
            self._apply_row(INSERT, record + (None,) * (width - len(record)))


def _marker(file: LandedFile, row: Row, metadata: Metadata) -> int:
    marker = row.marker if file.has_markers else None
    if marker is None:
        return UPSERT if metadata.upsert_by_default else INSERT
    return marker


def _expected(column: Column | None, row: Row) -> Value:
    value = None if column is None else row.values.get(column.name)
    return None if value is None or column is None else column.of_kind.expected(value)
