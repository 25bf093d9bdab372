"""Waiting for a stage: what accepted rows pass on their way to queries, and what is said when they do not move."""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

import mirrorgate
from app.api.routes import probes as probe_routes
from app.domain.model.table import DropAction, DropPlan
from app.staging.ledger.leases import give_up_lease, renew_lease
from mirrorgate import GatewayClient, Stopped
from mirrorgate.errors import Code, Misconfigured, RejectedInput
from mirrorgate.parameters import Stage
from mirrorgate.producer import Patience
from mirrorgate.stages import NotReached, Obstacle, wait_until
from mirrorgate_zone.emulator.fabric_api import Answer, Database, sync, table
from spark_jobs.fabric_status import FabricWatcher
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import Terminal
from tests.support.fabric.endpoint import Fabric
from tests.support.fabric.fixtures import OpenClient
from tests.support.gateway_parts import next_generation, quarantined
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, owned_now, publish_all
from tests.support.rejections import rejected

TABLE = "sales.orders"


@dataclass
class Way:
    """A gateway with one table, the drain that publishes it and asks Fabric, and a client that waits."""

    gateway: Gateway
    engine: sa.Engine
    database: Database
    fabric: Fabric
    open_client: OpenClient
    client: GatewayClient
    owned: Owned
    refreshes_sql: bool = True
    said: list[str] = field(default_factory=list)

    def send(self, *keys: int) -> None:
        rows = [{"id": key} for key in keys]
        self.gateway.post("/v1/changes/rows", json=rows, params={"table": TABLE}).raise_for_status()

    def publish(self) -> None:
        publish_all(self.engine, self.owned)

    def poll(self) -> None:
        opened = partial(self.open_client, patience=5.0)
        watcher = FabricWatcher(self.engine, opened, 0.0, refreshes_sql=self.refreshes_sql)
        with closing(watcher), capture_logs():
            assert watcher.poll()

    def synchronize(self, seconds: float = 0.0, **more: Any) -> None:
        """Let Fabric have synchronized the table so many seconds from now, and the drain hear of it."""
        moment = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
        metrics = {"processedRows": 1, "processedBytes": 1, "lastSyncDateTime": moment}
        self.database.tables = [table("orders", schema="sales", metrics=metrics, **more)]
        self.poll()

    def look(self, stage: Stage) -> str:
        """Look once; return `reached` or what the error says."""
        try:
            wait_until(self.client, TABLE, stage, timeout=0)
        except NotReached as error:
            return error.detail
        return "reached"

    def wait(self, stage: Stage, *steps: Callable[[], None], timeout: float = 60.0) -> Any:
        """Wait, and do one step at each look that has not reached the stage."""
        left = list(steps)

        def step(progress: str, obstacle: Obstacle | None) -> None:
            self.said.append(progress)
            if left:
                left.pop(0)()

        return wait_until(self.client, TABLE, stage, timeout=timeout, on_progress=step)

    @property
    def processed(self) -> dict[str, Any]:
        found: dict[str, Any] = self.gateway.status(TABLE)["processed"]
        return found


@pytest.fixture
def way(
    gateway: Gateway,
    fabric: Fabric,
    open_client: OpenClient,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    monkeypatch.setattr(probe_routes, "CACHE_SECONDS", -1.0)
    monkeypatch.setattr("mirrorgate.stages._PUBLISHED_PAUSE", 0.01)
    monkeypatch.setattr("mirrorgate.stages._FABRIC_PAUSE", 0.01)
    gateway.register(TABLE, {"id": "int64"}, ["id"]).raise_for_status()
    owned = owned_now(gateway.engine, TABLE)
    database = fabric.service.add("orders")
    with GatewayClient(gateway.address, ADMIN_KEY) as client:
        yield Way(gateway, gateway.engine, database, fabric, open_client, client, owned)


def test_rows_pass_each_stage_and_the_status_shows_the_last_one(way: Way) -> None:
    way.send(1)
    way.poll()
    assert way.look(Stage.PUBLISHED).startswith("sales.orders: 0 of 1 batches published")
    way.publish()
    assert way.look(Stage.PUBLISHED) == "reached"
    way.synchronize(-3600)
    assert "published, not processed yet" in way.look(Stage.PROCESSED)
    way.database.synced = [sync("orders", "Failure", error={"errorCode": "SyncFailed", "message": "Try later."})]
    way.synchronize(1)
    assert way.look(Stage.PROCESSED) == "reached"
    assert "SyncFailed: Try later" in way.look(Stage.QUERYABLE)
    assert way.processed["queryable_error"] == "SyncFailed: Try later."
    way.database.synced = None
    way.poll()
    assert way.look(Stage.QUERYABLE) == "reached"
    assert way.processed["queryable_at"] == way.processed["last_sync"]
    assert way.processed["queryable_error"] is None


def test_a_wait_goes_through_all_stages_while_others_send(way: Way) -> None:
    way.send(1)
    way.poll()
    status = way.wait(
        Stage.QUERYABLE, way.publish, lambda: way.send(2), lambda: way.synchronize(1), lambda: way.send(3)
    )
    assert status["last_sequence"] > status["published_through"] >= 1, "what others send is not waited for"
    assert way.said[0] == "0 of 1 batches published"
    assert "published, not processed yet" in way.said


def test_the_endpoint_is_refreshed_once_for_each_synchronization(way: Way) -> None:
    way.synchronize()
    way.poll()
    way.poll()
    assert len(way.database.refreshed) == 1
    way.synchronize(1)
    assert len(way.database.refreshed) == 2


def test_an_endpoint_that_has_nothing_new_shows_everything(way: Way) -> None:
    way.database.synced = [sync("orders", "NotRun")]
    way.send(1)
    way.publish()
    way.synchronize(1)
    assert way.look(Stage.QUERYABLE) == "reached"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(403, {"errorCode": "InsufficientPrivileges", "message": "No."}), "fabric_forbidden"),
        (Answer(200, {"value": []}), "does not list the table"),
    ],
    ids=["forbidden", "not listed"],
)
def test_a_refresh_that_fails_is_told_with_its_remedy_and_repeated(way: Way, answer: Answer, error: str) -> None:
    way.send(1)
    way.publish()
    way.fabric.service.plan("refreshMetadata", answer)
    way.synchronize(1)
    assert error in way.processed["queryable_error"]
    with pytest.raises(NotReached, match="The refresh of the SQL analytics endpoint failed") as raised:
        wait_until(way.client, TABLE, Stage.QUERYABLE, timeout=0)
    assert "mirrorgate fabric refresh" in raised.value.remedy
    way.wait(Stage.QUERYABLE, way.poll)


def test_a_recreated_table_ends_the_wait_and_forgets_what_was_queryable(way: Way) -> None:
    way.send(1)
    way.synchronize(1)

    def recreate() -> None:
        next_generation(way.engine, TABLE, DropPlan(DropAction.RECREATE))

    with rejected(Code.GENERATION_MISMATCH):
        way.wait(Stage.PUBLISHED, recreate)
    assert way.gateway.status(TABLE)["processed"] is None


@pytest.mark.parametrize("stage", [Stage.PROCESSED, Stage.QUERYABLE])
def test_a_gateway_that_is_not_on_fabric_says_so_at_once(way: Way, stage: Stage) -> None:
    way.send(1)
    with pytest.raises(Misconfigured, match=Code.FABRIC_NOT_WATCHED) as raised:
        wait_until(way.client, TABLE, stage)
    assert "MIRRORGATE_FABRIC_DATABASE" in raised.value.remedy


def test_a_drain_that_refreshes_nothing_says_which_setting_is_missing(way: Way) -> None:
    way.refreshes_sql = False
    way.send(1)
    way.publish()
    way.synchronize(1)
    assert way.look(Stage.PROCESSED) == "reached"
    assert way.database.refreshed == []
    with pytest.raises(Misconfigured) as raised:
        wait_until(way.client, TABLE, Stage.QUERYABLE)
    assert "MIRRORGATE_FABRIC_REFRESH_SQL=true" in raised.value.remedy


def test_a_table_that_has_accepted_nothing_has_reached_each_stage(way: Way) -> None:
    way.poll()
    assert {way.look(stage) for stage in Stage} == {"reached"}


def stop_drain(way: Way) -> None:
    sql.call(way.engine, give_up_lease, way.owned.worker)


def quarantine(way: Way) -> None:
    quarantined(way.engine, TABLE)


def pause(way: Way) -> None:
    way.gateway.post(f"/v1/tables/{TABLE}/pause", params={"generation": 1}).raise_for_status()


def stop_mirroring(way: Way) -> None:
    way.publish()
    way.database.status = "Stopped"
    way.poll()


def fail_in_fabric(way: Way) -> None:
    way.publish()
    way.synchronize(-3600, status="Failed", error={"errorCode": "SchemaMergeFailure", "message": "Another type."})


@pytest.mark.parametrize(
    ("hinder", "detail", "remedy"),
    [
        (stop_drain, "drain", "mirrorgate drain"),
        (quarantine, "Foreign_file: seen", "mirrorgate tables release sales.orders"),
        (pause, "An operator paused the table", "Resume it"),
        (stop_mirroring, "mirroring has been stopped", "mirrorgate fabric start"),
        (fail_in_fabric, "SchemaMergeFailure", "mirrorgate tables repair"),
    ],
)
def test_what_stops_the_rows_is_named_with_its_remedy(
    way: Way, hinder: Callable[[Way], None], detail: str, remedy: str
) -> None:
    sql.call(way.engine, renew_lease, way.owned.worker, 3_600)
    way.send(1)
    way.poll()
    hinder(way)
    with pytest.raises(NotReached) as raised:
        wait_until(way.client, TABLE, Stage.PROCESSED, timeout=0)
    assert raised.value.code is Code.WAIT_TIMED_OUT
    assert detail in raised.value.detail
    assert remedy in raised.value.remedy


def test_a_wait_that_is_stopped_ends_and_one_without_end_is_rejected(way: Way) -> None:
    with pytest.raises(RejectedInput, match="timeout must be a number of seconds"):
        wait_until(way.client, TABLE, Stage.PUBLISHED, timeout=float("nan"))
    way.send(1)
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        wait_until(way.client, TABLE, Stage.PUBLISHED, patience=Patience(0.0, stop))


def test_the_command_prints_what_is_reached_and_its_status_says_what_happened(way: Way, terminal: Terminal) -> None:
    way.send(1)
    late = terminal.run("wait", TABLE, "--timeout", "0")
    assert late.status == 3
    assert "error wait_timed_out: sales.orders: 0 of 1 batches published after 0 seconds" in late.errors
    assert "remedy: Start a drain" in late.errors or "remedy: Wait again" in late.errors
    way.publish()
    assert terminal.run("wait", TABLE).output == "sales.orders: published through batch 1\n"
    assert terminal.run("wait", TABLE, "--json").report["status"]["last_sequence"] == 1
    assert terminal.run("wait", TABLE, "--until", "queryable").status == 1
    assert terminal.run("wait", "other").status == 1
    assert terminal.run("wait", TABLE, "--until", "landed").status == 2


def test_a_reason_is_printed_once_while_the_command_waits(way: Way, terminal: Terminal) -> None:
    way.send(1)
    quarantine(way)
    ended = terminal.run("wait", TABLE, "--timeout", "3")
    assert ended.errors.count("waiting: Foreign_file: seen.") == 1
    assert "tables release" in ended.errors


def test_without_a_gateway_the_command_ends_with_3(terminal: Terminal) -> None:
    terminal.address = "http://127.0.0.1:1"
    assert terminal.run("wait", TABLE).status == 3


@pytest.mark.parametrize("stage", list(Stage))
def test_mirror_waits_for_any_stage(way: Way, stage: Stage) -> None:
    def act() -> None:
        while not done.wait(0.01):
            way.publish()
            way.synchronize(1)

    done = threading.Event()
    way.synchronize(-3600)
    thread = threading.Thread(target=act)
    thread.start()
    try:
        mirrorgate.mirror([{"id": 5}], TABLE, client=way.client, wait=stage.value, timeout=60)
    finally:
        done.set()
        thread.join()
    assert way.look(stage) == "reached"
