"""Checks of the declared content type of a request body. A body without a content type counts as JSON."""

import re
from functools import lru_cache
from typing import Final

from fastapi import Request

from mirrorgate.errors import Code, RejectedInput

ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
AVRO: Final = "application/avro"
CSV: Final = "text/csv"
_JSON_TYPES: Final = frozenset({"application/json", "application/x-ndjson", "application/ndjson", "application/jsonl"})
_JSON: Final = frozenset({"application/json"})
_CHARSET: Final = re.compile(r"(?:^|;)\s*charset\s*=\s*\"?([^\";\s]*)", re.IGNORECASE)
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii", ""})


def check_json_type(content_type: bytes | None) -> None:
    """Raise RejectedInput `unsupported_media_type` unless the body is declared as some form of JSON."""
    if media_type(content_type) not in _JSON_TYPES:
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "the content type is not JSON")


def check_arrow_type(content_type: bytes | None) -> None:
    """Raise RejectedInput `unsupported_media_type` unless the body is declared as an Arrow stream."""
    if media_type(content_type) != ARROW_STREAM:
        remedy = (
            f"Send an Arrow IPC stream with `Content-Type: {ARROW_STREAM}`. Send rows in JSON or CSV to "
            "`POST /v1/changes/rows`."
        )
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, f"the content type is not {ARROW_STREAM}", remedy=remedy)


async def require_declared_type(request: Request) -> None:
    """Check the body of a framework route, as a dependency of all of them.

    A route whose body is not a model lists its content types in its part of the contract.

    Raises RejectedInput `unsupported_media_type` for a body that is declared as something else.
    """
    given = request.headers.get("content-type")
    declared = media_type(None if given is None else given.encode("latin-1"))
    described = getattr(request.scope.get("route"), "openapi_extra", None) or {}
    accepted = described.get("requestBody", {}).get("content", _JSON)
    if declared not in accepted and await request.body():
        names = " or ".join(sorted(accepted))
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, f"the content type is not {names}")


@lru_cache(maxsize=64)
def media_type(content_type: bytes | None) -> str:
    """Return the media type in lower case. Raises RejectedInput `unsupported_media_type` for a charset but UTF-8."""
    if content_type is None:
        return "application/json"
    named, _, parameters = content_type.decode("latin-1").partition(";")
    if parameters:
        charset = _CHARSET.search(parameters)
        if charset is not None and charset[1].lower() not in _UTF8:
            raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "the charset of the body is not UTF-8")
    return named.strip().lower()
