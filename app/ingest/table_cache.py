"""The cache of tables by source name, as one API process last saw them.

Invariant: an entry can be out of date, and the sequence lock notices it. A table is never cached as missing, nor one
whose values this process cannot mask: its requests end before the sequence lock.
"""

import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from app.domain.access.mask_secret import MaskSecret, can_mask
from app.domain.access.rights import Principal
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Route, Table, TableId
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows.row_rules import RowRules
from app.staging.connection.database import Connection, translated_errors
from app.staging.tables.registry import find_route

Begin: TypeAlias = Callable[[], AbstractContextManager[Connection]]
"""Opens a transaction that ends with the block: `Engine.begin`, or a savepoint of a dry run's transaction."""

MAX_CACHED_NAMES: Final = 10_000
"""Names kept in memory. Callers can invent them: any catalog can precede a table's name."""


Shared = TypeVar("Shared")


class NotCached(Exception):
    """A query has to find what is not cached; `look_up` runs it, and returns None if there is nothing to cache."""

    def __init__(self, look_up: Callable[[], object]) -> None:
        super().__init__("not cached")
        self.look_up = look_up


@dataclass
class TableCache:
    """Cache of the table that a source feeds, with how this process registers and masks tables."""

    begin: Begin
    mask_secret: MaskSecret | None = field(default=None, kw_only=True)
    """The secret of this process for masked values."""
    marker_first: bool = field(default=False, kw_only=True)
    """True if landing files have the row marker as their first column; newly registered tables record it."""
    _tables: dict[SourceName, Table] = field(default_factory=dict)
    """By source name. Threads read it without a lock, and change it or walk through it with one."""
    _changing: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    described: dict[str, frozenset[str]] = field(default_factory=dict)
    """By Replicate schema id: the names of the live tables that it has described, at least one."""
    replicate_sources: dict[TableId, Any] = field(default_factory=dict)
    """Sources of tables that `app.ingest.readers.replicate` remembers."""
    image_types: dict[str, Any] = field(default_factory=dict)
    """By Replicate schema id: the type of most images of the table that it has described, if that is known."""

    def __post_init__(self) -> None:
        self._schemas = _OneOfEqual[TableSchema]()
        self._options = _OneOfEqual[TableOptions]()

    def rules(self, table: Table, *, in_load: bool = False) -> RowRules:
        """Return the rules by which changes of a source become rows of a table."""
        return RowRules.of_source(table, self.mask_secret, in_load=in_load)

    def route(self, source: SourceName) -> Table | None:
        """Return the table that this source feeds, whether or not the caller may touch it."""
        table = self._tables.get(source)
        return self._routed(source) if table is None else table

    def get_cached(self, source: SourceName, principal: Principal) -> Table | None:
        """Return what `visible` does, or None where that would need a query."""
        table = self._tables.get(source)
        return table if table is not None and principal.may_touch(table.name) else None

    def require_cached(self, source: SourceName) -> None:
        """Raise NotCached if no table of this source is cached, for any caller."""
        if source not in self._tables:
            raise NotCached(partial(self._cache, source))

    def visible(self, source: SourceName, principal: Principal) -> Table | None:
        """Return the table that this source feeds; None for a table outside the caller's patterns.

        Such a table is looked up each time, like one that does not exist, so that the time does not tell them apart.
        """
        known = self.get_cached(source, principal)
        if known is not None:
            return known
        table = self._routed(source)
        return table if table is not None and principal.may_touch(table.name) else None

    def twin(self, source: SourceName, principal: Principal) -> Table | None:
        """Return a table of the caller's that is fed by a source whose name differs in letter case only."""
        twin = self._look_up(source).twin
        return twin if twin is not None and principal.may_touch(twin.name) else None

    def withheld(self, source: SourceName, principal: Principal) -> str | None:
        """Return the folded name of the table that this source feeds, or would feed, if the caller may not touch it."""
        table = self._routed(source)
        if table is None:
            return None if principal.may_name(source) else source.without_catalog.folded
        return None if principal.may_touch(table.name) else table.name.folded

    def refresh(self, source: SourceName) -> Table | None:
        """Return the table that this source feeds now, for decisions that the sequence lock does not check."""
        self.forget(source)
        return self.route(source)

    def forget(self, source: SourceName) -> None:
        """Query this source's table the next time."""
        with self._changing:
            self._tables.pop(source, None)

    def forget_table(self, name: TableName) -> None:
        """Query the table the next time, for every source that feeds it."""
        with self._changing:
            for source in [source for source, table in self._tables.items() if table.name.folded == name.folded]:
                del self._tables[source]

    def note_described(self, schema_id: str, names: Collection[TableName]) -> frozenset[str]:
        """Cache the tables that a Replicate schema id describes now, and return their names."""
        found = frozenset(map(str, names))
        if len(self.described) >= MAX_CACHED_NAMES:
            self.described.clear()
        if found:
            self.described[schema_id] = found
        else:
            self.described.pop(schema_id, None)
        return found

    def _cache(self, source: SourceName) -> Table | None:
        """Query this source's table, and return it if it is cached now."""
        self._routed(source)
        return self._tables.get(source)

    def _routed(self, source: SourceName) -> Table | None:
        """Return the table that this source feeds now, and cache it if this process can mask its values."""
        table = self._look_up(source).table
        if table is not None:
            table = replace(table, schema=self._schemas(table.schema), options=self._options(table.options))
            if can_mask(table, self.mask_secret):
                with self._changing:
                    if len(self._tables) >= MAX_CACHED_NAMES:
                        self._tables.clear()
                    self._tables[source] = table
        return table

    def _look_up(self, source: SourceName) -> Route:
        with translated_errors(), self.begin() as connection:
            return find_route(connection, source)


class _OneOfEqual(Generic[Shared]):
    """One object for all that are equal as JSON, so that comparing them costs nothing."""

    def __init__(self) -> None:
        self._known: dict[bytes, Shared] = {}

    def __call__(self, shared: Shared) -> Shared:
        if len(self._known) >= MAX_CACHED_NAMES:
            self._known.clear()
        return self._known.setdefault(msgspec.json.encode(shared, order="deterministic"), shared)
