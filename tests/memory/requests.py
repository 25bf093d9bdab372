"""Shapes of requests that become much more than they are, in every format."""

import json
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from app.formats.rows.messages import RowsLayout
from app.ingest import (
    ArcionJson,
    ArrowLoad,
    CsvDialect,
    DebeziumJson,
    ReplicateJson,
    RowOperation,
    RowsCsv,
    RowsJson,
    RowsOfStream,
)
from tests.memory.multiple import Request, named
from tests.support.samples.arrow_streams import stream
from tests.support.samples.messages import arcion

FORMATS: Final = ("rows", "empty rows", "csv", "arcion", "debezium", "replicate", "arrow", "arrow upserts")
TYPES: Final = ("int16", "boolean", "string", "decimal(38,2)", "timestamp", "json")
CONSTANT: Final = {"type": "string", "value": "x" * 4_096}
OPTIONS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"constants": {f"k{at}": CONSTANT for at in range(16)}},
    {"audit_columns": {"operation": "_o", "accepted_at": "_a", "row_order": "_r", "source_position": "_p"}},
    {"row_images": "on"},
    {"partial_updates": "complete"},
    {"masks": {"c0": {"method": "hash"}}},
    {"masks": {"c0": {"method": "truncate", "characters": 3}}},
    {"exclude": ["c1"]},
    {"history": "append_only"},
    {"dead_letters": "accept"},
    {"new_columns": "add_as_string"},
)


@dataclass(frozen=True)
class Shape:
    """A table and a request for it."""

    format: str
    columns: int
    type: str
    rows: int
    given: int
    """How many of the columns each row gives."""
    text: int
    """Characters of a given text."""
    options: dict[str, Any]
    dry_run: bool

    @property
    def table_columns(self) -> dict[str, str]:
        """The columns of the table; the first one is hashed, so it is a text."""
        others = {f"c{at}": self.type for at in range(1, self.columns)}
        return {"id": "int64", "c0": "string", **others}

    def row(self, number: int) -> dict[str, Any]:
        """Return what one row gives."""
        return {"id": number, **{f"c{at}": "x" * self.text if at == 0 else None for at in range(self.given)}}

    def request(self) -> tuple[Request, int]:
        """Return what makes the request, and the bytes of its body."""
        body = self._body()
        return lambda limits: self._reader(body, limits), len(body)

    def _body(self) -> bytes:
        rows = [self.row(number) for number in range(self.rows)]
        match self.format:
            case "rows":
                return json.dumps(rows).encode()
            case "empty rows":
                return b"[" + b",".join([b"{}"] * self.rows) + b"]"
            case "csv":
                lines = (",".join("" if value is None else str(value) for value in row.values()) for row in rows)
                return "\n".join([",".join(rows[0]), *lines]).encode()
            case "arcion":
                images = [{name: value and str(value) for name, value in row.items()} for row in rows]
                return json.dumps([arcion("I", after=image) for image in images]).encode()
            case "debezium":
                source = {"schema": "", "table": "t"}
                return json.dumps(
                    [{"op": "c", "before": None, "after": row, "source": source} for row in rows]
                ).encode()
            case "replicate":
                headers = {"operation": "INSERT", "changeSequence": "20260101"}
                return json.dumps([{"message": {"data": row, "headers": headers}} for row in rows]).encode()
        names = [name for name in rows[0] if name != "id"]
        texts = {name: pa.array([row[name] for row in rows], pa.string()) for name in names}
        return stream(pa.table({"id": pa.array(range(self.rows), pa.int64()), **texts}))

    def _reader(self, body: bytes, limits: Any) -> Any:
        match self.format:
            case "rows" | "empty rows":
                return RowsJson(body, named("t"), RowOperation.INSERT, limits=limits)
            case "csv":
                layout = RowsLayout(RowOperation.INSERT, CsvDialect())
                return RowsCsv(body, named("t"), layout, limits=limits)
            case "arcion":
                return ArcionJson(body, named("t"), override=True, limits=limits)
            case "debezium":
                return DebeziumJson(body, named("t"), limits=limits)
            case "replicate":
                return ReplicateJson(body, named("t"), limits=limits)
            case "arrow":
                return ArrowLoad(named("t"), body, limits)
        return ArrowLoad(named("t"), body, limits, RowsOfStream(RowOperation.UPSERT))


SHAPES: Final = st.builds(
    Shape,
    format=st.sampled_from(FORMATS),
    columns=st.sampled_from([2, 20, 300]),
    type=st.sampled_from(TYPES),
    rows=st.sampled_from([1, 30, 400, 3_000]),
    given=st.integers(1, 2),
    text=st.sampled_from([0, 1, 200]),
    options=st.sampled_from(OPTIONS),
    dry_run=st.booleans(),
)
