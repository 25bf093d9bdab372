"""Retention in the drain: it purges only published data, and a restore of purged data does no harm."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.landing.local_zone import LocalZone
from app.staging.retention import rounds as retention
from spark_jobs import drain_loop
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.drain_loop import maintenance_running, run_maintenance, try_maintenance
from tests.spark.conftest import NewWorker, drain
from tests.support.gateway_parts import current, dropping, landed_keys, stage_keys
from tests.support.postgres import sql
from tests.support.postgres.ledger import end_lease
from tests.support.postgres.retention import AT_ONCE, count
from tests.support.waiting import wait_until


def now() -> datetime:
    return datetime.now(UTC)


def test_publishing_goes_on_over_rounds_of_retention(engine: sa.Engine, landing_zone: Path, worker: DrainCycle) -> None:
    for key in (3, 4, 5):
        stage_keys(engine, current(engine, "t"), [key])
        run_maintenance(worker, AT_ONCE, sweep=now())
        drain(worker)
    run_maintenance(worker, AT_ONCE, sweep=now())
    assert landed_keys(landing_zone, "t") == [[1, 2], [3], [4], [5]]
    assert count(engine, "block_payloads") == 0


def test_a_round_sweeps_the_scratch_of_held_tables_and_forgets_old_markers(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle, new_worker: NewWorker
) -> None:
    end_lease(engine, worker.context.worker_id)
    owner = new_worker()
    stage_keys(engine, current(engine, "t"), [3])
    drain(owner)
    scratch = landing_zone / "_scratchPad" / "1"
    lost = scratch / "2" / f"{1:020d}-{'0' * 32}.parquet"
    lost.touch()
    assert scratch.joinpath("1").is_file()
    run_maintenance(owner, AT_ONCE, sweep=now() + timedelta(days=29))
    assert not lost.exists()
    assert scratch.joinpath("1").is_file()
    run_maintenance(owner, AT_ONCE, sweep=now() + timedelta(days=31))
    assert LocalZone(landing_zone).names("_scratchPad/1") == ["2"]
    end_lease(engine, owner.context.worker_id)
    third = new_worker()
    stage_keys(engine, current(engine, "t"), [4])
    drain(third)
    assert LocalZone(landing_zone).names("_scratchPad/1") == ["2", "3"]
    assert landed_keys(landing_zone, "t") == [[1, 2], [3], [4]]


def test_a_restored_database_begins_beyond_every_epoch_of_the_scratch(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle, new_worker: NewWorker
) -> None:
    for used in ("3", "8"):
        (landing_zone / "_scratchPad" / "1" / used).touch()
    end_lease(engine, worker.context.worker_id)
    stage_keys(engine, current(engine, "t"), [3])
    drain(new_worker())
    assert landed_keys(landing_zone, "t") == [[1, 2], [3]]
    assert sql.value(engine, "SELECT epoch FROM mirrorgate.table_leases") == 9


def test_a_failing_round_is_survived_and_the_next_one_comes(
    engine: sa.Engine, worker: DrainCycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = []

    def fail(*_: object, **__: object) -> None:
        rounds.append(1)
        raise OSError("storage")

    monkeypatch.setattr(drain_loop, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(drain_loop, "run_retention", fail)
    try_maintenance(worker, AT_ONCE)
    with maintenance_running(worker, AT_ONCE):
        wait_until(lambda: len(rounds) > 2, within=30, what="more rounds")
    assert retention.run_retention(engine, AT_ONCE) is not None


def test_the_scratch_of_a_dropped_table_is_swept_by_any_drain(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle
) -> None:
    dropping(engine, "t")
    drain(worker)
    scratch = landing_zone / "_scratchPad"
    assert [name for name in scratch.iterdir() if name.name.isdigit()]
    run_maintenance(worker, AT_ONCE, sweep=now())
    assert [name for name in scratch.iterdir() if name.name.isdigit()]
    run_maintenance(worker, AT_ONCE, sweep=now() + timedelta(days=31))
    assert not [name for name in scratch.iterdir() if name.name.isdigit()]
