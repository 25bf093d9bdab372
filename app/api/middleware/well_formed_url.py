"""Rejects URLs that are not text, before their parts reach a query: PostgreSQL cannot store U+0000 or invalid UTF-8."""

from urllib.parse import unquote_to_bytes

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.middleware.error_handlers import answer_error
from app.errors import Code, RejectedInput


class WellFormedUrl:
    """Answers 400 to a path or query with U+0000 or with bytes that are not UTF-8, whatever the route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the URL, and pass the request on if it is valid."""
        if scope["type"] == "http":
            for part in (scope["raw_path"], scope["query_string"]):
                if (b"%" in part or not part.isascii()) and (detail := _find_fault(part)) is not None:
                    response = answer_error(Request(scope), RejectedInput(Code.BAD_REQUEST, detail))
                    await response(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def _find_fault(part: bytes) -> str | None:
    try:
        text = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        return "the path or query of the URL is not UTF-8"
    return "the path or query of the URL contains the character U+0000" if "\0" in text else None
