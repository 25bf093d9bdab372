"""Initial inputs from the samples; files are named by their digest, so that each exists once."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa

from app.domain.arrow import schema_to_flatbuffer
from mirrorgate.avro_envelope import read_envelopes
from tests.fuzz.arrow_mutants import made
from tests.fuzz.decoders import LAYOUTS, TYPES
from tests.support.samples.arrow_streams import hostile_streams
from tests.support.samples.replicate_avro import data_message, metadata_message

CORPUS: Final = Path(__file__).parent / "corpus"
_TESTS: Final = Path(__file__).parents[1]
_DEMO: Final = _TESTS.parent / "demo" / "samples"
_STREAMS: Final = 200
_TEXTS: Final = ("true\n0", "-32768\n+7.0", "1e3\n.5", "-inf\nNaN", "2024-02-29", "2024-02-29T23:59:59.123456+01:30")
_ROWS: Final = (
    '{"id": 1, "amount": 2.50, "name": "a", "doc": null}',
    '[{"id":1,"amount":"2.50","name":"a","doc":{"b":[1e5,-0]}},{"id":2,"__op__":"delete"}]',
    '{"id":1,"name":"\\u00e4"}\n{"__op__":"U","id":"2","amount":-7,"name":"","doc":[]}\n{"__op__":null,"id":3}\n',
    '{"tableName":{"name":"t"},"opType":"I","after":{"id":"1"},"exists":{"id":"1"}}',
    '{"message":{"data":{"id":1},"headers":{"operation":"INSERT"}}}',
)
_ROWS_CSV: Final = (
    'id,amount,name\n1,2.50,a\n2,,"b, ""c"""\n',
    'id, name ,__op__\r\n1,"NULL",I\r\n\r\n2,NULL,delete\r\n',
    'id,name\n1\n2,"{\\"a\\"}"\n',
)


def seeds() -> Iterator[tuple[str, bytes]]:
    """Decoder and bytes."""
    for path in sorted(_DEMO.glob("arcion/*.json")):
        yield "arcion_json", path.read_bytes()
    for path in sorted(_DEMO.glob("replicate/*")):
        yield "replicate", path.read_bytes()
    for path in sorted((_TESTS / "samples" / "arcion").glob("*.json")):
        sample = json.loads(path.read_bytes())
        if "csv" in sample:
            yield "arcion_csv", bytes([_layout(sample["csv"])]) + "\n".join(sample["lines"]).encode()
        else:
            yield "arcion_json", _compact(sample["messages"])
    for path in sorted((_TESTS / "samples" / "replicate").glob("*.json")):
        sample = json.loads(path.read_bytes())
        yield "replicate", b"\n".join(map(_compact, [*sample.get("earlier", []), *sample["messages"]]))
        yield "replicate", _compact(sample["messages"])
    described, changed = (
        metadata_message("HR.JOBS", "1"),
        data_message("HR.JOBS", "1", "INSERT", {"ID": 1, "TITLE": "a"}),
    )
    yield "replicate_avro", described + changed
    yield "replicate", b"\n".join([one.to_json() for one in read_envelopes(described + changed)])
    for path in sorted((_TESTS / "samples" / "debezium").glob("*.ndjson")):
        records = [json.loads(line) for line in path.read_bytes().splitlines()]
        yield "debezium", _compact(records[:2])
        for record in records:
            yield "debezium", b"\n".join(_compact(one and one["payload"]) for one in record.values())
    for text in _ROWS:
        yield "plain_rows", text.encode()
        for table in range(3):
            yield "row_memory", bytes([table]) + text.encode()
            yield "row_memory", bytes([table]) + b"[" + b",".join([b"{}"] * 500) + b"]"
    for text in _ROWS_CSV:
        yield "plain_rows_csv", b"\1" + text.encode()
        yield "plain_rows_csv", b"\0" + text.replace(",", "|").replace('"', "'").encode()
    for number, column_type in enumerate(TYPES):
        schema = pa.schema([pa.field("a", column_type.arrow, number % 2 == 0), pa.field("é", pa.string())])
        yield "arrow_schema", schema_to_flatbuffer(schema)
        yield "arrow_schema", schema.serialize().to_pybytes()
        for text in (*_TEXTS, '["a",1,1.50,true,null,{"b":[]}]', "00ff\n0g\nNULL"):
            yield "conversion", bytes([number]) + text.encode()
    for body in (*(made(Random(seed)) for seed in range(_STREAMS)), *hostile_streams().values()):
        yield "arrow_stream", body


def _layout(declared: dict[str, Any]) -> int:
    """Return the layout nearest to the sample's; a header replaces other columns."""
    return next(number for number, layout in enumerate(LAYOUTS) if layout.header and layout.mode == declared["mode"])


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def store(folder: Path, content: bytes) -> None:
    (folder / hashlib.sha1(content, usedforsecurity=False).hexdigest()).write_bytes(content)
