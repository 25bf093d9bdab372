"""The drain's own work: metrics, pace, background work and worker slots."""

import re
import resource
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from app.domain.loads import LoadId
from app.domain.model.table import TableId
from app.landing.adls.retries import Retries, TransientStorageError
from app.observability.drain_metrics import DRAIN, DrainView, serve_metrics
from app.observability.process_metrics import MetricsAddress
from app.observability.resource_watch import ResourceWatch
from app.staging.connection.database import Connection
from app.staging.loads import begin_load
from mirrorgate.errors import Code, Misconfigured
from mirrorgate.parameters import LoadMode
from spark_jobs import drain_loop
from spark_jobs.background import BackgroundWork, stop_all
from spark_jobs.drain_loop import DrainLoop
from spark_jobs.drain_process import pace_of, renew, view_of
from spark_jobs.scheduling import balance
from spark_jobs.spark.health import SparkPing
from tests.spark.conftest import NewWorker, drain
from tests.support.expositions import check_recorded
from tests.support.gateway_parts import registered, stage_keys
from tests.support.postgres import sql
from tests.support.postgres.retention import WEEK
from tests.support.samples.images import COMPLETE
from tests.support.samples.schemas import ID
from tests.support.waiting import wait_until


def served(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        return str(answer.read().decode())


def values(text: str) -> dict[str, float]:
    lines = re.findall(r"^(mirrorgate_drain_\w+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in lines}


def test_a_drain_serves_what_it_does_on_loopback(
    engine: sa.Engine, spark: SparkSession, new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = new_worker(spark_job_min_bytes=2**20)
    port = serve_metrics(MetricsAddress("127.0.0.1", 0), view_of(worker, SparkPing(spark, stuck_seconds=0)))
    assert port
    drain_loop.try_maintenance(worker, WEEK)
    renew(worker, 60)
    ResourceWatch(low=DRAIN.resource_low).check()
    healthy = served(port)
    good, bad = (registered(engine, name, ID) for name in ("good", "bad"))
    for table in (good, bad):
        stage_keys(engine, table, [1, 2])
    sql.run(engine, "UPDATE mirrorgate.block_payloads SET payload = 'x' WHERE table_id = :id", id=bad.table_id)
    loaded = registered(engine, "loaded", ID, COMPLETE)
    sql.call(engine, begin_load, loaded.name, LoadId(str(uuid4())), LoadMode.FULL, 0.001, "test")
    drain_loop.try_maintenance(worker, WEEK)
    drain(worker)

    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(drain_loop, "run_maintenance", fails)
    drain_loop.try_maintenance(worker, WEEK)
    with pytest.raises(TransientStorageError):
        Retries(0.3, sleep=lambda _: None, chance=lambda: 1.0).run(_throttled)
    with workers_gone(engine):
        renew(worker, 60)
    with few_descriptors():
        ResourceWatch(low=DRAIN.resource_low).check()
    worker.waits_for = Code.LANDING_ZONE_AWAY
    faulty = served(port)
    check_recorded("drain", healthy, {"every": faulty})
    before, after = values(healthy), values(faulty)
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    assert grown["mirrorgate_drain_published_files_total"] == 1
    assert grown["mirrorgate_drain_published_rows_total"] == 2
    assert grown["mirrorgate_drain_publish_seconds_count"] >= 1
    assert grown['mirrorgate_drain_failed_attempts_total{code="payload_corrupt"}'] == 1
    assert grown["mirrorgate_drain_maintenance_failures_total"] == grown["mirrorgate_drain_stale_loads_total"] == 1
    assert grown["mirrorgate_drain_storage_retries_total"] >= 1
    assert grown["mirrorgate_drain_storage_failures_total"] == 1
    assert grown["mirrorgate_drain_lease_failures_total"] == 1
    assert after["mirrorgate_drain_waiting"] == after['mirrorgate_drain_resource_low{check="descriptor_limit"}'] == 1
    assert after["mirrorgate_drain_spark_up"] == 1
    assert before["mirrorgate_drain_last_maintenance_timestamp_seconds"] > 0
    assert after["mirrorgate_drain_last_published_timestamp_seconds"] > 0
    assert (after["mirrorgate_drain_leased_tables"], after["mirrorgate_drain_failing_tables"]) == (1, 0)


@contextmanager
def workers_gone(engine: sa.Engine) -> Iterator[None]:
    sql.run(engine, "ALTER TABLE mirrorgate.workers RENAME TO away")
    try:
        yield
    finally:
        sql.run(engine, "ALTER TABLE mirrorgate.away RENAME TO workers")


@contextmanager
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _throttled(_: bool) -> None:
    raise TransientStorageError("503 ServerBusy", unclear=False, few=True)


def test_a_taken_port_is_a_setting_to_correct_and_none_is_served_unless_it_is_set() -> None:
    assert serve_metrics(MetricsAddress("127.0.0.1", None), DrainView()) is None
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Misconfigured) as rejected:
        serve_metrics(MetricsAddress(*taken.getsockname()), DrainView())
    assert "MIRRORGATE_DRAIN_METRICS_PORT" in rejected.value.detail


def test_other_machines_reach_the_port_on_the_address_that_is_set() -> None:
    port = serve_metrics(MetricsAddress("0.0.0.0", 0), DrainView())
    assert port
    own = next((found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)), "127.0.0.1")
    with urllib.request.urlopen(f"http://{own}:{port}/metrics", timeout=20) as answer:
        assert b"mirrorgate_drain_leased_tables" in answer.read()
    with pytest.raises(Misconfigured) as rejected:
        serve_metrics(MetricsAddress("192.0.2.1", 0), DrainView())
    assert "192.0.2.1" in rejected.value.detail
    assert "MIRRORGATE_METRICS_HOST" in rejected.value.remedy


@pytest.mark.parametrize(
    ("max_delay", "poll", "rest"), [(0.0, 0.05, 0.0), (0.1, 0.05, 0.0125), (1.0, 0.25, 0.125), (30.0, 1.0, 0.5)]
)
def test_a_delay_of_zero_asks_at_each_notification_and_a_longer_one_rests_in_between(
    max_delay: float, poll: float, rest: float
) -> None:
    assert pace_of(max_delay) == (poll, rest)


def test_many_wakes_in_a_row_make_one_query_per_rest(new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, asked, wake = new_worker(), list[float](), AlwaysSet()
    due = worker.due

    def counted() -> list[TableId]:
        asked.append(time.monotonic())
        return due()

    monkeypatch.setattr(worker, "due", counted)
    loop = DrainLoop(worker, worker_slots=1)
    thread = threading.Thread(target=loop.run, args=(wake, 60.0), kwargs={"rest_seconds": 0.05})
    thread.start()
    wait_until(lambda: len(asked) >= 4, within=60, what="the loop asks four times")
    loop.stopping.set()
    thread.join(20)
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert min(pauses) >= 0.05


class AlwaysSet(threading.Event):
    """Notifications without a pause."""

    def wait(self, timeout: float | None = None) -> bool:
        return True


class Step(BackgroundWork):
    """Work whose step ends once something is set."""

    def __init__(self, engine: sa.Engine, until: threading.Event | None = None) -> None:
        super().__init__("step", engine)
        self.until, self.has_begun, self.has_ended = until or self._stopping, threading.Event(), threading.Event()

    def run(self, table_id: TableId) -> bool:
        assert table_id
        self.has_begun.set()
        if self.until.wait(timeout=30):
            self.has_ended.set()
        return True

    def note(self, connection: Connection, table_id: TableId, detail: str) -> None:
        raise AssertionError(connection, table_id, detail)


def test_all_work_is_asked_to_stop_before_the_first_is_waited_for(engine: sa.Engine) -> None:
    second = Step(engine)
    first = Step(engine, until=second.has_ended)
    for work in (first, second):
        work.start(TableId(1))
        assert work.has_begun.wait(timeout=30)
    stop_all((first, second))
    assert first.has_ended.is_set()


WEIGHTS = st.lists(st.integers(min_value=1, max_value=1000), max_size=50)


@given(WEIGHTS, st.integers(min_value=1, max_value=8))
def test_every_item_is_in_exactly_one_bin_and_no_bin_is_empty(weights: list[int], bins: int) -> None:
    filled = balance(weights, lambda weight: weight, bins)
    assert sorted(item for members in filled for item in members) == sorted(weights)
    assert all(filled) and len(filled) <= bins


@given(WEIGHTS.filter(bool), st.integers(min_value=1, max_value=8))
def test_no_bin_is_heavier_than_the_mean_and_one_item(weights: list[int], bins: int) -> None:
    heaviest = max(sum(members) for members in balance(weights, lambda weight: weight, bins))
    assert heaviest <= sum(weights) / bins + max(weights)
