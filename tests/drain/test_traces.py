"""A trace goes from a request over its transaction to the publication of its file."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.observability.tracing import TRACING, span, valid_traceparent
from app.settings import Settings
from app.staging.batches.staged_blocks import PURGE_TRACES
from app.staging.retention.rounds import purge
from tests.api.calls import Gateway, insert, own_gateway
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current
from tests.support.http.collector import Collector, attributes_of, collector
from tests.support.postgres import sql
from tests.support.small_drain import publish_pending

TABLE = "sales.orders"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = CALLER[:-1] + "0"


@pytest.fixture
def received() -> Iterator[Collector]:
    with collector() as found:
        yield found


@pytest.fixture
def gateway(database_url: str, received: Collector) -> Iterator[Gateway]:
    with own_gateway(database_url, traces_endpoint=received.address) as client:
        client.register(TABLE, {"id": "int64", "note": "string"}, ["id"], seed_file=False).raise_for_status()
        yield client
    assert not TRACING.is_on


def post(gateway: Gateway, key: int, **headers: str) -> None:
    message = insert(TABLE, id=str(key), note="a secret")
    gateway.post("/v1/changes/arcion", json=message, headers=headers).raise_for_status()


def test_one_trace_joins_the_callers_span_request_transaction_and_file(
    gateway: Gateway, received: Collector, new_drain: NewDrain
) -> None:
    post(gateway, 1, traceparent=CALLER)
    publish_pending(new_drain())
    TRACING.stop()
    (request,), (stage,) = received.named("POST /v1/changes/arcion"), received.named("stage")
    (publish,), (build,), (visible,) = (received.named(name) for name in ("publish file", "build", "make visible"))
    chain = [request, stage, publish, build]
    assert {one.trace_id.hex() for one in [*chain, visible]} == {CALLER.split("-")[1]}
    assert request.parent_span_id.hex() == CALLER.split("-")[2]
    for above, below in pairwise(chain):
        assert below.parent_span_id == above.span_id
    assert publish.start_time_unix_nano <= build.end_time_unix_nano <= publish.end_time_unix_nano
    assert attributes_of(request)["mirrorgate.changes"] == 1
    assert attributes_of(request)["http.response.status_code"] == 202
    assert attributes_of(publish)["mirrorgate.file_number"] == 1
    assert "a secret" not in str(received.spans)


def test_a_file_with_the_rows_of_several_requests_names_all_their_transactions(
    gateway: Gateway, received: Collector, new_drain: NewDrain
) -> None:
    for key in range(3):
        post(gateway, key)
    publish_pending(new_drain())
    TRACING.stop()
    stages, (publish,) = received.named("stage"), received.named("publish file")
    named = {publish.parent_span_id, *(link.span_id for link in publish.links)}
    assert named == {one.span_id for one in stages}
    assert len(stages) == 3


def test_a_failure_is_recorded_before_postgres_is_asked_for_traces(
    gateway: Gateway, engine: sa.Engine, new_drain: NewDrain
) -> None:
    post(gateway, 1)
    drain = new_drain()
    claimed = drain.prepare(current(engine, TABLE).table_id)
    assert claimed is not None
    sql.run(engine, "UPDATE mirrorgate.table_leases SET epoch = epoch + 1")
    with capture_logs() as logs, sql.locked(engine, "LOCK TABLE mirrorgate.block_traces"):
        assert drain.build_and_publish([claimed]) == set()
    events = [entry["event"] for entry in logs]
    assert [event for event in events if event in ("table_publication_failed", "traces_not_sent")] == [
        "table_publication_failed",
        "traces_not_sent",
    ]


def test_a_caller_that_records_nothing_makes_no_span(
    gateway: Gateway, received: Collector, new_drain: NewDrain
) -> None:
    post(gateway, 1, traceparent=UNSAMPLED)
    publish_pending(new_drain())
    TRACING.stop()
    assert not received.named("POST /v1/changes/arcion")
    assert not received.named("publish file")


def test_a_rejection_is_in_its_span_with_code_and_without_text(gateway: Gateway, received: Collector) -> None:
    answer = gateway.post("/v1/changes/arcion", json=insert(TABLE, id="nine", note=""))
    assert answer.status_code == 422
    gateway.get("/healthz").raise_for_status()  # the span of a request ends right after its answer
    TRACING.stop()
    (request,) = received.named("POST /v1/changes/arcion")
    assert attributes_of(request)["mirrorgate.code"] == answer.json()["code"]
    assert attributes_of(request)["mirrorgate.tables"] == (TABLE,)
    assert "nine" not in str(request)


def test_traces_that_no_drain_continued_are_deleted_after_a_day(gateway: Gateway, engine: sa.Engine) -> None:
    post(gateway, 1)
    with engine.begin() as connection:
        assert purge(connection, PURGE_TRACES, older_than_seconds=86_400, limit=10) == 0
        connection.execute(sa.text("UPDATE mirrorgate.block_traces SET staged_at = now() - interval '25 hours'"))
        assert purge(connection, PURGE_TRACES, older_than_seconds=86_400, limit=10) == 1


@pytest.mark.parametrize(
    "header", [b"", b"00-0-0-01", b"ff-" + CALLER[3:].encode(), b"\xff" * 55, CALLER[:50].encode()]
)
def test_an_invalid_traceparent_begins_a_trace(header: bytes) -> None:
    assert valid_traceparent(header) is None
    assert valid_traceparent(CALLER.encode()) == CALLER


@pytest.mark.timeout(60)
def test_a_collector_that_does_not_answer_does_not_keep_a_process_from_stopping(
    received: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "600")
    received.answering.clear()
    TRACING.start(Settings(traces_endpoint=received.address), "drain")
    begun = TRACING.begin("publish file")
    assert begun is not None
    begun.end()
    TRACING.stop()
    assert not TRACING.is_on
    assert not received.answering.is_set()


def test_without_an_endpoint_no_sdk_is_imported() -> None:
    program = (
        "import sys, app.api.application, app.observability.tracing as t\n"
        "with t.span('stage', parent=None): pass\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry.sdk')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_span_without_a_recorded_parent_is_no_span() -> None:
    with span("stage", parent=None) as trace:
        assert trace is None
