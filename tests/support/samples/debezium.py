"""Debezium's change events in one line each, with and without their Connect schema."""

from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]
Field = str | dict[str, Any]
"""A Connect type, or the members of a field beside its name."""


def source(table: str, **members: Any) -> Message:
    """Return the block `source` of the connector for Postgres."""
    schema, _, name = table.rpartition(".")
    return {
        "version": "3.0.8.Final",
        "connector": "postgresql",
        "name": "srv",
        "ts_ms": 1767323045000,
        "snapshot": "false",
        "db": "shop",
        "schema": schema or None,
        "table": name,
        "txId": 571,
        "lsn": 24023128,
        **members,
    }


def event(op: str, table: str, before: Any = None, after: Any = None, **members: Any) -> Message:
    """Return an envelope; `members` are those of its source."""
    return {"before": before, "after": after, "source": source(table, **members), "op": op, "ts_ms": 1767323045120}


def fields(columns: Mapping[str, Field]) -> list[Message]:
    """Return the fields of a row; a column is optional unless it says otherwise."""
    return [
        {"optional": True, **({"type": of} if isinstance(of, str) else of), "field": name}
        for name, of in columns.items()
    ]


def with_schema(payload: Message | None, columns: Mapping[str, Field]) -> Message:
    """Return an envelope with the schema that JsonConverter writes beside it."""
    row = {"type": "struct", "fields": fields(columns), "optional": True, "name": "srv.Value"}
    images = [{**row, "field": "before"}, {**row, "field": "after"}]
    others = [
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ]
    schema = {"type": "struct", "fields": images + others, "optional": False, "name": "srv.Envelope", "version": 2}
    return {"schema": schema, "payload": payload}


def flat_with_schema(row: Message, columns: Mapping[str, Field]) -> Message:
    """Return a flattened row with its schema."""
    return {"schema": {"type": "struct", "fields": fields(columns), "name": "srv.Value"}, "payload": row}


def keyed(key: Any, value: Any) -> Message:
    """Return a Kafka record."""
    return {"key": key, "value": value}


def key_with_schema(key: Message, columns: Mapping[str, Field]) -> Message:
    """Return a record's key with its schema."""
    required = [{**one, "optional": False} for one in fields(columns)]
    return {"schema": {"type": "struct", "fields": required, "name": "srv.Key"}, "payload": key}
