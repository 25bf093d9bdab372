"""What a real API exposes, healthy and with each fault that an alert is about, is what the recordings have."""

import resource
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Final

import pytest
import sqlalchemy as sa

from app.api.limits import Allowance, MemoryBudget
from app.domain.fabric import DatabaseStatus, TableMirroring, parse_state
from app.domain.model.table import Table
from app.domain.publication import Failure
from app.ingest import backlog
from app.observability.api_metrics import RESOURCE_LOW
from app.observability.resource_watch import ResourceWatch
from app.staging.ledger.leases import give_up_lease, renew_lease
from app.staging.ledger.reports import claim_poll, clear_failures, record_fabric_status, record_failure, store_answer
from app.staging.mirror import store_reports
from app.staging.tables.registry import quarantine_table
from mirrorgate.errors import Code
from tests.api.calls import Gateway, insert, own_gateway
from tests.support.expositions import check_recorded, help_of, series_of
from tests.support.gateway_parts import current
from tests.support.mirror_reports import STOPPED, report_of
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, claim_by, publish_all
from tests.support.waiting import wait_until

TABLE: Final = "sales.orders"
OPTIONS: Final = {"dead_letters": "accept", "seed_file": False, "row_images": "on"}
MAX_ROWS: Final = 10
NO_DATABASE: Final = "postgresql://unused@127.0.0.1:1/none"


def serving(database_url: str) -> AbstractContextManager[Gateway]:
    return own_gateway(database_url, max_backlog_rows=MAX_ROWS, database_seconds=2.0)


@pytest.fixture
def gateway(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setattr(backlog, "READ_SECONDS", 0.02)
    with serving(database_url) as client:
        yield client


class Scene:
    """A gateway with one mirrored table and one live drain, to which faults are done and undone."""

    def __init__(self, gateway: Gateway, engine: sa.Engine) -> None:
        self.gateway = gateway
        self.engine = engine
        columns = [{"name": "id", "type": "int64", "nullable": False}]
        wanted = {"key_columns": ["id"], "columns": columns, "options": OPTIONS}
        gateway.put(f"/v1/tables/{TABLE}", json=wanted).raise_for_status()
        self.owned = Owned(self.table, *claim_by(engine, self.table.table_id))
        self.beat()
        self.end_a_load()
        gateway.post(f"/v1/tables/{TABLE}/loads", json={"mode": "full"}).raise_for_status()
        self.post("1")
        self.publish()
        self.report()
        self.hear()
        ResourceWatch(low=RESOURCE_LOW).check()
        self.wait_for('mirrorgate_backlog_limit_ratio{table="sales.orders"}', 0)
        self.healthy = self.metrics()

    @property
    def table(self) -> Table:
        return current(self.engine, TABLE)

    def post(self, *keys: str, **parameters: str) -> int:
        now = int(time.time() * 1_000)
        cursor = {"timestamp": now - 900, "extractionTimestamp": now - 400}
        return self.gateway.arcion(
            *(insert(TABLE, id=key) | {"cursor": cursor} for key in keys), **parameters
        ).status_code

    def end_a_load(self) -> None:
        load = self.gateway.post(f"/v1/tables/{TABLE}/loads", json={"mode": "append"}).json()["load"]
        self.gateway.post(f"/v1/tables/{TABLE}/loads/{load}/complete").raise_for_status()

    def publish(self) -> None:
        publish_all(self.engine, self.owned)

    def beat(self, *, clock: float | None = None, waits_for: str | None = None) -> None:
        sql.call(self.engine, renew_lease, self.owned.worker, 3_600, clock=clock or time.time(), waits_for=waits_for)

    def report(self, **fields: Any) -> None:
        store_reports(self.engine, [report_of(self.engine, self.table, **fields)])

    def hear(self, database: str = "Running", table: str = "Replicating") -> None:
        """Store what a drain hears from Fabric's API."""
        said = TableMirroring("sales", "orders", table, processed_rows=1, last_sync=datetime.now(UTC))
        with self.engine.begin() as connection:
            claim_poll(connection, 60.0)
            store_answer(connection, DatabaseStatus(parse_state(database), database), has_tables=True)
            record_fabric_status(connection, {(self.table.table_id, self.table.generation): said})

    def metrics(self) -> str:
        return self.gateway.get("/metrics").raise_for_status().text

    def wait_for(self, series: str, value: float) -> str:
        def found() -> str | None:
            text = self.metrics()
            return text if f"{series} {value}" in text else None

        return wait_until(found, within=60, what=f"{series} is {value}")


def faults_of_tables(scene: Scene) -> Iterator[tuple[str, str]]:
    engine = scene.engine
    sql.call(engine, quarantine_table, scene.table.table_id, "foreign_file: 00000000000000000002.parquet")
    yield "quarantined", scene.metrics()
    sql.run(engine, "UPDATE mirrorgate.tables SET state = 'active', state_reason = NULL")

    for _ in range(3):
        sql.call(engine, record_failure, scene.table, Failure(Code.STORAGE_FAILED, "ENOSPC", "Free space."))
    yield "failing", scene.metrics()
    sql.call(engine, clear_failures, [scene.table.table_id])

    assert scene.post("x", on_reject="dead_letter") == 202
    yield "dead_letters", scene.metrics()
    sql.run(engine, "DELETE FROM mirrorgate.dead_letters")

    sql.run(engine, "UPDATE mirrorgate.table_counters SET missing_changes = 7")
    yield "changes_missing", scene.metrics()
    sql.run(engine, "UPDATE mirrorgate.table_counters SET missing_changes = 0")

    sql.run(engine, "UPDATE mirrorgate.table_counters SET source_lag_seconds = source_lag_seconds + 7200")
    yield "source_lag", scene.metrics()
    sql.run(engine, "UPDATE mirrorgate.table_counters SET source_lag_seconds = source_lag_seconds - 7200")

    sql.run(engine, "UPDATE mirrorgate.loads SET expires_at = expires_at - interval '2 hours'")
    yield "load_idle", scene.metrics()
    sql.run(engine, "UPDATE mirrorgate.loads SET expires_at = expires_at + interval '2 hours'")

    scene.post("2")
    sql.run(engine, "UPDATE mirrorgate.staged_blocks SET staged_at = staged_at - interval '20 minutes'")
    yield "lag", scene.wait_for('mirrorgate_backlog_limit_ratio{table="sales.orders"}', 0.1)
    sql.run(engine, "UPDATE mirrorgate.staged_blocks SET staged_at = staged_at + interval '80 minutes'")
    yield "future", scene.metrics()
    sql.run(engine, "UPDATE mirrorgate.staged_blocks SET staged_at = staged_at - interval '60 minutes'")

    scene.post(*map(str, range(3, MAX_ROWS + 1)))
    yield "backlog_nearly_full", scene.wait_for('mirrorgate_backlog_limit_ratio{table="sales.orders"}', 0.9)
    scene.post("0")
    yield "backlog_full", scene.wait_for('mirrorgate_backlog_limit_ratio{table="sales.orders"}', 1.0)

    scene.publish()
    scene.wait_for('mirrorgate_backlog_limit_ratio{table="sales.orders"}', 0)
    sql.run(engine, "UPDATE mirrorgate.landing_files SET published_at = published_at - interval '20 minutes'")
    yield "mirror_behind", scene.metrics()
    scene.report(**STOPPED)
    yield "mirror_stopped", scene.metrics()
    files = sql.value(engine, "SELECT max(number) FROM mirrorgate.landing_files WHERE state = 'published'")
    scene.report(version=files - 1, file_number=files, last_file=files)


def faults_of_drains(scene: Scene) -> Iterator[tuple[str, str]]:
    scene.beat(waits_for="landing_zone_away")
    yield "drain_waiting", scene.metrics()
    scene.beat(clock=time.time() - 60)
    yield "clock", scene.metrics()
    sql.call(scene.engine, give_up_lease, scene.owned.worker)
    yield "no_drain", scene.metrics()
    scene.beat()


def faults_of_fabric(scene: Scene) -> Iterator[tuple[str, str]]:
    for state in ("Paused", "Failed", "Stopped"):
        scene.hear(state)
        yield f"fabric_{state.lower()}", scene.metrics()
    scene.hear(table="Failed")
    yield "fabric_table", scene.metrics()
    scene.hear()
    sql.run(scene.engine, "UPDATE mirrorgate.fabric_database SET answered_at = answered_at - interval '20 minutes'")
    yield "fabric_stale", scene.metrics()
    scene.hear()


def faults_of_processes(scene: Scene) -> Iterator[tuple[str, str]]:
    with sql.locked(scene.engine, "LOCK TABLE mirrorgate.staged_blocks IN SHARE ROW EXCLUSIVE MODE"):
        assert scene.post("99") == 503
        yield "not_writing", scene.wait_for("mirrorgate_writer_failing", 1)
    assert scene.post("99") == 202
    scene.wait_for("mirrorgate_writer_failing", 0)

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_000, hard))
    try:
        ResourceWatch(low=RESOURCE_LOW).check()
        yield "resource_low", scene.metrics()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        ResourceWatch(low=RESOURCE_LOW).check()

    with serving(NO_DATABASE) as lonely:
        yield "no_database", lonely.get("/metrics").raise_for_status().text

    budget = MemoryBudget(Allowance(2, 100), 1, 100)
    budget.change("a", 0, 0, 95, 0)
    yield "memory", scene.metrics()
    budget.change("a", 0, 0, -95, 0)


@pytest.mark.slow
def test_the_api_exposes_what_is_recorded_healthy_and_with_each_fault(gateway: Gateway, engine: sa.Engine) -> None:
    scene = Scene(gateway, engine)
    faults = dict([*faults_of_tables(scene)])
    faults |= dict([*faults_of_drains(scene), *faults_of_fabric(scene), *faults_of_processes(scene)])
    check_recorded("api", scene.healthy, faults)
    assert all(" " in text and not text.endswith(".") for text in help_of(scene.healthy).values())
    assert not [name for name, _ in series_of(scene.healthy) if name.endswith("_created")]
