"""The forms of a Debezium event: an envelope with images, a flattened row, or an event that changes no row.

A form is recognized by its keys alone, so that events without a schema are read too. Sources: "Data change events" in
Debezium's descriptions of its connectors; its descriptions of `ExtractNewRecordState`, transaction metadata,
heartbeats and schema changes.
"""

import re
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from mirrorgate.errors import Code


class EventForm(Enum):
    """The form of an event."""

    ENVELOPE = "envelope"
    FLATTENED = "flattened"
    IGNORED = "ignored"
    """A heartbeat, a schema change, a transaction boundary, a notification or a message written into the log."""


class WrongEvent(Exception):
    """An event that is not a change of a row, or not one that can be read.

    `pointer` is relative to the event, of `bad_schema` to the object that has the schema beside the event.
    """

    def __init__(self, code: Code, detail: str, pointer: str = "") -> None:
        super().__init__(detail)
        self.code, self.detail, self.pointer = code, detail, pointer


_SCHEMA_AND_PAYLOAD: Final = frozenset({"schema", "payload"})
_NOTIFICATION: Final = frozenset({"id", "type", "aggregate_type", "additional_data", "timestamp"})
_TRANSACTION: Final = frozenset({"status", "id", "event_count", "data_collections", "ts_ms"})
IGNORED_SCHEMAS: Final = (
    "io.debezium.connector.common.Heartbeat",
    "io.debezium.connector.common.TransactionMetadataValue",
    "io.debezium.connector.common.Notification",
    "SchemaChangeValue",
)
MONGODB: Final = "mongodb"
"""The connector whose events have documents."""

_IMAGES: Final = frozenset({"before", "after"})
_MONGODB: Final = frozenset({"updateDescription", "patch", "filter"})
_MONGODB_DETAIL: Final = (
    "an event of MongoDB has a document, not columns; unwrap it with the transformation "
    "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState before it is sent"
)
NO_VALUE: Final = "default"
"""Text that older versions of Arcion write for null: as a tombstone's value, and as the key of a row without one."""

_CLOUD_DETAIL: Final = (
    "the message is a CloudEvent; let the connector write JSON instead, with "
    "value.converter=org.apache.kafka.connect.json.JsonConverter or debezium.format.value=json"
)
_DECODER: Final = msgspec.json.Decoder()

METADATA: Final = re.compile(
    r"__(?:op|deleted|table|schema|db|name|connector|version|ts_(?:ms|us|ns)|(?:source|transaction|payload|dbz_)_.*|"
    r"snapshot|sequence|lsn|xmin|txId|file|pos|row|gtid|server_id|thread|query|scn|commit_scn|start_scn|rs_id|ssn|"
    r"redo_thread|user_name|row_id|change_lsn|commit_lsn|event_serial_no|keyspace|shard|vgtid|transaction)"
)
"""Fields that `ExtractNewRecordState` adds to a flattened row; not columns, unless the table has them."""


def unwrap(written: Any) -> tuple[Any, Mapping[str, Any] | None, str]:
    """Return the payload of `{"schema": …, "payload": …}`, its schema and its JSON Pointer; else what is given.

    An empty schema is none.
    """
    if not isinstance(written, dict):
        return written, None, ""
    if written.keys() == _SCHEMA_AND_PAYLOAD and (written["schema"] is None or isinstance(written["schema"], dict)):
        return written["payload"], written["schema"] or None, "/payload"
    if written.keys() == {"payload"} and (written["payload"] is None or isinstance(written["payload"], dict)):
        return written["payload"], None, "/payload"
    return written, None, ""


def read_key(written: Any) -> Any:
    """Return a record's key; one that is JSON in a string is decoded."""
    if isinstance(written, str) and written.startswith("{"):
        try:
            return _DECODER.decode(written)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return written
    return written


def with_null(element: Any, keyed: bool | None) -> Any:
    """Return an element with null in the place of NO_VALUE.

    A flattened row of a table with the columns `key` and `value` keeps its text: a key with columns is an object.
    """
    if element == NO_VALUE:
        return None
    if not isinstance(element, dict) or element.keys() != {"key", "value"} or element["value"] != NO_VALUE:
        return element
    has_columns = isinstance(read_key(element["key"]), dict)
    return {**element, "value": None} if keyed or (keyed is None and has_columns) else element


def form_of(event: Mapping[str, Any], schema: Mapping[str, Any] | None) -> EventForm:
    """Return the form of an event. Raises WrongEvent `malformed_message` for events of another kind of source."""
    name = schema.get("name") if schema is not None else None
    if isinstance(name, str) and name.endswith(IGNORED_SCHEMAS):
        return EventForm.IGNORED
    if "specversion" in event and "data" in event:
        raise WrongEvent(Code.MALFORMED_MESSAGE, _CLOUD_DETAIL)
    if _is_envelope(event):
        _check_documents(event)
        return EventForm.IGNORED if event["op"] == "m" else EventForm.ENVELOPE
    keys = event.keys()
    if keys == {"ts_ms"} or ("ddl" in keys and ("databaseName" in keys or "tableChanges" in keys)):
        return EventForm.IGNORED
    if {"status", "id"} <= keys <= _TRANSACTION and event["status"] in ("BEGIN", "END"):
        return EventForm.IGNORED
    if {"id", "type", "aggregate_type"} <= keys <= _NOTIFICATION:
        return EventForm.IGNORED
    return EventForm.FLATTENED


def marks_delete(event: Any) -> bool:
    """Return True if an event itself says whether it is a delete, so that a tombstone behind it only repeats that."""
    return isinstance(event, dict) and ("__deleted" in event or _is_envelope(event))


def may_be_event(columns: Collection[str]) -> bool:
    """Return True if an object with exactly these keys can be another form than a flattened row, or hold one."""
    names = {*columns}
    return (
        {"specversion", "data"} <= names
        or ("op" in names and not names.isdisjoint({*_IMAGES, "source"}))
        or names == {"ts_ms"}
        or ("ddl" in names and not names.isdisjoint({"databaseName", "tableChanges"}))
        or {"status", "id"} <= names <= _TRANSACTION
        or {"id", "type", "aggregate_type"} <= names <= _NOTIFICATION
        or names <= _SCHEMA_AND_PAYLOAD
        or names == {"key", "value"}
    )


def _is_envelope(event: Mapping[str, Any]) -> bool:
    return "op" in event and (not _IMAGES.isdisjoint(event) or isinstance(event.get("source"), dict))


def _check_documents(event: Mapping[str, Any]) -> None:
    source = event.get("source")
    of_mongodb = isinstance(source, dict) and (source.get("connector") == MONGODB or "collection" in source)
    if of_mongodb or isinstance(event.get("after"), str) or not _MONGODB.isdisjoint(event):
        raise WrongEvent(Code.MALFORMED_MESSAGE, _MONGODB_DETAIL)
