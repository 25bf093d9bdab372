"""Rejects URLs that are not text, before their parts reach a query: PostgreSQL cannot store U+0000 or invalid UTF-8."""

from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from app.errors import Code, RejectedInput


def check_url(scope: Scope) -> None:
    """Raise RejectedInput `bad_request` for a path or query with U+0000 or with bytes that are not UTF-8."""
    for part in (scope["raw_path"], scope["query_string"]):
        if part and (b"%" in part or not part.isascii()):
            _check_part(part)


def _check_part(part: bytes) -> None:
    try:
        text = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise RejectedInput(Code.BAD_REQUEST, "the path or query of the URL is not UTF-8") from None
    if "\0" in text:
        raise RejectedInput(Code.BAD_REQUEST, "the path or query of the URL contains the character U+0000")
