"""Fabric's progress appears in a table's status; a drop waits until Fabric has released the table."""

import json
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.api.schemas.status import table_statuses
from app.domain.model.table import DropAction, Table, TableState
from app.landing.open_zone import ZoneAddress
from app.settings import Settings
from mirrorgate_zone.emulator import OneLake, Trust
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.fabric_status import FabricWatcher, fabric_watcher, store_listed_tables
from tests.spark.conftest import NewWorker, drain
from tests.support.fabric.endpoint import Fabric
from tests.support.fabric.fixtures import OpenClient
from tests.support.gateway_parts import current, dropping, landed_keys, registered, stage_keys
from tests.support.onelake.clients import onelake_address
from tests.support.onelake.mirror import Mirror
from tests.support.postgres import sql
from tests.support.postgres.ledger import end_lease
from tests.support.samples.schemas import ID


def processed(engine: sa.Engine, table: Table) -> dict[str, object] | None:
    (status,) = sql.call(engine, table_statuses, [table], {})
    return status.processed.model_dump() if status.processed else None


def say(landing_zone: Path, content: object) -> None:
    """Write what Fabric would beside a landing folder."""
    file = landing_zone.parent / "Monitoring" / "tables.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def listed(*names: str) -> dict[str, object]:
    return {"tables": [{"sourceSchemaName": "", "sourceTableName": name, "status": "Replicating"} for name in names]}


def test_accepted_staged_published_and_processed_are_equal_once_mirroring_has_taken_all(
    engine: sa.Engine, new_worker: NewWorker, onelake: OneLake, trust: Trust
) -> None:
    mirror, zone = Mirror(onelake, eager=False), onelake_address(onelake, trust)
    table, other = registered(engine, "s.orders", ID), registered(engine, "empty", ID)
    worker = new_worker(rows=2, zone=zone)
    stage_keys(engine, table, [1, 2], [3, 4], [5])
    drain(worker)
    assert not store_listed_tables(engine, zone, 60.0)
    assert processed(engine, table) is None
    mirror.consume(most=2)
    assert store_listed_tables(engine, zone, 0.0)
    assert (processed(engine, table) or {})["rows"] == 4
    mirror.consume()
    assert not store_listed_tables(engine, zone, 60.0)
    assert store_listed_tables(engine, zone, 0.0)
    status, nothing = sql.call(engine, table_statuses, [table, other], {})
    assert status.processed is not None
    assert (status.processed.state, status.processed.error) == ("Replicating", None)
    assert {status.accepted.rows, status.staged.rows, status.published.rows, status.processed.rows} == {5}
    assert nothing.processed is None
    mirror.check()


@pytest.mark.parametrize("content", ["", "{", '{"tables": 7}', "[" * 100_000])
def test_what_cannot_be_understood_is_logged_and_leaves_the_earlier_view(
    engine: sa.Engine, landing_zone: Path, content: str
) -> None:
    table, zone = registered(engine, "t", ID), ZoneAddress(str(landing_zone))
    say(landing_zone, {"tables": [{"sourceTableName": "t", "processedRowCount": 7}]})
    assert store_listed_tables(engine, zone, 0.0)
    say(landing_zone, content)
    with capture_logs() as logs:
        assert not store_listed_tables(engine, zone, 0.0)
    assert [entry["event"] for entry in logs] == ["fabric_status_read_failed"]
    assert (processed(engine, table) or {})["rows"] == 7


@pytest.fixture
def published(engine: sa.Engine, new_worker: NewWorker) -> DrainCycle:
    """Give the owner of table `t`, which has one file."""
    worker = new_worker()
    stage_keys(engine, registered(engine, "t", ID), [1])
    drain(worker)
    return worker


def test_a_recreated_table_waits_until_fabric_no_longer_lists_it_and_says_so(
    engine: sa.Engine, landing_zone: Path, published: DrainCycle
) -> None:
    say(landing_zone, listed("other", "T"))
    dropping(engine, "t", DropAction.RECREATE)
    table_id = current(engine, "t").table_id
    assert published.prepare(table_id) is None
    assert not (landing_zone / "t").exists()
    assert current(engine, "t").state is TableState.DROPPING
    reason = sql.value(engine, "SELECT state_reason FROM mirrorgate.tables")
    assert reason == "waiting until Fabric no longer lists the table, at most 600 s; 0 s so far"
    epoch = published.leased.epoch(table_id)
    say(landing_zone, listed("other"))
    assert published.prepare(table_id) is None
    assert published.leased.epoch(table_id) == epoch
    assert (current(engine, "t").state, current(engine, "t").generation) == (TableState.ACTIVE, 2)
    stage_keys(engine, current(engine, "t"), [7])
    drain(published)
    assert landed_keys(landing_zone, "t") == [[7]]


def test_the_wait_is_bounded_across_owners(
    engine: sa.Engine, landing_zone: Path, published: DrainCycle, new_worker: NewWorker
) -> None:
    say(landing_zone, listed("t"))
    dropping(engine, "t", DropAction.RECREATE)
    assert published.prepare(current(engine, "t").table_id) is None
    sql.run(engine, "UPDATE mirrorgate.tables SET folder_gone_at = folder_gone_at - interval '599 seconds'")
    end_lease(engine, published.context.worker_id)
    other = new_worker(drop_wait_seconds=599.0)
    with capture_logs() as logs:
        assert other.prepare(current(engine, "t").table_id) is None
    assert [entry["seconds"] for entry in logs if entry["event"] == "fabric_wait_timed_out"] == [599]
    assert current(engine, "t").generation == 2
    assert sql.value(engine, "SELECT folder_gone_at IS NULL FROM mirrorgate.tables")


def test_a_drop_does_not_wait_for_a_view_that_cannot_be_understood(
    engine: sa.Engine, landing_zone: Path, published: DrainCycle
) -> None:
    say(landing_zone, "{")
    dropping(engine, "t", DropAction.RECREATE)
    drain(published)
    assert current(engine, "t").generation == 2


def test_mirroring_starts_once_a_table_has_a_file_and_is_never_started_again(
    engine: sa.Engine, new_worker: NewWorker, fabric: Fabric, open_client: OpenClient
) -> None:
    database = fabric.service.add("orders", "Initialized")
    table, worker = registered(engine, "s.orders", ID), new_worker()
    with closing(FabricWatcher(engine, open_client, 0.0, starts=True)) as watcher:
        assert watcher.poll()
        assert database.started == 0
        stage_keys(engine, table, [1])
        drain(worker)
        with closing(FabricWatcher(engine, open_client, 0.0)) as other:
            assert other.poll()
        assert database.started == 0
        for _ in range(3):
            assert watcher.poll()
        assert (database.started, database.status) == (1, "Running")
        for state in ("Stopped", "Paused", "Failed"):
            database.status = state
            assert watcher.poll()
        assert database.started == 1


def test_a_start_without_the_right_is_told_and_tried_again(
    engine: sa.Engine, new_worker: NewWorker, fabric: Fabric, open_client: OpenClient
) -> None:
    database = fabric.service.add("orders", "Initialized")
    table, worker = registered(engine, "s.orders", ID), new_worker()
    stage_keys(engine, table, [1])
    drain(worker)
    fabric.service.role = "Viewer"
    with closing(FabricWatcher(engine, open_client, 0.0, starts=True)) as watcher:
        assert not watcher.poll()
        assert sql.value(engine, "SELECT problem_code FROM mirrorgate.fabric_database") == "fabric_forbidden"
        fabric.service.role = "Contributor"
        assert watcher.poll()
    assert database.started == 1


@pytest.mark.parametrize("starts", [True, False])
def test_the_setting_decides_whether_a_drain_starts_mirroring(
    engine: sa.Engine, new_worker: NewWorker, fabric: Fabric, open_client: OpenClient, starts: bool
) -> None:
    database = fabric.service.add("orders", "Initialized")
    table, worker = registered(engine, "s.orders", ID), new_worker()
    stage_keys(engine, table, [1])
    drain(worker)
    settings = Settings.from_environment(
        fabric_workspace="Sales workspace", fabric_database="orders", fabric_start=starts
    )
    watcher = fabric_watcher(engine, settings)
    assert watcher is not None
    with closing(watcher):
        assert watcher.poll()
    assert database.started == int(starts)
