"""Bodies of change requests in the contract, which FastAPI does not read: messages with examples, CSV and Arrow.

`messages.yaml` declares the messages of change data capture and the examples, in the form of the contract.
"""

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from app.api.schemas.changes import PlainRow
from app.api.server.request_parameters import ARROW_STREAM, AVRO

COMPONENTS: Final = "#/components/schemas/"

_MESSAGES: Final[dict[str, dict[str, Any]]] = msgspec.yaml.decode(
    Path(__file__).with_name("messages.yaml").read_bytes()
)
_STREAM: Final = {
    "schema": {
        "type": "string",
        "format": "binary",
        "description": "One Arrow IPC stream with the table's columns, with uncompressed buffers.",
    }
}
_AVRO: Final = {
    "schema": {
        "type": "string",
        "format": "binary",
        "description": "Replicate's envelopes in Avro, one after the other; or one record without an envelope, with "
        "`schema_id`. Metadata messages declare the schema of the records that follow.",
    }
}


def message_schemas() -> dict[str, Any]:
    """Return the JSON schemas of all messages and of their parts, by component name."""
    return _MESSAGES["schemas"] | {PlainRow.__name__: PlainRow.model_json_schema()}


def _body(message: str, others: dict[str, Any] | None = None, *, also: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the description of a body with one or many messages, each of which can be `also`, or of `others`."""
    one = {"$ref": COMPONENTS + message}
    alone = [one, also] if also else [one]
    items = {"anyOf": alone} if also else one
    examples = _MESSAGES["bodies"][message]
    lines = "".join(json.dumps(example) + "\n" for example in examples["several"]["value"])
    content = {
        "application/json": {
            "schema": {"anyOf": [*alone, {"type": "array", "items": items, "minItems": 1}]},
            "examples": examples,
        },
        "application/x-ndjson": {
            "schema": {"type": "string", "description": "One message per line."},
            "examples": {"lines": {"summary": "One message per line", "value": lines}},
        },
    }
    return {"requestBody": {"required": True, "content": content | (others or {})}}


def _csv(description: str, summary: str, value: str) -> dict[str, Any]:
    schema = {"type": "string", "description": description}
    return {"text/csv": {"schema": schema, "examples": {"rows": {"summary": summary, "value": value}}}}


ARCION_BODY: Final = _body(
    "ArcionMessage",
    _csv(
        "One record per row; requires `table`, `mode`, and `columns` or `header`.",
        "Two snapshot rows",
        "100,Testing name\r\n101,NULL\r\n",
    ),
    also={"$ref": COMPONENTS + "ArcionImage"},
)
_NULL: Final = {"type": "null"}
REPLICATE_BODY: Final = _body("ReplicateMessage", {AVRO: _AVRO}, also=_NULL)
DEBEZIUM_BODY: Final = _body("DebeziumMessage", also=_NULL)
ROWS_BODY: Final = _body(
    "PlainRow",
    _csv(
        "A header with the names of the columns, then one record per row.",
        "Two rows",
        "n_nationkey,n_name\r\n100,Testing name\r\n101,\r\n",
    )
    | {ARROW_STREAM: _STREAM},
)
ARROW_BODY: Final = {"requestBody": {"required": True, "content": {ARROW_STREAM: _STREAM}}}
