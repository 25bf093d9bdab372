"""Checks of the declared content type of a request body. A body without a content type counts as JSON."""

import re
from typing import Final

from fastapi import Request

from app.errors import Code, RejectedInput

ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
_JSON_TYPES: Final = frozenset({"application/json", "application/x-ndjson", "application/ndjson", "application/jsonl"})
_CHARSET: Final = re.compile(r"(?:^|;)\s*charset\s*=\s*\"?([^\";\s]*)", re.IGNORECASE)
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii", ""})


def check_json_type(request: Request) -> None:
    """Raise RejectedInput `unsupported_media_type` unless the body is declared as some form of JSON."""
    if _media_type(request) not in _JSON_TYPES:
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "the content type is not JSON")


async def require_json_body(request: Request) -> None:
    """Check the body of a framework route, as a dependency of all of them.

    Raises RejectedInput `unsupported_media_type` for a body that is not declared as `application/json`.
    """
    if _media_type(request) != "application/json" and await request.body():
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "the content type is not JSON")


def check_arrow_type(request: Request) -> None:
    """Raise RejectedInput `unsupported_media_type` unless the body is declared as an Arrow stream."""
    if _media_type(request) != ARROW_STREAM:
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, f"the content type is not {ARROW_STREAM}")


def is_csv(request: Request) -> bool:
    """Return True if the body is declared as CSV."""
    return _media_type(request) == "text/csv"


def _media_type(request: Request) -> str:
    """Return the media type in lower case. Raises RejectedInput `unsupported_media_type` for a charset but UTF-8."""
    media_type, _, parameters = request.headers.get("content-type", "application/json").partition(";")
    if parameters:
        charset = _CHARSET.search(parameters)
        if charset is not None and charset[1].lower() not in _UTF8:
            raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "the charset of the body is not UTF-8")
    return media_type.strip().lower()
