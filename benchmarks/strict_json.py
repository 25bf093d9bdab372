"""The cost of strict JSON compared with only decoding the same types, `python -m benchmarks.strict_json`.

Both decode each body in turn. Times are processor time, medians over the runs.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from types import GenericAlias
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.table import Table as Grid

from app.formats.arcion.messages import ArcionMessage
from app.formats.json.decoder import MessageDecoder
from app.formats.replicate.standard_form import ReplicateMessage

COLUMNS: Final = [f"column_{number:02d}" for number in range(16)]
CURSOR: Final = (
    '{"extractorId":0,"timestamp":1657516903000,"extractionTimestamp":1657516904088,"log":"log-bin.000010",'
    '"position":7461,"logSeqNum":1,"slaveServerId":1,"v":2}'
)
COUNTS: Final = '{"insertCount":30,"updateCount":0,"deleteCount":0,"replaceCount":0}'
ALPHABETS: Final = {"ASCII": "text of row", "Latin": "texte de clé", "Cyrillic": "текст строки", "JSON": '{"row":1}'}
console = Console(highlight=False)


def row(key: int, text: str) -> dict[str, Any]:
    """Return a row of 8 numbers and 8 texts."""
    return {name: str(key) if at < 8 else f"{text} {key}" for at, name in enumerate(COLUMNS)}


def arcion_message(key: int, text: str) -> dict[str, Any]:
    """Return an insert of 1.5 kB."""
    return {
        "tableName": {
            "namespace": {"catalog": "bench", "schema": "default_schema", "hash": 1},
            "name": "t",
            "hash": 2,
        },
        "opType": "I",
        "cursor": CURSOR,
        "before": dict.fromkeys(COLUMNS, "null"),
        "after": row(key, text),
        "exists": dict.fromkeys(COLUMNS, "1"),
        "operationcount": COUNTS,
    }


def replicate_message(key: int, text: str) -> dict[str, Any]:
    """Return an update with its before image; message 0 is the metadata."""
    inner = metadata() if key == 0 else change(key, text)
    return {
        "magic": "atMSG",
        "type": "DT" if key else "MD",
        "headers": None,
        "messageSchemaId": "6ec0b9d2-6b1f-4f3a-9d3c-5a6a2f4f7f10" if key else None,
        "messageSchema": None,
        "message": inner,
    }


def change(key: int, text: str) -> dict[str, Any]:
    """Return the inner message of an update."""
    return {
        "data": row(key, text) | {"column_00": key},
        "beforeData": row(key, text) | {"column_00": key},
        "headers": {
            "operation": "UPDATE",
            "changeSequence": f"20260105093000000000{key:015d}",
            "timestamp": "2026-01-05T09:30:00.000",
            "streamPosition": "00000017.0a1b2c3d.00000001",
            "transactionId": "00000000000000000000000A0B0C0D0E",
            "changeMask": "0004",
            "columnMask": "FFFF",
            "transactionEventCounter": key,
            "transactionLastEvent": False,
        },
    }


def metadata() -> dict[str, Any]:
    """Return the inner message of the metadata."""
    facts = {"type": "STRING", "length": 100, "precision": 0, "scale": 0, "primaryKeyPosition": 0}
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in COLUMNS]
    return {
        "schemaId": "6ec0b9d2-6b1f-4f3a-9d3c-5a6a2f4f7f10",
        "lineage": {
            "server": "replicate",
            "task": "t",
            "schema": "bench",
            "table": "t",
            "tableVersion": 1,
            "timestamp": "2026-01-05T08:00:00.000000",
        },
        "tableStructure": {"tableColumns": {name: {"ordinal": at} | facts for at, name in enumerate(COLUMNS, 1)}},
        "dataSchema": json.dumps({"type": "record", "name": "DataRecord", "fields": fields}, separators=(",", ":")),
    }


def compact(messages: list[Any]) -> bytes:
    """Return an array without blanks."""
    return json.dumps(messages, separators=(",", ":"), ensure_ascii=False).encode()


def lines(messages: list[Any]) -> bytes:
    """Return one message per line."""
    return b"\n".join(compact([message])[1:-1] for message in messages)


def spaced(messages: list[Any]) -> bytes:
    """Return an array with a blank after each comma and colon."""
    return json.dumps(messages, ensure_ascii=False).encode()


def indented(messages: list[Any]) -> bytes:
    """Return an array indented by two blanks."""
    return json.dumps(messages, ensure_ascii=False, indent=2).encode()


def escaped(messages: list[Any]) -> bytes:
    """Return an array with escapes for all but ASCII."""
    return json.dumps(messages).encode()


BODIES: Final[dict[str, tuple[Callable[[list[Any]], bytes], str]]] = {
    "array": (compact, "ASCII"),
    "NDJSON": (lines, "ASCII"),
    "with blanks": (spaced, "ASCII"),
    "indented": (indented, "ASCII"),
    "array, Latin text": (compact, "Latin"),
    "array, Cyrillic text": (compact, "Cyrillic"),
    "Latin text, escaped": (escaped, "Latin"),
    "Cyrillic text, escaped": (escaped, "Cyrillic"),
    "array, JSON text": (compact, "JSON"),
}


def milliseconds(call: Callable[[bytes], object], body: bytes) -> float:
    """Return the processor time of one call."""
    started = time.thread_time()
    call(body)
    return (time.thread_time() - started) * 1e3


def measure(body: bytes, plain: Callable[[bytes], Any], strict: MessageDecoder[Any], runs: int) -> list[str]:
    """Return a row of the table: size, both medians, their ratio."""
    both = [(milliseconds(plain, body), milliseconds(strict.decode, body)) for _ in range(runs)]
    alone, checked = (statistics.median(times) for times in zip(*both, strict=True))
    return [f"{len(body):,}", f"{alone:.3f}", f"{checked:.3f}", f"{checked / alone:.2f}"]


def main() -> int:
    """Measure all kinds of bodies of both formats; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strict_json", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000, help="messages per body (default: 1,000)")
    parser.add_argument("--runs", type=int, default=31, help="decodings per body (default: 31)")
    arguments = parser.parse_args()
    console.print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    formats: list[tuple[str, Callable[[int, str], Any], Any]] = [
        ("Arcion", arcion_message, ArcionMessage),
        ("Replicate", replicate_message, ReplicateMessage | None),
    ]
    for format_name, make, kind in formats:
        strict = MessageDecoder(kind)
        many: Any = msgspec.json.Decoder(GenericAlias(list, (kind,)))
        one: Any = msgspec.json.Decoder(kind)
        grid = Grid(title=f"{format_name}: {arguments.messages:,} messages, milliseconds")
        for column in ("body", "bytes", "decoder", "strict", "ratio"):
            grid.add_column(column, justify="left" if column == "body" else "right")
        for title, (write, alphabet) in BODIES.items():
            body = write([make(key, ALPHABETS[alphabet]) for key in range(arguments.messages)])
            plain = many.decode if body.startswith(b"[") else one.decode_lines
            grid.add_row(title, *measure(body, plain, strict, arguments.runs))
        console.print(grid)
    return 0


if __name__ == "__main__":
    sys.exit(main())
