"""Changes of four tables in both formats, valid and invalid, and the landing rows that the valid ones must become."""

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from demo.workload import INSERT, UPDATE, Post, Row, StreamTable, stream_tables

ACCOUNTS: Final = {"account_id": "int64", "owner": "string", "note": "string", "balance": "decimal(12,2)"}
OWNERS: Final = ("Ada", "Böse, Ltd.", "山田", "o'Hara")


class PartialTable(StreamTable):
    """A table whose updates name only what changes; the gateway completes them from its row images."""

    def _change(self) -> tuple[dict[str, Any], list[Row]]:
        kind = self.source.random()
        if kind < 0.4 or not self.live:
            row = self._new_row()
            self.live.append(row)
            return self.message(self, "I", None, row), [(INSERT, *row)]
        position = self.source.randrange(len(self.live))
        old = self.live[position]
        if kind < 0.85:
            changed = self.source.sample(range(1, len(old)), self.source.randrange(1, len(old)))
            fresh = self.make_row(self.source, old[0])
            new = [fresh[at] if at in changed else value for at, value in enumerate(old)]
            self.live[position] = new
            return self._partial("U", old[0], {at: new[at] for at in changed}), [(UPDATE, *new)]
        if kind < 0.9:
            new = [self._new_row()[0], *old[1:]]
            self.live[position] = new
            return self._partial("U", old[0], {0: new[0]}), [self._deleted(old), (INSERT, *new)]
        self.live[position] = self.live[-1]
        self.live.pop()
        return self._partial("D", old[0], {}), [self._deleted(old)]

    def _partial(self, operation: str, key: int, changed: Mapping[int, Any]) -> dict[str, Any]:
        """Return an update as Replicant writes it by default: the key before, the changed columns after."""
        names = list(self.columns)
        after = {names[at]: str(value) for at, value in changed.items()}
        exists = dict.fromkeys(names, "0") | {names[0]: "2"} | dict.fromkeys(after, "1")
        exists[names[0]] = "3" if names[0] in after else "2"
        whole = self.message(self, operation, None, None)
        return whole | {
            "before": dict.fromkeys(names, "null") | {names[0]: str(key)},
            "after": dict.fromkeys(names, "null") | after,
            "exists": exists,
        }


def _account(source: random.Random, key: int) -> list[Any]:
    note = f"note {source.randrange(10**6)}"
    return [key, source.choice(OWNERS), note, Decimal(source.randrange(-(10**6), 10**8)).scaleb(-2)]


def chaos_tables(source: random.Random) -> list[StreamTable]:
    """Return the tables, each with its own random source."""
    tables = stream_tables()
    partial = PartialTable("shop.accounts", "arcion", ACCOUNTS, _account, tables[0].message)
    return [_own(table, source) for table in (*tables, partial)]


def twin_tables(source: random.Random) -> list[StreamTable]:
    """More tables of the Arcion format, for more load."""
    twins = [table for table in chaos_tables(source) if table.source_format == "arcion"]
    return [replace(table, name=table.name.replace("shop.", "twin.")) for table in twins]


def _own(table: StreamTable, source: random.Random) -> StreamTable:
    return replace(table, source=random.Random(source.random()), live=[])


def registration(table: StreamTable) -> dict[str, Any]:
    """Return the registration of a table of the Arcion format."""
    columns: list[dict[str, Any]] = [{"name": name, "type": of} for name, of in table.columns.items()]
    columns[0]["nullable"] = False
    wanted: dict[str, Any] = {"columns": columns, "key_columns": [columns[0]["name"]]}
    return wanted | {"options": {"partial_updates": "complete"}} if isinstance(table, PartialTable) else wanted


def bad_post(table: StreamTable) -> Post:
    """Return a request whose last message cannot be typed, so that none of it may land."""
    good = [table.make_row(table.source, 10**9 + table.source.randrange(10**6)) for _ in range(3)]
    bad = [*good[-1]]
    place = [*table.columns.values()].index(next(of for of in table.columns.values() if of.startswith("decimal")))
    bad[place] = "twelve"
    messages = [table.message(table, "I", None, row) for row in [*good[:-1], bad]]
    return Post(table.source_format, table.name, 3, json.dumps(messages).encode(), [(INSERT, *row) for row in good])
