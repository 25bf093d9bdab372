"""Write a history of the table public.orders as Debezium's connector for Postgres writes it, one Kafka record per line.

It begins with a snapshot. Then rows are inserted, updated and deleted, each delete is followed by its tombstone, one
order gets another number, and halfway the table gets a column. Keys and values have their Connect schema. The same
arguments always write the same history, so its last state is known: `--table` prints that instead.

Usage: debezium_history.py [--rows 5] [--changes 12] [--seed 3] [--table] > history.ndjson
"""

import argparse
import json
import random
import sys
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

STARTED = 1_767_323_045_000
"""Milliseconds since 1970 of the first change."""

COLUMNS: list[dict[str, Any]] = [
    {"type": "int32", "optional": False, "field": "id"},
    {"type": "string", "optional": False, "field": "customer"},
    {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        "field": "total",
    },
    {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp", "version": 1, "field": "placed"},
]
ADDED: dict[str, Any] = {"type": "boolean", "optional": True, "field": "paid"}
"""ALTER TABLE public.orders ADD COLUMN paid boolean"""

CUSTOMERS = ("Ada", "Grace", "Edsger", "Barbara", "Donald", "Frances")


class Orders:
    """The source table, and the records that a connector writes of it."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.rows: dict[int, dict[str, Any]] = {}
        self.columns = list(COLUMNS)
        self.position = 24_023_128

    def history(self, rows: int, changes: int) -> Iterator[dict[str, Any]]:
        """Yield the records of a snapshot of this many rows, then of this many changes."""
        for number in range(1, rows + 1):
            row = self.insert(number)
            flag = "last" if number == rows else "true"
            yield self.record("r", None, row, snapshot=flag)
        yield {"key": {"serverName": "shop"}, "value": {"ts_ms": STARTED}}
        for change in range(changes):
            if change == changes // 2:
                self.columns.append(ADDED)
                self.rows = {number: {**row, "paid": None} for number, row in self.rows.items()}
            if change == changes // 3:
                yield from self.renumber(min(self.rows), max(self.rows) + 100)
            else:
                yield from self.change(rows + change + 1)

    def change(self, number: int) -> Iterator[dict[str, Any]]:
        """Yield the records of one change; the new row of an insert has this number."""
        kind = self.choose.choice("ccuuud") if self.rows else "c"
        if kind == "c":
            yield self.record("c", None, self.insert(number))
            return
        number = self.choose.choice(sorted(self.rows))
        if kind == "u":
            yield self.record("u", None, self.insert(number))
        else:
            yield from self.delete(number)

    def renumber(self, old: int, new: int) -> Iterator[dict[str, Any]]:
        """Yield the records of a change of the key: a delete with its tombstone, then an insert."""
        row = {**self.rows[old], "id": new}
        yield from self.delete(old)
        self.rows[new] = row
        yield self.record("c", None, row)

    def insert(self, number: int) -> dict[str, Any]:
        """Put a row with new values into the table, and return it."""
        row = {
            "id": number,
            "customer": self.choose.choice(CUSTOMERS),
            "total": self.choose.randrange(100, 100_000),
            "placed": (STARTED + number * 60_000) * 1_000,
        }
        if ADDED in self.columns:
            row["paid"] = self.choose.choice((True, False))
        self.rows[number] = row
        return row

    def delete(self, number: int) -> Iterator[dict[str, Any]]:
        """Yield the delete of a row, whose image has the key only, and the tombstone behind it."""
        del self.rows[number]
        nothing = {**dict.fromkeys(column["field"] for column in self.columns), "customer": ""}
        yield self.record("d", {**nothing, "id": number}, None)
        yield {"key": self.key(number), "value": None}

    def key(self, number: int) -> dict[str, Any]:
        """Return the key of a record, with its schema."""
        return {"schema": struct("shop.public.orders.Key", COLUMNS[:1]), "payload": {"id": number}}

    def record(self, op: str, before: Any, after: Any, snapshot: str = "false") -> dict[str, Any]:
        """Return a record with key, value and schemas."""
        self.position += 8
        row = struct("shop.public.orders.Value", self.columns)
        images = [{**row, "optional": True, "field": image} for image in ("before", "after")]
        others = [{"type": "string", "optional": False, "field": "op"}]
        payload = {
            "before": None if before is None else written(before),
            "after": None if after is None else written(after),
            "source": {
                "version": "3.0.8.Final",
                "connector": "postgresql",
                "name": "shop",
                "ts_ms": STARTED,
                "snapshot": snapshot,
                "db": "shop",
                "schema": "public",
                "table": "orders",
                "lsn": self.position,
            },
            "op": op,
            "ts_ms": STARTED,
        }
        schema = struct("shop.public.orders.Envelope", images + others)
        return {"key": self.key((after or before)["id"]), "value": {"schema": schema, "payload": payload}}


def struct(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a struct."""
    return {"type": "struct", "fields": fields, "optional": False, "name": name}


def written(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JsonConverter writes it: a decimal is the base64 of its unscaled number."""
    total = row["total"]
    if total is None:
        return row
    content = total.to_bytes(total.bit_length() // 8 + 1, "big", signed=True)
    return {**row, "total": b64encode(content).decode()}


def main() -> None:
    """Write the history, or the rows that the table has in the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5, help="rows of the snapshot")
    parser.add_argument("--changes", type=int, default=12, help="changes after the snapshot")
    parser.add_argument("--seed", type=int, default=3, help="another history for each number")
    parser.add_argument("--table", action="store_true", help="print the rows that the table has in the end")
    given = parser.parse_args()
    orders = Orders(given.seed)
    for record in orders.history(given.rows, given.changes):
        if not given.table:
            sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")
    for number in sorted(orders.rows) if given.table else ():
        row = orders.rows[number]
        sys.stdout.write(json.dumps({**row, "total": f"{row['total'] // 100}.{row['total'] % 100:02}"}) + "\n")


if __name__ == "__main__":
    main()
