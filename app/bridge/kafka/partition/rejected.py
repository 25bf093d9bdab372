"""The folder of rejected records: one JSON file for each, named by topic, partition and offset.

A file is written and synchronized before the position moves past its record. A record that is read again after a crash
has the same name, so nothing is kept twice and nothing is lost.
"""

import os
from base64 import b64encode
from pathlib import Path

import msgspec

from app.bridge.kafka.partition.elements import Fault, Record


def keep_record(folder: Path, topic: str, partition: int, record: Record, fault: Fault) -> Path:
    """Write the record with what is wrong with it; return the file. Raises OSError if that fails."""
    path = folder / topic / str(partition) / f"{fault.offset}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "topic": topic,
        "partition": partition,
        "offset": fault.offset,
        "timestamp_ms": record.timestamp()[1],
        "problem": {"code": fault.code, "detail": fault.detail, "pointer": fault.pointer, "remedy": fault.remedy},
        "headers": [[name, _text(value)] for name, value in record.headers() or ()],
        "key": _text(record.key()),
        "value": _text(record.value()),
    }
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return path


def _text(value: bytes | None) -> dict[str, str] | None:
    """Return bytes as `{"text": …}`, or `{"base64": …}` for what is not UTF-8."""
    if value is None:
        return None
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}
