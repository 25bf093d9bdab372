"""Rejects URLs that are no text: what PostgreSQL cannot store must not come as far as a query."""

from urllib.parse import unquote_to_bytes

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.middleware.error_handlers import answer_deliberate
from app.errors import Code, RejectedInput


class WellFormedUrl:
    """Answers 400 to a path or query with U+0000 or with bytes that are not UTF-8, whatever the route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for part in (scope["raw_path"], scope["query_string"]):
                if (b"%" in part or not part.isascii()) and (detail := _fault_of(part)) is not None:
                    response = answer_deliberate(Request(scope), RejectedInput(Code.BAD_REQUEST, detail))
                    await response(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def _fault_of(part: bytes) -> str | None:
    try:
        text = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        return "the path or query of the URL is not UTF-8"
    return "the path or query of the URL has the character U+0000" if "\0" in text else None
