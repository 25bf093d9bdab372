"""Debezium's change events as its connector for PostgreSQL writes them, with the Connect schema in each of them.

The table has 16 columns: keys and counts, texts, and the semantic types of a decimal, a date and three timestamps.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

KEY: Final = "id"

_FIRST_MILLISECOND: Final = 1_767_605_400_000
_FIRST_DAY: Final = 20_458
_CENTS: Final = {"scale": "2", "connect.decimal.precision": "12"}
_COLUMNS: Final[Mapping[str, Mapping[str, Any]]] = {
    KEY: {"type": "int64", "optional": False, "default": 0},
    "customer_id": {"type": "int64", "optional": False},
    "store_id": {"type": "int32", "optional": False},
    "quantity": {"type": "int32", "optional": True},
    "version": {"type": "int32", "optional": False},
    "total": {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": _CENTS,
    },
    "is_paid": {"type": "boolean", "optional": True, "default": False},
    "ordered_on": {"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1},
    "created_at": {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp", "version": 1},
    "changed_at": {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp", "version": 1},
    "shipped_at": {"type": "string", "optional": True, "name": "io.debezium.time.ZonedTimestamp", "version": 1},
    "status": {"type": "string", "optional": False},
    "name": {"type": "string", "optional": True},
    "street": {"type": "string", "optional": True},
    "city": {"type": "string", "optional": True},
    "remark": {"type": "string", "optional": True},
}
_SOURCE_FIELDS: Final = (
    {"type": "string", "optional": False, "field": "version"},
    {"type": "string", "optional": False, "field": "connector"},
    {"type": "string", "optional": False, "field": "name"},
    {"type": "int64", "optional": False, "field": "ts_ms"},
    {
        "type": "string",
        "optional": True,
        "name": "io.debezium.data.Enum",
        "version": 1,
        "parameters": {"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
        "default": "false",
        "field": "snapshot",
    },
    {"type": "string", "optional": False, "field": "db"},
    {"type": "string", "optional": True, "field": "sequence"},
    {"type": "int64", "optional": True, "field": "ts_us"},
    {"type": "int64", "optional": True, "field": "ts_ns"},
    {"type": "string", "optional": False, "field": "schema"},
    {"type": "string", "optional": False, "field": "table"},
    {"type": "int64", "optional": True, "field": "txId"},
    {"type": "int64", "optional": True, "field": "lsn"},
    {"type": "int64", "optional": True, "field": "xmin"},
)
_BLOCK_FIELDS: Final = (
    {"type": "string", "optional": False, "field": "id"},
    {"type": "int64", "optional": False, "field": "total_order"},
    {"type": "int64", "optional": False, "field": "data_collection_order"},
)


def debezium_inserts(table: str, keys: Sequence[int]) -> list[dict[str, Any]]:
    """Return an insert for each key: about 5.5 kB, of which the schema takes more than 4."""
    schema, (database, _, name) = envelope_schema(table, _COLUMNS), table.partition(".")
    return [{"schema": schema, "payload": _payload(database, name, key)} for key in keys]


def envelope_schema(table: str, columns: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of the change events of a table with these columns, each as Connect describes its type."""
    topic = f"shop.{table}"
    fields = [{**of, "field": name} for name, of in columns.items()]
    row = {"type": "struct", "fields": fields, "optional": True, "name": f"{topic}.Value"}
    source = {"type": "struct", "fields": _SOURCE_FIELDS, "optional": False}
    block = {"type": "struct", "fields": _BLOCK_FIELDS, "optional": True, "name": "event.block", "version": 1}
    return {
        "type": "struct",
        "fields": [
            row | {"field": "before"},
            row | {"field": "after"},
            source | {"name": "io.debezium.connector.postgresql.Source", "version": 1, "field": "source"},
            block | {"field": "transaction"},
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
            {"type": "int64", "optional": True, "field": "ts_us"},
            {"type": "int64", "optional": True, "field": "ts_ns"},
        ],
        "optional": False,
        "name": f"{topic}.Envelope",
        "version": 2,
    }


def _payload(schema: str, table: str, key: int) -> dict[str, Any]:
    millisecond, position = _FIRST_MILLISECOND + key % 10_000_000, 24_023_128 + 152 * (key % 10_000_000)
    return {
        "before": None,
        "after": _row(key, millisecond),
        "source": {
            "version": "3.2.0.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": millisecond,
            "snapshot": "false",
            "db": "shop",
            "sequence": f'["{position - 152}","{position}"]',
            "ts_us": millisecond * 1_000 + key % 1_000,
            "ts_ns": (millisecond * 1_000 + key % 1_000) * 1_000,
            "schema": schema,
            "table": table,
            "txId": 700 + key % 10_000_000,
            "lsn": position,
            "xmin": None,
        },
        "transaction": None,
        "op": "c",
        "ts_ms": millisecond + 215,
        "ts_us": (millisecond + 215) * 1_000 + 17,
        "ts_ns": ((millisecond + 215) * 1_000 + 17) * 1_000,
    }


def _row(key: int, millisecond: int) -> dict[str, Any]:
    cents = key % 1_000_000
    second = key // 3600 % 24, key // 60 % 60, key % 60
    return {
        KEY: key,
        "customer_id": key,
        "store_id": key % 500,
        "quantity": key % 12,
        "version": 1,
        "total": b64encode(cents.to_bytes(cents.bit_length() // 8 + 1, "big")).decode(),
        "is_paid": key % 2 == 0,
        "ordered_on": _FIRST_DAY + key % 300,
        "created_at": millisecond * 1_000 + key % 1_000,
        "changed_at": millisecond * 1_000 + key % 999,
        "shipped_at": "2026-01-05T{:02}:{:02}:{:02}.{:06}Z".format(*second, key % 1_000_000),
        "status": "open",
        "name": f"text of row {key}",
        "street": f"text of row {key}",
        "city": f"text of row {key}",
        "remark": f"text of row {key}",
    }
