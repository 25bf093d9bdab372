"""The log line and the metrics of every request.

The line has the facts of the request and its answer, never a row value or a secret.
"""

import time
from functools import cache
from typing import Final

from prometheus_client import Counter, Histogram

from app.api.exchange import Exchange
from app.observability.api_metrics import REQUEST_SECONDS, REQUESTS
from app.observability.telemetry import REQUEST_LINES
from app.observability.tracing import current_trace

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
