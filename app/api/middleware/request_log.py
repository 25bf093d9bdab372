"""One log line, one request id and the metrics of every request, as plain ASGI around the app."""

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

from app.api.middleware.admission import CHANGES
from app.api.server.problem_responses import problem_response
from app.api.server.request_facts import RequestFacts, facts_of
from app.errors import Code, MirrorgateError, TemporarilyUnavailable
from app.observability.telemetry import REQUEST_SECONDS, REQUESTS

log = structlog.get_logger()

_OUT_OF_MEMORY: Final = TemporarilyUnavailable(
    Code.OVERLOADED, "this API process has no memory left for the request", retry_after=5
)
_MORE_MEMORY: Final = "Lower MIRRORGATE_MAX_BYTES_IN_MEMORY, or give the process more memory."
_NO_THREAD: Final = "can't start new thread"
"""What Python says, as a plain RuntimeError, when there is no memory for the stack of a thread, or no thread left."""

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
CLIENT_GONE: Final = 499
"""Status in logs and metrics of a request whose caller left before the answer."""

MOST_TABLES: Final = 20
"""Tables that a log line names."""

_NOT_SNIFFED: Final = (b"x-content-type-options", b"nosniff")

_QUIET: Final = frozenset({"/healthz", "/readyz", "/statusz", "/metrics"})


class RequestLog:
    """Takes a sane `X-Request-Id` from the caller or makes one, answers with it, and binds it to every log line.

    It also answers for what nobody caught: outside of it the request id would be lost.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
                extra = (_NOT_SNIFFED, (b"x-request-id", request_id.encode()))
                message["headers"] = [*message["headers"], *facts.headers, *extra]
            await send(message)

        before = structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            status = CLIENT_GONE
        except asyncio.CancelledError:  # the process stops, and this took longer than it waits
            if not answered:
                given_up = _given_up(scope)
                status, facts.code = 503, given_up.code
                await problem_response(given_up)(scope, receive, send_with_id)
        except Exception as error:  # the caller hears of it, with the request id of this line
            if _is_out_of_memory(error):
                log.error("out_of_memory", remedy=_MORE_MEMORY)  # noqa: TRY400  # a traceback would need memory
                if answered:
                    raise
                status, facts.code = 503, _OUT_OF_MEMORY.code
                await problem_response(_OUT_OF_MEMORY)(scope, receive, send_with_id)
                return
            # Places only: the text of an error may hold a value.
            log.error("request_crashed", error=type(error).__name__, at=traceback.format_tb(error.__traceback__))  # noqa: TRY400  # the text stays out
            if answered:
                raise
            facts.code = Code.INTERNAL
            response = problem_response(MirrorgateError(Code.INTERNAL, "the gateway met an unexpected error"))
            await response(scope, receive, send_with_id)
        finally:
            _record(scope, facts, status, time.perf_counter() - started)
            structlog.contextvars.reset_contextvars(**before)


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and error.args == (_NO_THREAD,))


def _given_up(scope: Scope) -> TemporarilyUnavailable:
    if scope["path"].startswith(CHANGES):
        return TemporarilyUnavailable(Code.COMMIT_UNKNOWN, "this API process stopped before the transaction had ended")
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
    if scope["path"] not in _QUIET:
        named = {
            "code": facts.code,
            "tables": facts.tables[:MOST_TABLES],
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
            **{name: value for name, value in named.items() if value},
        )


@cache
def _metrics_of(path: str, status: int) -> tuple[Counter, Histogram]:
    """Of a route's path, never of a request's own: there are few."""
    return REQUESTS.labels(path, status), REQUEST_SECONDS.labels(path)
