"""The tables of the gateway as one API process last saw them; the sequence lock notices what is out of date."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from app.domain.access.rights import Principal
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.model.source_routing import Route
from app.domain.model.table import Table
from app.staging.connection.database import Connection, translated_errors
from app.staging.tables.registry import find_route

Begin: TypeAlias = Callable[[], AbstractContextManager[Connection]]
"""Opens a transaction that ends with the block: `Engine.begin`, or a savepoint of a transaction to be given up."""

MAX_CACHED_NAMES: Final = 10_000
"""Names kept in memory; callers may choose them freely where a catalog stands before a table's name."""


class NotCached(Exception):
    """What this source feeds takes a question to the database."""

    def __init__(self, source: SourceName) -> None:
        super().__init__("not remembered")
        self.source = source


@dataclass
class TableCache:
    """Finds the table that a source's table feeds."""

    begin: Begin
    _tables: dict[SourceName, Table] = field(default_factory=dict)
    """By source name; no table is remembered as missing."""

    def route(self, source: SourceName) -> Table | None:
        """The table that this source feeds, whoever may touch it."""
        table = self._tables.get(source.key)
        return self._routed(source) if table is None else table

    def get_cached(self, source: SourceName, principal: Principal) -> Table | None:
        """As `visible`, without a question to the database: None where it takes one."""
        table = self._tables.get(source.key)
        return table if table is not None and principal.may_touch(table.name) else None

    def require_cached(self, source: SourceName) -> None:
        """Raises NotCached where `remembered` knows no table of this source, for whatever caller."""
        if source.key not in self._tables:
            raise NotCached(source)

    def visible(self, source: SourceName, principal: Principal) -> Table | None:
        """The table that this source feeds; one outside the caller's patterns is as unknown as none.

        Such a table is looked up each time, as one that does not exist, so that the time tells nothing either.
        """
        known = self.get_cached(source, principal)
        if known is not None:
            return known
        table = self._routed(source)
        return table if table is not None and principal.may_touch(table.name) else None

    def twin(self, source: SourceName, principal: Principal) -> Table | None:
        """A table that the caller may touch, and that a source whose name differs in letter case only feeds."""
        twin = self._look_up(source).twin
        return twin if twin is not None and principal.may_touch(twin.name) else None

    def withheld(self, source: SourceName, principal: Principal) -> str | None:
        """The folded name of what this source feeds, or would feed, where that is outside the caller's patterns."""
        table = self._routed(source)
        if table is None:
            return None if principal.may_name(source) else source.without_catalog.folded
        return None if principal.may_touch(table.name) else table.name.folded

    def refresh(self, source: SourceName) -> Table | None:
        """The table that this source feeds now: for what the sequence lock does not recheck."""
        self.forget(source)
        return self.route(source)

    def forget(self, source: SourceName) -> None:
        """Look again next time."""
        self._tables.pop(source.key, None)

    def forget_table(self, name: TableName) -> None:
        """Look again next time for every source that feeds this table."""
        for source in [source for source, table in self._tables.items() if table.name.folded == name.folded]:
            self._tables.pop(source, None)

    def _routed(self, source: SourceName) -> Table | None:
        """The table that this source feeds, as the database has it now."""
        table = self._look_up(source).table
        if table is not None:
            if len(self._tables) >= MAX_CACHED_NAMES:
                self._tables.clear()
            self._tables[source.key] = table
        return table

    def _look_up(self, source: SourceName) -> Route:
        with translated_errors(), self.begin() as connection:
            return find_route(connection, source)
