"""Errors of one table: they stop that table, and say so, and never the drain."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.api.schemas.status import table_statuses
from app.domain.model.table import TableState
from app.staging.ledger.leases import renew_lease
from spark_jobs import drain_cycle
from spark_jobs.build_files import FileBuilder
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.drain_loop import DrainLoop
from spark_jobs.drain_process import keep_lease
from tests.spark.conftest import NewWorker, drain
from tests.support.gateway_parts import current, landed_keys, registered, stage_keys
from tests.support.postgres import sql
from tests.support.postgres.ledger import end_lease
from tests.support.samples.schemas import ID
from tests.support.small_drain import draining
from tests.support.waiting import wait_until


@contextmanager
def rejected(engine: sa.Engine, table: str, column: str, value: int) -> Iterator[None]:
    """Let Postgres reject rows of one table for an unforeseen reason until the block ends."""
    sql.run(engine, f"ALTER TABLE mirrorgate.{table} ADD CONSTRAINT unforeseen CHECK ({column} <> {value}) NOT VALID")
    yield
    sql.run(engine, f"ALTER TABLE mirrorgate.{table} DROP CONSTRAINT unforeseen")


def test_an_unforeseen_error_of_one_table_stops_that_table_and_never_the_drain(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    a, b = registered(engine, "a", ID), registered(engine, "b", ID)
    worker = new_worker(spark_job_min_bytes=2**20)
    for key in (1, 2):  # first each alone, then together under the epochs that it holds
        stage_keys(engine, a, [key])
        stage_keys(engine, b, [key])
        with rejected(engine, "landing_files", "table_id", a.table_id), capture_logs() as logs:
            drain(worker)
        assert landed_keys(landing_zone, "b")[-1] == [key]
        failed = [line for line in logs if line["event"] == "table_publication_failed"]
        assert {(line["table"], line["generation"], line["code"]) for line in failed} == {("a", 1, "internal")}
        assert "IntegrityError" in failed[0]["detail"]
        drain(worker)
    assert landed_keys(landing_zone, "a") == landed_keys(landing_zone, "b")


def test_a_table_that_cannot_be_claimed_is_named_in_the_log_and_keeps_no_other_back(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.drain_loop._MAX_BUSY", 1)
    a, b = registered(engine, "a", ID), registered(engine, "b", ID)
    stage_keys(engine, a, [1])
    stage_keys(engine, b, [1])
    with rejected(engine, "table_leases", "table_id", a.table_id), capture_logs() as logs:
        drain(new_worker(spark_job_min_bytes=2**20))
    assert landed_keys(landing_zone, "b") == [[1]]
    failed = [line for line in logs if line["event"] == "table_publication_failed"]
    assert {(line["table"], line["generation"]) for line in failed} == {("a", 1)}


def test_a_single_run_ends_though_a_table_that_fails_is_due_again_at_once(
    engine: sa.Engine, new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.scheduling.MIN_BACKOFF", 0.0)
    table = registered(engine, "a", ID)
    stage_keys(engine, table, [1])
    with rejected(engine, "table_leases", "table_id", table.table_id), capture_logs() as logs:
        assert DrainLoop(new_worker(), worker_slots=1).drain_pending() == {table.table_id}
    assert [line["event"] for line in logs].count("table_publication_failed") == 2


def test_a_table_that_another_drain_claims_first_has_not_failed(
    worker: DrainCycle, engine: sa.Engine, new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = new_worker()
    monkeypatch.setattr(late, "due", lambda: [current(engine, "t").table_id])
    assert DrainLoop(late, worker_slots=1).drain_pending() == set()


def test_a_table_whose_build_ends_the_job_keeps_no_other_back(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a Python worker is killed for its memory: Spark fails the job as a whole."""
    tables = [registered(engine, name, ID) for name in ("a", "b", "c")]
    for table in tables:
        stage_keys(engine, table, [1])
    worker, build = new_worker(spark_job_min_bytes=2**20), FileBuilder.build

    def fails_with_b(self: FileBuilder, orders: list[Any]) -> Any:
        if any(order.planned.table_id == tables[1].table_id for order in orders):
            self.spark.sparkContext.parallelize([1], 1).foreach(os._exit)
        return build(self, orders)

    monkeypatch.setattr(FileBuilder, "build", fails_with_b)
    with capture_logs() as logs:
        assert DrainLoop(worker, worker_slots=1).drain_pending() == {tables[1].table_id}
    failed = [line for line in logs if line["event"] == "table_publication_failed"]
    assert [(line["table"], line["code"]) for line in failed] == [("b", "spark_failed")]
    assert failed[0]["remedy"].startswith("Read `spark_log`")
    monkeypatch.setattr(FileBuilder, "build", build)
    drain(worker)
    assert [landed_keys(landing_zone, name) for name in ("a", "b", "c")] == [[[1]]] * 3


def test_a_read_only_database_makes_the_drain_wait_and_it_recovers(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    stage_keys(engine, registered(engine, "a", ID), [1])
    worker = new_worker(spark_job_min_bytes=2**20)
    worker.context.engine.dispose()
    with capture_logs() as logs, draining(worker, poll_seconds=0.02):
        with sql.read_only(engine):
            wait_until(lambda: logs, within=60, what="the drain says what it waits for")
        sql.end_sessions(engine, "mirrorgate drain")  # what is read-only stays so until the next connection
        wait_until(lambda: landed_keys(landing_zone, "a") == [[1]], within=60, what="the batch is published")
    assert current(engine, "a").state.publishes


def test_the_lease_is_renewed_on_after_any_exception(new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, calls = new_worker(), 0

    def fails_twice(*given: Any, **named: Any) -> None:
        nonlocal calls
        calls += 1
        if calls in (2, 3):
            raise ZeroDivisionError
        renew_lease(*given, **named)

    monkeypatch.setattr(drain_cycle, "renew_lease", fails_twice)
    with keep_lease(worker, 0.6):
        wait_until(lambda: calls > 4, within=60, what="the lease is renewed again")


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "/zone/t/00000000000000000001.parquet")


def tried(worker: DrainCycle, engine: sa.Engine, *, times: int) -> None:
    """Try so many times to publish; each try fails."""
    for _ in range(times):
        claimed = worker.prepare(current(engine, "t").table_id)
        assert claimed is not None
        assert not worker.build_and_publish([claimed])


def test_a_table_is_failing_after_three_failed_tries_until_the_next_success(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = registered(engine, "t", ID)
    stage_keys(engine, table, [1])
    worker = new_worker(spark_job_min_bytes=2**20)
    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr("spark_jobs.steps.publishing.make_visible", no_space)
        tried(worker, engine, times=2)
        assert sql.call(engine, table_statuses, [table], {})[0].failing is None
        tried(worker, engine, times=1)
    status = sql.call(engine, table_statuses, [current(engine, "t")], {})[0]
    assert status.state == TableState.ACTIVE
    assert status.failing is not None
    assert (status.failing.code, status.failing.tries) == ("storage_failed", 3)
    assert "ENOSPC" in status.failing.detail
    assert status.failing.remedy.startswith("Free space or inodes")
    assert status.failing.since <= status.failing.last_at
    (line,) = [line for line in logs if line["event"] == "table_failing"]
    assert (line["table"], line["generation"], line["tries"]) == ("t", 1, 3)
    end_lease(engine, worker.context.worker_id)
    drain(new_worker(spark_job_min_bytes=2**20))
    assert landed_keys(landing_zone, "t") == [[1]]
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.table_failures") == 0


def test_a_quarantined_table_is_not_failing_besides(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    table = registered(engine, "t", ID)
    stage_keys(engine, table, [1])
    worker = new_worker(spark_job_min_bytes=2**20)
    sql.run(
        engine,
        "INSERT INTO mirrorgate.table_failures (table_id, generation, code, detail, remedy, tries)"
        " VALUES (:id, 1, 'storage_failed', 'x', 'y', 7)",
        id=table.table_id,
    )
    (landing_zone / "t").mkdir(parents=True)
    (landing_zone / "t" / "00000000000000000001.parquet").write_bytes(b"foreign")
    drain(worker)
    assert current(engine, "t").state is TableState.QUARANTINED
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.table_failures") == 0
