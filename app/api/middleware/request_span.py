"""The span of a request, which the transaction that stages its changes continues."""

from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from app.api.exchange import Exchange
from app.observability.tracing import TRACING, mark_failed, set_current_trace, traceparent_of, valid_traceparent

if TYPE_CHECKING:
    from opentelemetry.trace import Span

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
