"""Replicate: its envelope, bare messages with flattened headers, partial updates by masks, and a custom layout."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from app.domain.model.change import Change
from app.formats.replicate.history import VersionResolver
from app.formats.replicate.layouts import STANDARD, MessageForm, read_layout
from app.formats.replicate.messages import decode_replicate
from app.formats.replicate.standard_form import with_key
from app.ingest.columnar import Asked, ColumnarBody
from app.ingest.readers import ReplicateJson
from tests.support.forms.form import ANYONE, NAME, Events, Form, key_columns
from tests.support.forms.source_histories import TYPES, Event, Row, SourceTable, as_json
from tests.support.samples.messages import Message, data, metadata

SCHEMA_ID: Final = f"{NAME}-1"
_LAYOUT: Final = read_layout(
    {
        "data": "row",
        "before_data": "/old",
        "operation": "meta_op",
        "change_sequence": "meta_scn",
        "operations": {"I": "insert", "U": "update", "D": "delete"},
    }
)


def described(table: SourceTable) -> Message:
    """Return the message that describes the table."""
    columns = {name: TYPES[of] for name, of in table.types.items()}
    return metadata(str(NAME), columns, tuple(key_columns(table)))


def image(table: SourceTable, row: Row | None) -> dict[str, Any] | None:
    """Return a row as JSON values by column."""
    return None if row is None else dict(zip(table.types, map(as_json, row), strict=True))


def _enveloped(table: SourceTable, event: Event) -> Message:
    old, new = image(table, event.old), image(table, event.new)
    facts = {"sequence": 7, "timestamp": "2026-01-05T08:00:00.25"} if new else {}
    return data(_operation(event), new or old, old if new else None, schema_id=SCHEMA_ID, **facts)


def _flattened(table: SourceTable, event: Event) -> Message:
    """Write the message without an envelope, its headers beside its images, and the name of its table."""
    old, new = image(table, event.old), image(table, event.new)
    written = {"headers_operation": _operation(event), "headers_changeSequence": f"{1:035d}"}
    return written | {
        "data": new or old,
        "beforeData": old if new else None,
        "schema": NAME.schema,
        "table": NAME.table,
    }


def _masked(table: SourceTable, event: Event) -> Message:
    """Write an update without an image before it, unless its key changes, and without what it does not change."""
    message = _enveloped(table, event)
    if event.old is None or event.new is None:
        return message
    is_moved = table.key(event.old) != table.key(event.new)
    pairs = [*zip(event.old, event.new, strict=True)]
    changed = sum(1 << at for at, (old, new) in enumerate(pairs) if old != new)
    captured = changed | (1 << table.keys) - 1
    inner = message["message"]
    names = [*table.types]
    inner["data"] = {name: inner["data"][name] for at, name in enumerate(names) if captured >> at & 1}
    inner["beforeData"] = inner["beforeData"] if is_moved else None
    inner["headers"] |= {"columnMask": f"{captured:02X}", "changeMask": f"{changed:02x}"}
    return message


def _custom(table: SourceTable, event: Event) -> Message:
    """Write renamed sections and flattened headers in a record, whose key is all that is told of a deleted row."""
    old, new = image(table, event.old), image(table, event.new)
    shown = new or old or {}
    message = {"row": new, "old": old if new else None, "meta_op": _operation(event)[0], "meta_scn": f"{1:035d}"}
    return {"key": {name: shown[name] for name in key_columns(table)}, "value": message}


def _operation(event: Event) -> str:
    return "UPDATE" if event.old and event.new else "INSERT" if event.new else "DELETE"


def _writer(message: Callable[[SourceTable, Event], Message]) -> Callable[[SourceTable, Events], bytes]:
    def write(table: SourceTable, events: Events) -> bytes:
        return json.dumps([message(table, event) for event in events]).encode()

    return write


def _read(table: SourceTable, body: bytes, form: MessageForm = STANDARD) -> Sequence[Change]:
    """Decode data messages of a table that was described before."""
    description = decode_replicate(json.dumps([described(table)]).encode())
    resolver = VersionResolver(None, description.metadata)
    changes = []
    for message in decode_replicate(body, form=form).changes:
        change, _ = resolver.resolve(message)
        needs_key = change.before is None and change.after is None
        changes.append(with_key(change, message.key, message.key_at, key_columns(table)) if needs_key else change)
    return changes


def _read_custom(table: SourceTable, body: bytes) -> Sequence[Change]:
    return _read(table, body, MessageForm(layout=_LAYOUT))


def _request(body: bytes) -> Asked[ColumnarBody]:
    return Asked(ReplicateJson(body), ANYONE)


ENVELOPED: Final = Form(_writer(_enveloped), _read, _request)
FLATTENED: Final = Form(_writer(_flattened), _read, _request)
MASKED: Final = Form(_writer(_masked), _read, _request, is_partial=True)
CUSTOM: Final = Form(_writer(_custom), _read_custom)
