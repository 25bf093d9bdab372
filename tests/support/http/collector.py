"""An OpenTelemetry collector: takes spans as OTLP over HTTP, in protobuf."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.http.stand_in import StandIn, serving


@dataclass
class Collector:
    """What a collector has received."""

    address: str = ""
    spans: list[Span] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    answering: threading.Event = field(default_factory=threading.Event)
    """While a test clears it, requests get no answer."""

    def __post_init__(self) -> None:
        self.answering.set()

    def take(self, body: bytes) -> None:
        """Store the spans of one request."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = [pair.value.string_value for pair in resource.resource.attributes if pair.key == "service.name"]
            self.services.update(names)
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)

    def named(self, name: str) -> list[Span]:
        """Return the spans with this name."""
        return [span for span in self.spans if span.name == name]


def attributes_of(span: Span) -> dict[str, object]:
    """Return the attributes of a span; a list of texts as a tuple."""
    found: dict[str, object] = {}
    for pair in span.attributes:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind or "string_value")
        found[pair.key] = tuple(item.string_value for item in value.values) if kind == "array_value" else value
    return found


@contextmanager
def collector() -> Iterator[Collector]:
    """Run a collector on a free loopback port."""
    found = Collector()

    class Handler(StandIn):
        def respond(self) -> None:
            body = self.body()
            assert self.path == "/v1/traces"
            found.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            found.answering.wait()
            self.answer(200, b"")

    with serving(Handler) as found.address:
        try:
            yield found
        finally:
            found.answering.set()
