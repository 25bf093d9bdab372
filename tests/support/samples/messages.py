"""Messages of both tools in one line each, and bodies of several messages."""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

Message = dict[str, Any]

HEADERS: Final[Message] = {
    "operation": "UPDATE",
    "changeSequence": "20260105093000000000000000000000001",
    "timestamp": "2026-01-05T09:30:00.000",
    "streamPosition": "1",
    "transactionId": "1",
    "changeMask": "02",
    "columnMask": "03",
    "externalSchemaId": "77",
    "transactionEventCounter": 1,
    "transactionLastEvent": False,
}
"""All headers of a DT message."""


def arcion(
    table: str, before: Mapping[str, Any] | None = None, after: Mapping[str, Any] | None = None, **members: Any
) -> Message:
    """Return what Replicant writes for full images; an update if both are given. `catalog` is the namespace's."""
    schema, _, name = table.rpartition(".")
    names = [*(after or {}), *(name for name in before or {} if name not in (after or {}))]
    exists = {column: str((column in (after or {})) + 2 * (column in (before or {}))) for column in names}
    operation = "U" if before and after else "I" if after else "D"
    return {
        "tableName": {"namespace": {"catalog": members.pop("catalog", None), "schema": schema or None}, "name": name},
        "opType": operation,
        "before": before,
        "after": after,
        "exists": exists,
        **members,
    }


def metadata(table: str, columns: Mapping[str, Any], keys: tuple[str, ...] = ("id",), **facts: Any) -> Message:
    """Return an MD message; `facts` are `version`, `schema_id` and `task`. A column is a type name or its keys."""
    schema, _, name = table.rpartition(".")
    described = {
        column: {
            "ordinal": ordinal,
            "primaryKeyPosition": keys.index(column) + 1 if column in keys else 0,
            **({"type": of} if isinstance(of, str) else of),
        }
        for ordinal, (column, of) in enumerate(columns.items(), 1)
    }
    lineage = {"schema": schema, "table": name, "server": "srv", "task": facts.get("task", "task")}
    version = facts.get("version", 1)
    return {
        "magic": "atMSG",
        "type": "MD",
        "message": {
            "schemaId": facts.get("schema_id", f"{table}-{version}"),
            "lineage": lineage | {"tableVersion": version},
            "tableStructure": {"tableColumns": described},
        },
    }


def data(
    operation: str, row: Mapping[str, Any] | None, before: Mapping[str, Any] | None = None, **facts: Any
) -> Message:
    """Return a DT message with a `sequence`, `schema_id`, `table` or any header by its name."""
    sequence = facts.pop("sequence", None)
    schema_id, table = facts.pop("schema_id", None), facts.pop("table", None)
    headers = {"operation": operation, "changeSequence": "" if sequence is None else f"{sequence:035d}", **facts}
    body: Message = {"headers": headers, "data": row, "beforeData": before}
    if table is not None:
        schema, _, name = table.rpartition(".")
        body |= {"schema": schema, "table": name}
    return {"magic": "atMSG", "type": "DT", "messageSchemaId": schema_id, "message": body}


def body_of(
    messages: Sequence[Mapping[str, Any]], *, lines: bool = False, escaped: bool = True, compact: bool = True
) -> bytes:
    """Return the messages as an array or as lines; decimals directly in a message are written as numbers."""
    separators = (",", ":") if compact else (", ", ": ")
    texts = [json.dumps(_marked(message), ensure_ascii=escaped, separators=separators) for message in messages]
    written = "\n".join(texts) if lines else f"[{','.join(texts)}]"
    return written.replace('"<', "").replace('>"', "").encode()


def _marked(message: Mapping[str, Any]) -> Message:
    """Mark decimals, so that their quotes can be removed: `json` writes no number with the digits of a decimal."""
    return {name: f"<{value}>" if isinstance(value, Decimal) else value for name, value in message.items()}
