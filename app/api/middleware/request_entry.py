"""The application that uvicorn calls: it gives each request its id, limits, answer, log line and metrics.

`RequestEntry` answers POST requests to the change endpoints without the framework, which takes longer to find and call
a route than a small request takes (decision 0031). All others pass on to the framework. `RequestEntry` is the outermost
layer, so it also answers requests that raised an unexpected exception: a handler outside of it would not know the
request id.

`record` writes the log line and the metrics of every request. The line has the facts of the request and its answer,
never a row value or a secret.

`begin_request_span` begins the span of a request, which the transaction that stages its changes continues.

`check_url` rejects URLs that are not text, before their parts reach a query: PostgreSQL cannot store U+0000 or invalid
UTF-8.
"""

import asyncio
import os
import time
import traceback
from collections.abc import Mapping
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote_to_bytes

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from prometheus_client import Counter, Histogram
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.auth.dependencies import authenticate
from app.api.exchange import Answer, BodyBounds, Exchange
from app.api.middleware.error_handlers import answer_error, answer_validation_error, problem_answer
from app.api.server.problem_responses import BodyRejected, is_page_path
from app.api.server.request_facts import CHANGES_PREFIX
from app.observability.api_metrics import REQUEST_SECONDS, REQUESTS
from app.observability.telemetry import REQUEST_LINES
from app.observability.tracing import (
    TRACING,
    current_trace,
    mark_failed,
    set_current_trace,
    traceparent_of,
    valid_traceparent,
)
from mirrorgate.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable

if TYPE_CHECKING:
    from opentelemetry.trace import Span


MAX_LOGGED_TABLES: Final = 20
"""Tables that a log line names."""

_UNLOGGED_PATHS: Final = frozenset({"/healthz", "/readyz", "/statusz", "/metrics"})


def record(exchange: Exchange, started: float) -> None:
    """Count a request that has ended, and log it. `started` is a time of `time.perf_counter`."""
    seconds = time.perf_counter() - started
    scope, status = exchange.scope, exchange.status
    route = exchange.route
    requests, durations = _metrics_of(route, status)
    requests.inc()
    durations.observe(seconds)
    if not REQUEST_LINES.is_on or scope["path"] in _UNLOGGED_PATHS:
        return
    client = scope.get("client")
    trace = current_trace()
    REQUEST_LINES.write(
        method=scope["method"],
        route=route,
        status=status,
        milliseconds=round(seconds * 1000, 1),
        code=exchange.code,
        tables=exchange.tables[:MAX_LOGGED_TABLES],
        key=exchange.subject,
        bytes=exchange.received,
        changes=exchange.changes,
        client=client[0] if client else None,
        request_id=exchange.request_id,
        trace_id=trace.split("-")[1] if trace else None,
    )


@cache
def _metrics_of(route: str, status: int) -> tuple[Counter, Histogram]:
    """Return the metrics of a route's path. The path of a request would make their number unbounded."""
    return REQUESTS.labels(route, status), REQUEST_SECONDS.labels(route)


_SERVER_ERROR: Final = 500


def begin_request_span(scope: Scope) -> "Span | None":
    """Begin the span of a request, under the caller's `traceparent` if that is valid, and make it the current one."""
    sent = next((value for name, value in scope["headers"] if name == b"traceparent"), b"")
    attributes = {"http.request.method": scope["method"], "url.scheme": scope["scheme"]}
    parent = valid_traceparent(sent) if sent else None
    span = TRACING.begin(scope["method"], parent=parent, is_server=True, attributes=attributes)
    set_current_trace(None if span is None else traceparent_of(span))
    return span


def end_request_span(span: "Span", exchange: Exchange) -> None:
    """End the span with what became known of the request. Names are those of HTTP's semantic conventions."""
    if span.is_recording():
        span.update_name(f"{exchange.scope['method']} {exchange.route}")
        span.set_attribute("http.route", exchange.route)
        span.set_attribute("http.response.status_code", exchange.status)
        span.set_attribute("http.request.body.size", exchange.received)
        span.set_attribute("mirrorgate.request_id", exchange.request_id)
        span.set_attribute("mirrorgate.changes", exchange.changes)
        span.set_attribute("mirrorgate.tables", exchange.tables)
        if exchange.code is not None:
            span.set_attribute("mirrorgate.code", exchange.code)
        if exchange.status >= _SERVER_ERROR:
            mark_failed(span, exchange.code or str(exchange.status))
    span.end()
    set_current_trace(None)


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


log = structlog.get_logger()

CLIENT_CLOSED_REQUEST: Final = 499
"""Status in logs and metrics of a request whose caller disconnected before the answer."""

MAX_SIGN_IN_BYTES: Final = 8 * 2**10
"""Bytes of a form of the console that is sent without a session."""

_OUT_OF_MEMORY: Final = TemporarilyUnavailable(
    Code.OVERLOADED, "this API process has no memory left for the request", retry_after=5
)
_OUT_OF_MEMORY_REMEDY: Final = "Lower MIRRORGATE_MAX_BYTES_IN_MEMORY, or give the process more memory."
_NO_THREAD: Final = "can't start new thread"
"""Text of Python's RuntimeError if there is no memory for the stack of a thread, or no thread left."""


class Endpoint(Protocol):
    """Handler of the POST requests of one path, without the framework."""

    @property
    def path(self) -> str:
        """The path, as the contract names it."""

    async def __call__(self, exchange: Exchange) -> Answer:
        """Return the answer of an accepted request. Raises what rejects one."""


class RequestEntry:
    """Entry of every request: an endpoint of its path answers it, or the framework.

    Binds the caller's valid `X-Request-Id`, or a new one, to every log line and to the answer. Also answers every
    exception that nothing else has handled.
    """

    def __init__(
        self,
        framework: ASGIApp,
        app: FastAPI,
        bounds: BodyBounds,
        endpoints: Mapping[str, Endpoint] | None = None,
        *,
        has_console: bool = False,
    ) -> None:
        """Prepare. `app` is the application whose state the parts of a request find in their scope."""
        self._has_console = has_console
        self._framework = framework
        self._app = app
        self._bounds = bounds
        self._endpoints = endpoints or {}
        self._ids = count(1)
        self._id_prefix = f"{time.time_ns() // 1_000:013x}{os.getpid():06x}"
        """Start time and process id: ids of two processes differ."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and record it when it ends."""
        if scope["type"] != "http":
            await self._framework(scope, receive, send)
            return
        started = time.perf_counter()
        scope["app"] = self._app
        exchange = Exchange(scope, receive, send, self._bounds, f"{self._id_prefix}{next(self._ids):013x}")
        exchange.is_page = self._has_console and is_page_path(scope["path"])
        before = structlog.contextvars.bind_contextvars(request_id=exchange.request_id)
        span = begin_request_span(scope) if TRACING.is_on else None
        try:
            await self._answer(exchange)
        except ClientDisconnect:
            exchange.status = CLIENT_CLOSED_REQUEST
        except asyncio.CancelledError:  # the process stops, and the request took longer than the graceful shutdown
            if not exchange.is_answered:
                await _send_problem(exchange, _shutdown_error(scope))
        except Exception as error:  # noqa: BLE001  # answered with the request id of the log line
            await _answer_crash(exchange, error)
        finally:
            exchange.close()
            record(exchange, started)
            if span is not None:
                end_request_span(span, exchange)
            structlog.contextvars.reset_contextvars(**before)

    async def _answer(self, exchange: Exchange) -> None:
        scope = exchange.scope
        endpoint = self._endpoints.get(scope["path"]) if scope["method"] == "POST" else None
        try:
            check_url(scope)
            if endpoint is not None:
                scope["route"] = endpoint
                answer = await endpoint(exchange)
                exchange.hold_answer(answer.status, len(answer.content))
            else:
                send = _FrameworkSend(exchange)
                await self._framework(scope, _FrameworkReceive(exchange), send)
                if send.dropped is None:
                    return
                raise send.dropped
        except MirrorgateError as error:
            response = answer_error(exchange, error)
        except RequestValidationError as error:
            response = answer_validation_error(exchange, error)
        else:
            await exchange.send_answer(answer)
            return
        await response(scope, exchange.receive, exchange.send)


class _FrameworkReceive:
    """Body as the framework receives it; the framework reads it before it resolves what checks the caller's rights.

    Lets no byte of a body be read before its caller has presented a valid key or token (decision 0022). The console
    reads its forms itself, after it has looked for the session; without one, the body has at most MAX_SIGN_IN_BYTES,
    and shares the room of callers without a valid key.
    """

    __slots__ = ("_exchange",)

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def __call__(self) -> Message:
        """Return the next message of the body. Raises BodyRejected."""
        try:
            if not self._exchange.is_page:
                await authenticate(self._exchange)
            elif self._exchange.credential is None:  # the form that signs in
                self._exchange.limit_body(MAX_SIGN_IN_BYTES)
            return await self._exchange.receive()
        except MirrorgateError as error:
            raise BodyRejected(error) from error


class _FrameworkSend:
    """Answer as the framework sends it. One that does not fit into memory is dropped: the caller gets an error.

    The framework cannot be told, because it considers its answer begun.
    """

    __slots__ = ("_exchange", "dropped")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.dropped: TemporarilyUnavailable | None = None
        """Reason why the answer was dropped."""

    async def __call__(self, message: Message) -> None:
        """Send a message of the answer."""
        if self.dropped is None:
            try:
                await self._exchange.send(message)
            except TemporarilyUnavailable as error:
                self.dropped = error


async def _answer_crash(exchange: Exchange, error: Exception) -> None:
    """Answer an exception that is not expected, or raise it again if the answer has begun."""
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and error.args == (_NO_THREAD,)):
        log.error("out_of_memory", remedy=_OUT_OF_MEMORY_REMEDY)
        problem: MirrorgateError = _OUT_OF_MEMORY
    else:  # only the places are logged: the text of an exception can contain a row value
        log.error("request_crashed", error=type(error).__name__, at=traceback.format_tb(error.__traceback__))
        problem = MirrorgateError(Code.INTERNAL, "an unexpected error in the gateway")
    if exchange.is_answered:
        raise error
    await _send_problem(exchange, problem)


async def _send_problem(exchange: Exchange, error: MirrorgateError) -> None:
    exchange.code = error.code
    await problem_answer(exchange, error)(exchange.scope, exchange.receive, exchange.send)


def _shutdown_error(scope: Scope) -> TemporarilyUnavailable:
    """Return the error for a request that is still running when the process stops."""
    if scope["path"].startswith(CHANGES_PREFIX):
        return TemporarilyUnavailable(Code.COMMIT_UNKNOWN, "this API process stopped before the transaction ended")
    return TemporarilyUnavailable(Code.SHUTTING_DOWN, "this API process is stopping")
