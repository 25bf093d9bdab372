"""Traces: from a request over its transaction to the publication of its file, sent to an OpenTelemetry collector.

A trace context is a `traceparent` text as W3C Trace Context defines it, everywhere outside this module: in the queue of
the staging thread, and in Postgres between the API and the drain. Only recorded contexts are passed on. Without
MIRRORGATE_TRACES_ENDPOINT no SDK is imported, and each place in the path of a request tests one flag.

Spans have names, sizes and codes, never a row value or a secret.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeAlias

from mirrorgate.errors import Code, Misconfigured

if TYPE_CHECKING:  # the tasks of Spark import this module, and no settings
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, SpanContext, Tracer

    from app.settings import Settings

TraceParent: TypeAlias = str
"""`00-<trace id>-<span id>-01`, see https://www.w3.org/TR/trace-context/."""

Attributes: TypeAlias = Mapping[str, str | int | float | Sequence[str]]

MAX_LINKS: Final = 64
"""Spans that one span names as its causes, besides its parent."""

_STOP_SECONDS: Final = 3.0
_CURRENT: Final[ContextVar[TraceParent | None]] = ContextVar("mirrorgate_trace", default=None)


class Tracing:
    """The traces of one process. Off until `start`."""

    def __init__(self) -> None:
        self.is_on = False
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    def start(self, settings: "Settings", process: str) -> None:
        """Send traces if an endpoint is set. `process` is `api` or `drain`.

        A collector that does not answer loses spans and nothing else. Raises Misconfigured `extra_missing`.
        """
        if settings.traces_endpoint is None or self.is_on:
            return
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
        except ImportError as error:
            raise Misconfigured(
                Code.EXTRA_MISSING,
                "MIRRORGATE_TRACES_ENDPOINT needs packages that are not installed: opentelemetry",
                remedy="Install the extra `mirrorgate-gateway[otel]`.",
            ) from error
        resource = Resource.create({"service.name": f"mirrorgate-{process}", "service.namespace": "mirrorgate"})
        sampler = ParentBased(TraceIdRatioBased(settings.traces_ratio))
        self._provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"{settings.traces_endpoint.rstrip('/')}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("mirrorgate")
        self.is_on = True

    def stop(self) -> None:
        """Send what is left, within about three seconds, and stop."""
        self.is_on = False
        provider, self._provider, self._tracer = self._provider, None, None
        if provider is not None:
            # The SDK's force_flush ignores its timeout (open-telemetry/opentelemetry-python#4568), and its shutdown,
            # which sends what is left too, waits up to 30 s for a collector that does not answer.
            stopping = threading.Thread(target=provider.shutdown, name="traces-stop", daemon=True)
            stopping.start()
            stopping.join(_STOP_SECONDS)

    def begin(
        self,
        name: str,
        *,
        parent: TraceParent | None = None,
        links: Sequence[TraceParent] = (),
        started_ns: int | None = None,
        is_server: bool = False,
        attributes: Attributes | None = None,
    ) -> "Span | None":
        """Begin a span, which its caller must end; None while tracing is off. `started_ns` is a time of `time_ns`."""
        if self._tracer is None:
            return None
        from opentelemetry import trace
        from opentelemetry.context import Context

        above = Context()
        if parent is not None:
            above = trace.set_span_in_context(trace.NonRecordingSpan(_context(parent)), above)
        return self._tracer.start_span(
            name,
            context=above,
            kind=trace.SpanKind.SERVER if is_server else trace.SpanKind.INTERNAL,
            attributes=dict(attributes or {}),
            links=[trace.Link(_context(link)) for link in links[:MAX_LINKS]],
            start_time=started_ns,
            record_exception=False,  # the text of an exception can contain a row value
        )


TRACING: Final = Tracing()
"""The traces of this process."""


@contextmanager
def traced(settings: "Settings", process: str) -> Iterator[None]:
    """Send the traces of a process while the block runs, if the settings say so. Raises Misconfigured."""
    TRACING.start(settings, process)
    try:
        yield
    finally:
        TRACING.stop()


def traceparent_of(span: "Span") -> TraceParent | None:
    """Return the context of a span, None if it is not recorded."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-01" if context.trace_flags.sampled else None


def current_trace() -> TraceParent | None:
    """Return the context of the request that this code runs for, None if it is not recorded."""
    return _CURRENT.get()


def set_current_trace(trace: TraceParent | None) -> None:
    """Let `current_trace` return this in the running task and in the threads that it calls."""
    _CURRENT.set(trace)


def valid_traceparent(header: bytes) -> TraceParent | None:
    """Return a `traceparent` header as text; None if it is not valid, which W3C Trace Context says to ignore."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator as Propagator

    text = header.decode("latin-1")
    carrier = {"traceparent": text}
    from opentelemetry.trace import get_current_span

    return text if get_current_span(Propagator().extract(carrier)).get_span_context().is_valid else None


@contextmanager
def span(
    name: str, *, parent: TraceParent | None, links: Sequence[TraceParent] = (), attributes: Attributes | None = None
) -> Iterator[TraceParent | None]:
    """Record the block as a span, and give its context. Without a parent that is recorded, record nothing."""
    begun = TRACING.begin(name, parent=parent, links=links, attributes=attributes) if parent is not None else None
    if begun is None:
        yield None
        return
    try:
        yield traceparent_of(begun)
    except BaseException as error:
        mark_failed(begun, type(error).__name__)
        raise
    finally:
        begun.end()


def mark_failed(failed: "Span", code: str) -> None:
    """Give a span the status of an error, with its code."""
    from opentelemetry.trace import Status, StatusCode

    failed.set_attribute("error.type", code)
    failed.set_status(Status(StatusCode.ERROR))


def _context(text: TraceParent) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceFlags

    _, trace_id, span_id, flags = text.split("-")[:4]
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
