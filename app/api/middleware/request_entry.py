"""The application that uvicorn calls: it gives each request its id, limits, answer, log line and metrics.

POST requests to the change endpoints are answered here, without the framework, which takes longer to find and call a
route than a small request takes (decision 0031). All others pass on to the framework.

This is the outermost layer, so it also answers requests that raised an unexpected exception: a handler outside of it
would not know the request id.
"""

import asyncio
import os
import time
import traceback
from collections.abc import Mapping
from itertools import count
from typing import Final, Protocol

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.auth.dependencies import authenticate
from app.api.exchange import Answer, BodyBounds, Exchange
from app.api.middleware.error_handlers import answer_error, answer_validation_error
from app.api.middleware.problem_pages import problem_answer
from app.api.middleware.request_log import record
from app.api.middleware.request_span import begin_request_span, end_request_span
from app.api.middleware.well_formed_url import check_url
from app.api.server.body_rejection import BodyRejected
from app.api.server.page_headers import is_page_path
from app.api.server.request_facts import CHANGES_PREFIX
from app.errors import Code, MirrorgateError, TemporarilyUnavailable
from app.observability.tracing import TRACING

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
    """Answers the POST requests of one path without the framework."""

    @property
    def path(self) -> str:
        """The path, as the contract names it."""

    async def __call__(self, exchange: Exchange) -> Answer:
        """Return the answer of an accepted request. Raises what rejects one."""


class RequestEntry:
    """Answers every request: by an endpoint of its path, or by the framework.

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
    """Reads the body for the framework, which reads it before it resolves what checks the caller's rights.

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
    """Sends the answer of the framework. Drops one that does not fit into memory: the caller gets the error instead.

    The framework cannot be told, because it considers its answer begun.
    """

    __slots__ = ("_exchange", "dropped")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.dropped: TemporarilyUnavailable | None = None
        """Why the answer was dropped."""

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
