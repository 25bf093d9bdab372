"""What the OpenAPI contract says beyond the routes' own types: problems, and the shapes of change messages."""

from typing import Any, Final

from fastapi import FastAPI

from app.api.models import ProblemModel
from app.api.request_body import ARROW_STREAM

TITLE: Final = "Mirrorgate"
VERSION: Final = "1.0.0"
DESCRIPTION: Final = (
    "Ingestion gateway for Microsoft Fabric open mirroring. Post change batches in Arcion or Qlik Replicate format; "
    "an answer 202 means the changes are durable and will land exactly once, in order."
)

_TEXTS: Final = {
    400: "Malformed request",
    401: "No valid key or token",
    403: "The key lacks the right",
    404: "No such table, batch or key, or outside the key's tables",
    408: "The body came too slowly",
    409: "Conflict with the table's state or schema",
    413: "Body too large",
    415: "Unsupported content type or encoding",
    422: "A message or a member is not valid",
    429: "Too much is not published yet; see Retry-After",
    503: "Temporarily unavailable; see Retry-After",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route for these statuses, each with problem details."""
    return {status: {"description": _TEXTS[status], "model": ProblemModel} for status in statuses}


class GatewayApp(FastAPI):
    """FastAPI whose contract tells problem details as they are sent."""

    def openapi(self) -> dict[str, Any]:
        contract = super().openapi()
        for path in contract["paths"].values():
            for operation in path.values():
                _correct_problems(operation["responses"])
        for of_the_framework in ("HTTPValidationError", "ValidationError"):
            contract["components"]["schemas"].pop(of_the_framework, None)
        return contract


def _correct_problems(responses: dict[str, Any]) -> None:
    """Give problems their media type, and drop the framework's own 422, which the app answers as a 400."""
    for status, response in list(responses.items()):
        content = response.get("content", {})
        for media_type, described in list(content.items()):
            match described.get("schema", {}).get("$ref", "").rpartition("/")[2]:
                case "ProblemModel":
                    content["application/problem+json"] = content.pop(media_type)
                case "HTTPValidationError":
                    del responses[status]


_IMAGE: Final = {"type": ["object", "null"], "additionalProperties": True}

_ARCION_MESSAGE: Final = {
    "type": "object",
    "required": ["tableName", "opType", "exists"],
    "properties": {
        "tableName": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "namespace": {
                    "type": ["object", "null"],
                    "properties": {
                        "catalog": {"type": ["string", "null"]},
                        "schema": {"type": ["string", "null"]},
                        "hash": {"type": ["integer", "null"]},
                    },
                },
                "hash": {"type": ["integer", "null"]},
            },
        },
        "opType": {"type": "string", "enum": ["I", "U", "D", "R"]},
        "cursor": {"type": ["string", "object", "null"]},
        "before": _IMAGE,
        "after": _IMAGE,
        "exists": {"type": "object", "additionalProperties": {"enum": ["0", "1", "2", "3", 0, 1, 2, 3]}},
        "operationcount": {"type": ["string", "object", "null"]},
    },
}

_REPLICATE_MESSAGE: Final = {
    "type": "object",
    "description": "A metadata (MD) or data (DT) message, in its envelope or bare.",
    "properties": {
        "magic": {"type": "string", "enum": ["atMSG"]},
        "type": {"type": "string", "enum": ["MD", "DT"]},
        "messageSchemaId": {"type": ["string", "null"]},
        "message": {"type": ["object", "null"]},
    },
}

_ARCION_EXAMPLE: Final = {
    "tableName": {"namespace": {"catalog": "tpch", "schema": "default_schema"}, "name": "nation"},
    "opType": "I",
    "before": {"n_nationkey": "null", "n_name": "null"},
    "after": {"n_nationkey": "100", "n_name": "Testing name"},
    "exists": {"n_nationkey": "1", "n_name": "1"},
}

_REPLICATE_EXAMPLE: Final = {
    "magic": "atMSG",
    "type": "DT",
    "headers": None,
    "messageSchemaId": None,
    "messageSchema": None,
    "message": {
        "data": {"ID": 7, "NAME": "Testing name"},
        "beforeData": None,
        "headers": {"operation": "INSERT", "changeSequence": "20260102030405060000000000000000001"},
    },
}


def _body(message: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    one_or_many = {"oneOf": [message, {"type": "array", "items": message, "minItems": 1}]}
    content = {
        "application/json": {"schema": one_or_many, "example": [example]},
        "application/x-ndjson": {"schema": {"type": "string", "description": "One message a line."}},
    }
    return {"requestBody": {"required": True, "content": content}}


ARCION_BODY: Final = _body(_ARCION_MESSAGE, _ARCION_EXAMPLE)
ARCION_BODY["requestBody"]["content"]["text/csv"] = {
    "schema": {"type": "string", "description": "One record a row; needs `table`, `mode`, and `columns` or `header`."},
    "example": "100,Testing name\r\n101,NULL\r\n",
}
REPLICATE_BODY: Final = _body(_REPLICATE_MESSAGE, _REPLICATE_EXAMPLE)
ARROW_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {
            ARROW_STREAM: {
                "schema": {
                    "type": "string",
                    "format": "binary",
                    "description": "One Arrow IPC stream with the table's columns; its buffers are not compressed.",
                }
            }
        },
    }
}
