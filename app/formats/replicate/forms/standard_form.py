"""The forms of Replicate's messages that need no layout: -> metadata bodies, or the parts of a data message.

A body has an envelope, is `{message:{…}}` or bare. Its headers are an object, or flattened beside the images with or
without the prefix `headers_`, as mongo-kafka's `OperationHelper` finds them. Source: docs/formats.md, "Replicate".
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from app.domain.model.source_name import SourceName
from app.errors import Code, Problem, RejectedInput
from app.formats.json.validation import convert
from app.formats.replicate.forms.envelope import (
    KEY_AT,
    Body,
    DataParts,
    HeaderPointers,
    Headers,
    ReplicateMessage,
    Text,
)

_HEADER_PREFIXES: Final = ("headers_", "")
"""Of flattened headers. Without one, the section was deleted in the task's message format."""


class StandardBody(NamedTuple):
    """The body of a message: typed, as it was decoded, and its JSON Pointer."""

    typed: Body
    decoded: Mapping[str, Any]
    at: str
    schema_id: str | None
    """The schema id of the envelope."""

    @property
    def source(self) -> SourceName | None:
        """The table that a data message names. Raises RejectedInput `bad_name`."""
        return SourceName.of(None, self.typed.schema or None, self.typed.table) if self.typed.table else None


def unwrap(index: int, message: Mapping[str, Any], at: str) -> StandardBody | None:
    """Return the body of a message whose JSON Pointer is `at`, None for an envelope around null.

    Raises RejectedInput `malformed_message` or `bad_envelope`.
    """
    typed = convert(message, ReplicateMessage, index, at)
    inner = typed.message
    schema_id = typed.messageSchemaId or None
    if text(typed.magic) is None and text(typed.type) is None:
        if inner is UNSET:
            return StandardBody(typed, message, at, schema_id)
        return None if inner is None else StandardBody(inner, message["message"], f"{at}/message", schema_id)
    if typed.magic != "atMSG" or typed.type not in {"MD", "DT"}:
        raise RejectedInput(Code.BAD_ENVELOPE, "the envelope must have magic atMSG and type MD or DT")
    if inner is None:
        return None
    if inner is UNSET:
        raise RejectedInput(Code.BAD_ENVELOPE, "the envelope has no message")
    if (typed.type == "MD") != bool(inner.tableStructure):
        raise RejectedInput(
            Code.BAD_ENVELOPE, f"the envelope has type {typed.type}, and its message is of the other type"
        )
    return StandardBody(inner, message["message"], f"{at}/message", schema_id)


def is_metadata(message: Mapping[str, Any]) -> bool:
    """Tell whether a message with or without an envelope is a metadata message."""
    inner = message.get("message", message)
    return isinstance(inner, dict) and bool(inner.get("tableStructure"))


def data_parts(index: int, body: StandardBody, key: Any) -> DataParts:
    """Return the parts of a data message. Raises RejectedInput `malformed_message`."""
    at, typed = body.at, body.typed
    headers, pointers = _headers(index, body)
    return DataParts(
        None if typed.data is UNSET else typed.data,
        None if typed.beforeData is UNSET else typed.beforeData,
        headers,
        f"{at}/data",
        f"{at}/beforeData",
        pointers,
        key,
        KEY_AT,
    )


def _headers(index: int, body: StandardBody) -> tuple[Headers, HeaderPointers]:
    """Return the headers, given as an object or flattened, and their pointers."""
    flattened = [prefix for prefix in _HEADER_PREFIXES if body.decoded.get(f"{prefix}operation") is not None]
    given = body.typed.headers
    if len(flattened) + bool(given) > 1:
        detail = "headers are given both as an object and flattened" if given else "headers are given twice"
        raise rejection(Code.MALFORMED_MESSAGE, detail, index, f"{body.at}/{flattened[0]}operation")
    if given:
        return given, _pointers(f"{body.at}/headers/")
    if not flattened:
        raise rejection(Code.MALFORMED_MESSAGE, "a data message needs headers", index, f"{body.at}/headers")
    prefix = flattened[0]
    found = {name: body.decoded[prefix + name] for name in Headers.__struct_fields__ if prefix + name in body.decoded}
    pointers = _pointers(f"{body.at}/{prefix}")
    return as_headers(index, found, pointers), pointers


def as_headers(index: int, found: Mapping[str, Any], pointers: HeaderPointers) -> Headers:
    """Return headers that were found one by one. Raises RejectedInput `malformed_message` with the header's pointer."""
    try:
        return convert(found, Headers, index, "")
    except RejectedInput as error:
        [problem] = error.problems
        name = (problem.pointer or "").strip("/") or "operation"
        raise rejection(problem.code, problem.detail, index, pointers.of(name)) from None


@lru_cache(maxsize=64)
def _pointers(prefix: str) -> HeaderPointers:
    """Return the pointers with this prefix, of which there are few."""
    return HeaderPointers(prefix)


def text(written: Text) -> str | None:
    """Return a text, None for null or nothing."""
    return written if isinstance(written, str) else None


def rejection(code: Code, detail: str, index: int, pointer: str) -> RejectedInput:
    """Return the rejection for one place of one message."""
    return RejectedInput.of((Problem(code, detail, index, pointer),))
