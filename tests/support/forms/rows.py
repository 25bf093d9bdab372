"""Plain rows with `__op__`: a JSON array, NDJSON with what an update changes only, CSV, and Arrow columns.

Rows have no image before a change, so a changed key is a delete and an insert.
"""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from app.domain.model.change import Change
from app.domain.rows.from_arrow import changed_rows
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.row_rules import RowRules
from app.formats.arrow import decode_arrow_stream
from app.formats.rows.columnar import split_operations
from app.formats.rows.messages import OPERATION_COLUMN, RowsLayout, decode_csv_rows, decode_rows
from app.ingest.columnar import Asked, ColumnarBody
from app.ingest.readers import RowsJson
from mirrorgate.parameters import RowOperation
from tests.support.forms.arcion import quoted, trimmed_columns
from tests.support.forms.form import ANYONE, NAME, Events, Form, key_columns, schema, split_key_changes
from tests.support.forms.source_histories import Event, SourceTable, as_json
from tests.support.samples.arrow_streams import stream

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def _operation(event: Event) -> str:
    return "update" if event.old and event.new else "insert" if event.new else "delete"


def _row(table: SourceTable, event: Event) -> dict[str, Any]:
    """Return the new row of an event, the key of a deleted one."""
    if event.new is None:
        return dict(zip(key_columns(table), event.old or (), strict=False))
    return dict(zip(table.types, event.new, strict=True))


def _write_array(table: SourceTable, events: Events) -> bytes:
    rows = [
        {OPERATION_COLUMN: _operation(event)} | {name: as_json(value) for name, value in _row(table, event).items()}
        for event in split_key_changes(table, events)
    ]
    return json.dumps(rows, indent=1).encode()


def _write_ndjson(table: SourceTable, events: Events) -> bytes:
    """Write JSON and decimals as such, and of an update the key and what it changes."""
    lines = []
    for event in split_key_changes(table, events):
        row = _row(table, event)
        if event.old and event.new:
            same = zip(table.types, event.old, event.new, strict=True)
            unchanged = {name for name, old, new in same if old == new} - {*key_columns(table)}
            row = {name: value for name, value in row.items() if name not in unchanged}
        written = {name: _as_value(value, table.types[name]) for name, value in row.items()}
        lines.append(_ENCODER.encode(written | {OPERATION_COLUMN: _operation(event)[:1].upper()}))
    return b"\n".join(lines)


def _as_value(value: Any, kind: str) -> Any:
    if kind == "json" and value is not None and value[:1] in "[{":
        return msgspec.Raw(value.encode())
    return value if isinstance(value, Decimal) else as_json(value)


def _read_json(table: SourceTable, body: bytes) -> Sequence[Change]:
    return decode_rows(body, RowOperation.UPSERT, table.types.keys()).changes


def _request(body: bytes) -> Asked[ColumnarBody]:
    return Asked(RowsJson(body, NAME, RowOperation.UPSERT), ANYONE)


def _write_csv(table: SourceTable, events: Events) -> bytes:
    lines = [",".join(map(quoted, [*table.types, OPERATION_COLUMN]))]
    for event in split_key_changes(table, events):
        row = _row(table, event)
        lines.append(",".join([*(quoted(row.get(name)) for name in table.types), _operation(event)]))
    return "\r\n".join(lines).encode()


def _read_csv(table: SourceTable, body: bytes) -> Sequence[Change]:
    return decode_csv_rows(body, RowsLayout(), trimmed_columns(table)).changes


def _write_arrow(table: SourceTable, events: Events) -> bytes:
    """Write typed columns beside one of operations; a delete has NULL for all but the key."""
    schema_of_rows = schema(table).arrow
    split = split_key_changes(table, events)
    columns = {name: [_row(table, event).get(name) for event in split] for name in table.types}
    typed = {name: pa.array(values, schema_of_rows.field(name).type) for name, values in columns.items()}
    return stream(pa.table(typed | {OPERATION_COLUMN: pa.array(map(_operation, split), pa.string())}))


def _no_changes(_: SourceTable, __: bytes) -> Sequence[Change]:
    raise AssertionError("Arrow columns become rows without changes in between")


def _land_arrow(body: bytes, rules: RowRules) -> LandingRows:
    return changed_rows(*split_operations(decode_arrow_stream(body), RowOperation.UPSERT), rules)


ARRAY: Final = Form(_write_array, _read_json, _request, splits_key_changes=True)
NDJSON: Final = Form(_write_ndjson, _read_json, _request, is_partial=True, splits_key_changes=True)
CSV: Final = Form(_write_csv, _read_csv, splits_key_changes=True)
ARROW: Final = Form(_write_arrow, _no_changes, splits_key_changes=True, land=_land_arrow)
