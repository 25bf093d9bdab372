"""A table whose publication keeps failing reports the reason and the remedy until it succeeds."""

import errno
from pathlib import Path

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.api.schemas.status import table_statuses
from app.domain.model.table import TableState
from spark_jobs.drain_cycle import DrainCycle
from tests.spark.conftest import NewWorker, drain
from tests.support.gateway_parts import current, landed_keys, registered, stage_keys
from tests.support.postgres import sql
from tests.support.postgres.ledger import end_lease
from tests.support.samples.schemas import ID


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
        with engine.begin() as connection:
            assert table_statuses(connection, [table], {})[0].failing is None
        tried(worker, engine, times=1)
    with engine.begin() as connection:
        status = table_statuses(connection, [current(engine, "t")], {})[0]
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
