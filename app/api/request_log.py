"""One log line, one request id and the metrics of every request, as plain ASGI around the app."""

import re
import time
from typing import Any, Final
from uuid import uuid4

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.telemetry import REQUEST_SECONDS, REQUESTS

log = structlog.get_logger()

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_QUIET: Final = frozenset({"/healthz", "/readyz", "/metrics"})


class RequestLog:
    """Takes a sane `X-Request-Id` from the caller or makes one, answers with it, and binds it to every log line."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        started = time.perf_counter()
        status = 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_with_id)
            finally:
                _record(scope, status, time.perf_counter() - started)


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value.decode())
    return uuid4().hex


def _record(scope: Scope, status: int, seconds: float) -> None:
    route: Any = scope.get("route")
    path = getattr(route, "path", "unmatched")
    REQUESTS.labels(path, status).inc()
    REQUEST_SECONDS.labels(path).observe(seconds)
    if scope["path"] not in _QUIET:
        log.info("request", method=scope["method"], route=path, status=status, milliseconds=round(seconds * 1000, 1))
