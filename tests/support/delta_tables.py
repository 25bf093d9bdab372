"""Delta tables as Fabric writes them: with deletion vectors and column mapping, which deltalake does not write.

The log is written by hand, after *Delta Transaction Log Protocol*.
"""

import json
import struct
import uuid
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema

Storage = Literal["inline", "file"]

_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC: Final = 1681511377
_NO_RUNS: Final = 12346


def write_fabric_table(
    folder: Path,
    rows: pa.Table,
    *,
    deleted: Collection[int] = (),
    storage: Storage = "file",
    mapped: bool = False,
    reader_features: Sequence[str] = (),
) -> None:
    """Write a Delta table of one file. Rows at the positions `deleted` are marked by a deletion vector.

    `mapped` gives the columns of the file other names than the table's. `reader_features` are further features that a
    reader has to know.
    """
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    fields, physical = _columns(rows.schema, mapped)
    data = folder / "part-00000.snappy.parquet"
    pq.write_table(pa.table(dict(zip(physical, rows.columns, strict=True))), data)
    add: dict[str, Any] = {
        "path": data.name,
        "partitionValues": {},
        "size": data.stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows.num_rows, "tightBounds": False}),
    }
    features = [*reader_features, *(["deletionVectors"] if deleted else []), *(["columnMapping"] if mapped else [])]
    if deleted:
        add["deletionVector"] = _vector(folder, sorted(deleted), storage)
    actions = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        },
        {"metaData": _metadata(fields, mapped, bool(deleted))},
        {"add": add},
    ]
    (log / f"{0:020}.json").write_text("\n".join(json.dumps(action) for action in actions))


def _columns(schema: pa.Schema, mapped: bool) -> tuple[list[dict[str, Any]], list[str]]:
    fields = json.loads(Schema.from_arrow(schema).to_json())["fields"]
    if not mapped:
        return fields, schema.names
    physical = [f"col-{uuid.uuid5(uuid.NAMESPACE_OID, name)}" for name in schema.names]
    for number, (field, name) in enumerate(zip(fields, physical, strict=True), 1):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}
    return fields, physical


def _metadata(fields: list[dict[str, Any]], mapped: bool, deleted: bool) -> dict[str, Any]:
    configuration = {"delta.enableDeletionVectors": "true"} if deleted else {}
    if mapped:
        configuration |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(len(fields))}
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, "table")),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": configuration,
        "createdTime": 0,
    }


def _vector(folder: Path, positions: list[int], storage: Storage) -> dict[str, Any]:
    data = _bitmap(positions)
    described = {"sizeInBytes": len(data), "cardinality": len(positions)}
    if storage == "inline":
        return {"storageType": "i", "pathOrInlineDv": _z85(data + bytes(-len(data) % 4)), **described}
    name = uuid.uuid5(uuid.NAMESPACE_OID, "vector")
    content = b"\x01" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (folder / f"deletion_vector_{name}.bin").write_bytes(content)
    return {"storageType": "u", "pathOrInlineDv": _z85(name.bytes), "offset": 1, **described}


def _bitmap(positions: list[int]) -> bytes:
    """Return positions below 2^32 as a 64-bit Roaring bitmap of array containers."""
    containers: dict[int, list[int]] = {}
    for position in positions:
        containers.setdefault(position >> 16, []).append(position & 0xFFFF)
    header = struct.pack("<II", _NO_RUNS, len(containers))
    header += b"".join(struct.pack("<HH", high, len(low) - 1) for high, low in containers.items())
    offset = len(header) + 4 * len(containers)
    for low in containers.values():
        header += struct.pack("<I", offset)
        offset += 2 * len(low)
    arrays = b"".join(struct.pack(f"<{len(low)}H", *low) for low in containers.values())
    return struct.pack("<IQI", _MAGIC, 1, 0) + header + arrays


def _z85(data: bytes) -> str:
    numbers = (int.from_bytes(data[start : start + 4], "big") for start in range(0, len(data), 4))
    return "".join(_Z85[number // 85**power % 85] for number in numbers for power in (4, 3, 2, 1, 0))
