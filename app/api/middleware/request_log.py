"""One log line, one request id and the metrics of every request.

This is the outermost middleware, so it also answers requests that raised an unexpected exception: a handler outside of
it would not know the request id.
"""

import asyncio
import re
import secrets
import time
import traceback
from functools import cache
from typing import Any, Final

import structlog
from prometheus_client import Counter, Histogram
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.middleware.admission import CHANGES_PREFIX
from app.api.server.problem_responses import problem_response
from app.api.server.request_facts import RequestFacts, facts_of
from app.errors import Code, MirrorgateError, TemporarilyUnavailable
from app.observability.telemetry import REQUEST_SECONDS, REQUESTS

log = structlog.get_logger()

_OUT_OF_MEMORY: Final = TemporarilyUnavailable(
    Code.OVERLOADED, "this API process has no memory left for the request", retry_after=5
)
_OUT_OF_MEMORY_REMEDY: Final = "Lower MIRRORGATE_MAX_BYTES_IN_MEMORY, or give the process more memory."
_NO_THREAD: Final = "can't start new thread"
"""Text of Python's RuntimeError if there is no memory for the stack of a thread, or no thread left."""

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
CLIENT_CLOSED_REQUEST: Final = 499
"""Status in logs and metrics of a request whose caller disconnected before the answer."""

MAX_LOGGED_TABLES: Final = 20
"""Tables that a log line names."""

_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")

_UNLOGGED_PATHS: Final = frozenset({"/healthz", "/readyz", "/statusz", "/metrics"})


class RequestLog:
    """Binds the caller's valid `X-Request-Id`, or a new one, to every log line and to the answer.

    Also answers every exception that nothing else has handled.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and record it when it ends."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        started = time.perf_counter()
        status, answered = 500, False
        facts = facts_of(scope)

        async def send_with_id(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                answered = True
                status = message["status"]
                extra = (_NOSNIFF, (b"x-request-id", request_id.encode()))
                message["headers"] = [*message["headers"], *facts.headers, *extra]
            await send(message)

        before = structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            status = CLIENT_CLOSED_REQUEST
        except asyncio.CancelledError:  # the process stops, and the request took longer than the graceful shutdown
            if not answered:
                error_at_shutdown = _shutdown_error(scope)
                status, facts.code = 503, error_at_shutdown.code
                await problem_response(error_at_shutdown)(scope, receive, send_with_id)
        except Exception as error:  # answered with the request id of the log line
            if _is_out_of_memory(error):
                log.error("out_of_memory", remedy=_OUT_OF_MEMORY_REMEDY)  # noqa: TRY400  # a traceback needs memory
                if answered:
                    raise
                status, facts.code = 503, _OUT_OF_MEMORY.code
                await problem_response(_OUT_OF_MEMORY)(scope, receive, send_with_id)
                return
            # Only the places are logged: the text of an exception can contain a row value.
            log.error("request_crashed", error=type(error).__name__, at=traceback.format_tb(error.__traceback__))  # noqa: TRY400  # without the text
            if answered:
                raise
            facts.code = Code.INTERNAL
            response = problem_response(MirrorgateError(Code.INTERNAL, "an unexpected error in the gateway"))
            await response(scope, receive, send_with_id)
        finally:
            _record(scope, facts, status, time.perf_counter() - started)
            structlog.contextvars.reset_contextvars(**before)


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and error.args == (_NO_THREAD,))


def _shutdown_error(scope: Scope) -> TemporarilyUnavailable:
    """Return the error for a request that is still running when the process stops."""
    if scope["path"].startswith(CHANGES_PREFIX):
        return TemporarilyUnavailable(Code.COMMIT_UNKNOWN, "this API process stopped before the transaction ended")
    return TemporarilyUnavailable(Code.SHUTTING_DOWN, "this API process is stopping")


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value.decode())
    return secrets.token_hex(16)


def _record(scope: Scope, facts: RequestFacts, status: int, seconds: float) -> None:
    route: Any = scope.get("route")
    path = getattr(route, "path", "unmatched")
    requests, durations = _metrics_of(path, status)
    requests.inc()
    durations.observe(seconds)
    if scope["path"] not in _UNLOGGED_PATHS:
        optional = {
            "code": facts.code,
            "tables": facts.tables[:MAX_LOGGED_TABLES],
            "key": facts.subject,
            "bytes": facts.received,
            "changes": facts.changes,
            "client": scope["client"][0] if scope.get("client") else None,
        }
        log.info(
            "request",
            method=scope["method"],
            route=path,
            status=status,
            milliseconds=round(seconds * 1000, 1),
            **{name: value for name, value in optional.items() if value},
        )


@cache
def _metrics_of(path: str, status: int) -> tuple[Counter, Histogram]:
    """Return the metrics of a route's path. The path of a request would make their number unbounded."""
    return REQUESTS.labels(path, status), REQUEST_SECONDS.labels(path)
