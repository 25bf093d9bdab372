"""A stream of changes over three tables, with the landing rows that it must become."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

INSERT, UPDATE, DELETE = 0, 1, 2
FIRST_DAY: Final = date(2026, 1, 1)
FIRST_MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)

Row = tuple[Any, ...]
"""A landing row: the marker, then the column values in file order."""


@dataclass(frozen=True)
class Post:
    """One request: its format, table, number of changes and body, and the rows that it must become."""

    source_format: str
    table: str
    changes: int
    body: bytes
    rows: list[Row]


@dataclass
class StreamTable:
    """A table with its key in the first column, and a seeded source of random changes in one format."""

    name: str
    source_format: str
    columns: dict[str, str]
    make_row: Callable[[random.Random, int], list[Any]]
    message: Callable[["StreamTable", str, list[Any] | None, list[Any] | None], dict[str, Any]]
    source: random.Random = field(default_factory=lambda: random.Random(2026))
    live: list[list[Any]] = field(default_factory=list)
    next_key: int = 1

    def post(self, changes: int) -> Post:
        """Return the next request with this many changes."""
        messages, rows = [], []
        for _ in range(changes):
            message, landed = self._change()
            messages.append(message)
            rows.extend(landed)
        body = json.dumps(messages, separators=(",", ":")).encode()
        return Post(self.source_format, self.name, changes, body, rows)

    def _change(self) -> tuple[dict[str, Any], list[Row]]:
        kind = self.source.random()
        if kind < 0.7 or not self.live:
            row = self._new_row()
            self.live.append(row)
            return self.message(self, "I", None, row), [(INSERT, *row)]
        position = self.source.randrange(len(self.live))
        old = self.live[position]
        if kind < 0.9:
            new = [old[0], *self.make_row(self.source, self.next_key)[1:]]
            self.live[position] = new
            return self.message(self, "U", old, new), [(UPDATE, *new)]
        if kind < 0.92:
            new = [self._new_row()[0], *old[1:]]
            self.live[position] = new
            return self.message(self, "U", old, new), [self._deleted(old), (INSERT, *new)]
        self.live[position] = self.live[-1]
        self.live.pop()
        return self.message(self, "D", old, None), [self._deleted(old)]

    def _new_row(self) -> list[Any]:
        self.next_key += 1
        return self.make_row(self.source, self.next_key)

    @staticmethod
    def _deleted(row: list[Any]) -> Row:
        return (DELETE, row[0], *([None] * (len(row) - 1)))


def arcion_message(
    table: StreamTable, operation: str, before: list[Any] | None, after: list[Any] | None
) -> dict[str, Any]:
    """Return an Arcion message with full images: all values are text, and NULL is the text `null`."""
    schema, _, name = table.name.partition(".")
    flag = {"I": "1", "U": "3", "D": "2"}[operation]

    def image(row: list[Any] | None) -> dict[str, str]:
        values = row or [None] * len(table.columns)
        return {column: "null" if v is None else str(v) for column, v in zip(table.columns, values, strict=True)}

    return {
        "tableName": {"namespace": {"catalog": None, "schema": schema}, "name": name},
        "opType": operation,
        "cursor": '{"extractorId":0,"v":2}',
        "before": image(before),
        "after": image(after),
        "exists": dict.fromkeys(table.columns, flag),
        "operationcount": '{"insertCount":0,"updateCount":0,"deleteCount":0,"replaceCount":0}',
    }


def replicate_message(
    table: StreamTable, operation: str, before: list[Any] | None, after: list[Any] | None
) -> dict[str, Any]:
    """Return a Replicate data message. A delete has the deleted row in `data`."""

    def image(row: list[Any] | None) -> dict[str, Any] | None:
        if row is None:
            return None
        values = [v if v is None or isinstance(v, int | str) else str(v).removesuffix("+00:00") for v in row]
        return dict(zip(table.columns, values, strict=True))

    return {
        "magic": "atMSG",
        "type": "DT",
        "headers": None,
        "messageSchemaId": "demo-stock-1",
        "messageSchema": None,
        "message": {
            "data": image(after if after is not None else before),
            "beforeData": image(before) if after is not None else None,
            "headers": {"operation": {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}[operation], "changeSequence": ""},
        },
    }


def stock_metadata() -> bytes:
    """Return the metadata message that registers the Replicate table."""
    columns = {
        "SKU": {"ordinal": 1, "type": "STRING", "length": 20, "primaryKeyPosition": 1},
        "QUANTITY": {"ordinal": 2, "type": "INT4", "length": 0, "primaryKeyPosition": 0},
        "PRICE": {"ordinal": 3, "type": "NUMERIC", "precision": 10, "scale": 2, "primaryKeyPosition": 0},
        "CHANGED": {"ordinal": 4, "type": "DATETIME", "length": 6, "primaryKeyPosition": 0},
    }
    lineage = {"server": "demo", "task": "demo", "schema": "WAREHOUSE", "table": "STOCK", "tableVersion": 1}
    message = {"schemaId": "demo-stock-1", "lineage": lineage, "tableStructure": {"tableColumns": columns}}
    return json.dumps({"magic": "atMSG", "type": "MD", "headers": None, "message": message}).encode()


def _customer(source: random.Random, key: int) -> list[Any]:
    name = source.choice(["Ada", "Böse, Ltd.", 'Quote "Q"', "山田", None])
    return [key, name, _money(source), _moment(source)]


def _order(source: random.Random, key: int) -> list[Any]:
    return [key, source.randrange(1, 10**12), source.choice(["open", "paid", "sent"]), _money(source), _day(source)]


def _stock(source: random.Random, key: int) -> list[Any]:
    return [f"SKU-{key:08d}", source.randrange(-5, 10_000), _money(source), _moment(source)]


def _money(source: random.Random) -> Decimal:
    return Decimal(source.randrange(-(10**7), 10**9)).scaleb(-2)


def _moment(source: random.Random) -> datetime:
    return FIRST_MOMENT + timedelta(microseconds=source.randrange(10**13))


def _day(source: random.Random) -> date:
    return FIRST_DAY + timedelta(days=source.randrange(365))


def stream_tables() -> list[StreamTable]:
    """Return the three tables of the stream."""
    customer = {"customer_id": "int64", "name": "string", "balance": "decimal(12,2)", "updated_at": "timestamp"}
    order = {
        "order_id": "int64",
        "customer_id": "int64",
        "status": "string",
        "total": "decimal(12,2)",
        "placed_on": "date",
    }
    stock = {"SKU": "string", "QUANTITY": "int32", "PRICE": "decimal(10,2)", "CHANGED": "timestamp"}
    return [
        StreamTable("shop.customers", "arcion", customer, _customer, arcion_message),
        StreamTable("shop.orders", "arcion", order, _order, arcion_message),
        StreamTable("WAREHOUSE.STOCK", "replicate", stock, _stock, replicate_message),
    ]


def stream(tables: list[StreamTable], changes: int, per_post: int) -> Iterator[Post]:
    """Yield requests of `per_post` changes for one table after the other, until there are `changes` in total."""
    sent = 0
    while sent < changes:
        table = tables[(sent // per_post) % len(tables)]
        size = min(per_post, changes - sent)
        yield table.post(size)
        sent += size
