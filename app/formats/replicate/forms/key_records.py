"""The keys of Kafka records, for data messages that leave the key of their row to them.

A DELETE can have no image at all: its key is in the record's key only (FromReplicateTest of jcustenborder's
kafka-connect-transform-cdc, DeleteTest of mongo-kafka). The image of another message can lack the key columns
(ReplaceTest of mongo-kafka). Keys are an object of the key columns, that object inside
`key`, `data`, `message` or `payload`, as envelopes and Connect's converter write it, or the value of a single key
column. An object can also be a text that has it as JSON.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from app.domain.model.change import Change, Image, Operation
from app.errors import Code, RejectedInput
from app.formats.json.decoder import MessageDecoder
from app.formats.replicate.forms.standard_form import rejection

_DECODER: Final = MessageDecoder(dict[str, Any])
_WRAPPERS: Final = ("message", "payload", "key", "keyData", "data")
"""Keys of an object around the key columns, from the outside inwards."""

_BESIDE: Final = frozenset({"magic", "type", "headers", "messageSchemaId", "messageSchema", "schema", "schemaId"})
"""What can be beside the key columns in a wrapper."""


def with_key(change: Change, key: Any, key_at: str, key_columns: Sequence[str]) -> Change:
    """Return a delete without an image as one whose image is its key.

    Raises RejectedInput `missing_key` if the key lacks a column of the table's key.
    """
    image = key_image(key, key_columns)
    if image is None:
        detail = f"the key must have the table's key columns: {', '.join(key_columns)}"
        raise rejection(Code.MISSING_KEY, detail, change.index, key_at)
    return msgspec.structs.replace(change, before=image, before_at=key_at)


def with_missing_keys(change: Change, key: Any, key_columns: Sequence[str]) -> Change:
    """Return a change whose row lacks key columns with those of the key that it was sent with, if that has them."""
    is_delete = change.operation is Operation.DELETE
    row = change.before if is_delete else change.after
    if row is None or all(column in row for column in key_columns):
        return change
    image = key_image(key, key_columns)
    if image is None:
        return change
    row = image | row
    return msgspec.structs.replace(change, before=row) if is_delete else msgspec.structs.replace(change, after=row)


def key_image(key: Any, key_columns: Sequence[str]) -> Image | None:
    """Return the key columns that a record's key has, None if it lacks one."""
    if not key_columns or key is UNSET or key is None:
        return None
    if isinstance(key, str) and key.startswith("{"):
        inner = _from_text(key)
        if isinstance(inner, dict) and (image := key_image(inner, key_columns)) is not None:
            return image
    if not isinstance(key, dict):
        return {key_columns[0]: key} if len(key_columns) == 1 and not isinstance(key, list) else None
    if all(column in key for column in key_columns):
        return {column: key[column] for column in key_columns}
    inner = _unwrapped(key)
    return None if inner is UNSET else key_image(inner, key_columns)


def _from_text(key: str) -> Any:
    """Return the JSON that a key has as its text, None for a text that is not JSON."""
    try:
        objects = _DECODER.decode(key.encode())
    except RejectedInput:
        return None
    return objects[0] if len(objects) == 1 else None


def _unwrapped(key: Mapping[str, Any]) -> Any:
    """Return what is inside a wrapper, UNSET if the object is none."""
    for name in _WRAPPERS:
        if name in key and key.keys() <= {name} | _BESIDE:
            return key[name]
    return UNSET
