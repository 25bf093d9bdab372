"""Messages of both formats as the benchmarks send them: half of the columns are numbers, half short texts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

CURSOR: Final = (
    '{"extractorId":0,"timestamp":1657516903000,"extractionTimestamp":1657516904088,"log":"log-bin.000010",'
    '"position":7461,"logSeqNum":1,"slaveServerId":1,"v":2}'
)
COUNTS: Final = '{"insertCount":30,"updateCount":0,"deleteCount":0,"replaceCount":0}'
SCHEMA_ID: Final = "6ec0b9d2-6b1f-4f3a-9d3c-5a6a2f4f7f10"

Row = Mapping[str, str]


def column_names(columns: int) -> list[str]:
    """Return the names of this many columns."""
    return [f"column_{number:02d}" for number in range(columns)]


def arcion_row(names: Sequence[str], key: int) -> Row:
    """Return values as Arcion writes them, all of them text."""
    numbers = len(names) // 2
    return {name: str(key) if at < numbers else f"text of row {key}" for at, name in enumerate(names)}


def arcion_insert(table: str, names: Sequence[str], key: int) -> dict[str, Any]:
    """Return an insert: about 1.47 kB for 16 columns."""
    return _arcion(table, "I", dict.fromkeys(names, "null"), arcion_row(names, key), dict.fromkeys(names, "1"))


def arcion_update(table: str, names: Sequence[str], key: int, *, given: int) -> dict[str, Any]:
    """Return an update of `given` columns: the first and the last `given - 1`. With all columns it is a full image."""
    changed = {names[0], *names[len(names) - given + 1 :]}
    before = {name: value if name in changed else "null" for name, value in arcion_row(names, key).items()}
    after = before | {name: f"new text of row {key}" for name in names[len(names) // 2 :] if name in changed}
    exists = {name: "3" if name in changed else "0" for name in names}
    return _arcion(table, "U", before, after, exists)


def arcion_delete(table: str, names: Sequence[str], key: int) -> dict[str, Any]:
    """Return a delete by key, without the other values of the row."""
    nothing = dict.fromkeys(names, "null")
    before = nothing | {names[0]: arcion_row(names, key)[names[0]]}
    return _arcion(table, "D", before, nothing, {name: "2" if name == names[0] else "0" for name in names})


def _arcion(table: str, operation: str, before: Row, after: Row, exists: Row) -> dict[str, Any]:
    schema, _, name = table.rpartition(".")
    return {
        "tableName": {"namespace": {"catalog": schema, "schema": "default_schema"}, "name": name},
        "opType": operation,
        "cursor": CURSOR,
        "before": before,
        "after": after,
        "exists": exists,
        "operationcount": COUNTS,
    }


def replicate_metadata(table: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the message that registers the table; the first column is the key."""
    schema, _, name = table.rpartition(".")
    columns = {
        column: {
            "ordinal": at + 1,
            "type": "INT8" if at < len(names) // 2 else "STRING",
            "length": 0 if at < len(names) // 2 else 100,
            "precision": 0,
            "scale": 0,
            "primaryKeyPosition": 1 if at == 0 else 0,
        }
        for at, column in enumerate(names)
    }
    lineage = {"server": "replicate", "task": "bench", "schema": schema, "table": name, "tableVersion": 1}
    message = {"schemaId": SCHEMA_ID, "lineage": lineage, "tableStructure": {"tableColumns": columns}}
    return {"magic": "atMSG", "type": "MD", "headers": None, "message": message}


def replicate_insert(names: Sequence[str], key: int) -> dict[str, Any]:
    """Return an insert of the registered table."""
    numbers = len(names) // 2
    headers = {
        "operation": "INSERT",
        "changeSequence": f"20260105093000000000{key:015d}",
        "timestamp": "2026-01-05T09:30:00.000",
        "streamPosition": "00000017.0a1b2c3d.00000001",
        "transactionId": "00000000000000000000000A0B0C0D0E",
        "changeMask": None,
        "columnMask": None,
        "transactionEventCounter": 1,
        "transactionLastEvent": True,
    }
    return {
        "magic": "atMSG",
        "type": "DT",
        "headers": None,
        "messageSchemaId": SCHEMA_ID,
        "messageSchema": None,
        "message": {
            "data": {name: key if at < numbers else f"text of row {key}" for at, name in enumerate(names)},
            "beforeData": None,
            "headers": headers,
        },
    }
