"""What Fabric's API says over sockets reaches status, probes, metrics, events, alerts and the console."""

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.api.routes import probes as probe_routes
from app.domain.health.facts import HealthFacts
from app.domain.health.troubles import troubles
from app.fabric import open_fabric
from app.landing.open_zone import ZoneAddress
from app.settings import Settings
from app.staging.ledger.reports import claim_reading
from app.staging.overview import table_summaries
from app.staging.tables.status import gateway_facts
from mirrorgate.errors import MirrorgateError
from mirrorgate_zone.emulator.fabric_api import Answer, Database, table
from spark_jobs.fabric_status import FabricStatusReader, FabricWatcher, fabric_watcher
from tests.api.calls import Gateway
from tests.api.commands import Terminal
from tests.api.console.plain_browser import signed_in
from tests.support.fabric.endpoint import Fabric
from tests.support.fabric.fixtures import FastClock, OpenClient
from tests.support.postgres import sql
from tests.support.waiting import wait_until

FAULT = {"errorCode": "SchemaMergeFailure", "message": "The column note has another type."}


@dataclass
class Scene:
    """A gateway with one table, and the mirrored database in Fabric that a drain watches."""

    gateway: Gateway
    engine: sa.Engine
    fabric: Fabric
    database: Database
    open_client: OpenClient

    def poll(self) -> bool:
        with closing(FabricWatcher(self.engine, partial(self.open_client, patience=5.0), 0.0)) as watcher:
            return watcher.poll()

    def said(self) -> dict[str, Any]:
        said: dict[str, Any] = self.gateway.get("/v1/tables").json()["fabric"]
        return said

    def processed(self) -> dict[str, Any]:
        processed: dict[str, Any] = self.gateway.status("sales.orders")["processed"]
        return processed

    def part(self) -> str:
        return str(self.gateway.get("/statusz").json()["parts"]["fabric"])

    def metric(self, series: str) -> float | None:
        lines = self.gateway.get("/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{series} ")), None)

    def events(self) -> list[tuple[str, str | None]]:
        events = self.gateway.events("sales.orders")
        return [(event["action"], event["reason"]) for event in events if event["actor"] == "drain"]

    def alerts(self) -> list[tuple[str, str, str, str]]:
        with self.engine.begin() as connection:
            facts, seen = gateway_facts(connection), table_summaries(connection)
        found = troubles(HealthFacts(gateway=facts, tables=seen))
        return [(one.subject, one.code, str(one.severity), one.remedy) for one in found if one.subject != "drain"]


@pytest.fixture
def scene(
    gateway: Gateway,
    fabric: Fabric,
    open_client: OpenClient,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    monkeypatch.setattr(probe_routes, "CACHE_SECONDS", -1.0)
    gateway.register("sales.orders", {"id": "int64"}, ["id"]).raise_for_status()
    database = fabric.service.add("orders")
    database.tables = [table("ORDERS", schema="Sales", rows=7)]
    return Scene(gateway, gateway.engine, fabric, database, open_client)


def test_a_running_database_and_its_tables_are_shown_everywhere(scene: Scene) -> None:
    assert scene.gateway.get("/v1/tables").json()["fabric"] is None
    assert scene.metric("mirrorgate_fabric_status_age_seconds") is None
    assert scene.poll()
    said = scene.said()
    assert (said["state"], said["problem"], said["remedy"]) == ("Running", None, None)
    assert said["since"] <= said["read_at"]
    processed = scene.processed()
    assert (processed["state"], processed["rows"], processed["failed"]) == ("Replicating", 7, False)
    assert scene.part() == "ok"
    assert scene.metric('mirrorgate_fabric_database_state{state="running"}') == 1
    assert scene.metric('mirrorgate_fabric_database_state{state="paused"}') == 0
    assert scene.metric('mirrorgate_fabric_table_state{state="replicating",table="sales.orders"}') == 1
    assert scene.metric('mirrorgate_fabric_processed_rows_total{table="sales.orders"}') == 7
    age = scene.metric("mirrorgate_fabric_status_age_seconds")
    assert age is not None
    assert 0 <= age < 60
    synced = (datetime.now(UTC) - datetime(2026, 11, 22, 5, 7, 11, tzinfo=UTC)).total_seconds()
    shown = scene.metric('mirrorgate_fabric_last_sync_age_seconds{table="sales.orders"}')
    assert shown == pytest.approx(max(0.0, synced), abs=60)
    assert (scene.alerts(), scene.events()) == ([], [])


def test_a_paused_database_is_named_with_its_remedy_and_the_tables_keep_what_was_known(scene: Scene) -> None:
    scene.poll()
    scene.database.status = "Paused"
    assert scene.poll()
    said = scene.said()
    assert said["state"] == "Paused"
    assert "the capacity was paused" in said["problem"]
    assert "Resume the capacity" in said["remedy"]
    assert scene.part().startswith("the mirrored database is Paused")
    assert "Resume replication" in scene.part()
    assert scene.metric('mirrorgate_fabric_database_state{state="paused"}') == 1
    assert scene.processed()["rows"] == 7
    [(subject, code, severity, remedy)] = scene.alerts()
    assert (subject, code, severity) == ("fabric", "fabric_paused", "critical")
    assert "Resume the capacity" in remedy
    scene.database.status = "Running"
    scene.poll()
    assert (scene.part(), scene.alerts()) == ("ok", [])


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("Stopped", "fabric_stopped"),
        ("Failed", "fabric_failed"),
        ("Initialized", "fabric_not_started"),
        ("Resuming", "fabric_state_unknown"),
        ("Starting", None),
        ("RunningWithWarning", None),
    ],
)
def test_every_other_state_is_a_trouble_unless_fabric_leaves_it_by_itself(
    scene: Scene, state: str, code: str | None
) -> None:
    scene.database.status, scene.database.left = state, 9
    scene.poll()
    assert [alert[1] for alert in scene.alerts()] == ([code] if code else [])
    assert (scene.part() == "ok") is (code is None)


def test_a_failed_table_has_an_event_an_alert_and_a_remedy_until_it_recovers(scene: Scene) -> None:
    scene.poll()
    scene.database.tables = [table("orders", "Failed", schema="sales", error=FAULT)]
    scene.poll()
    scene.poll()
    processed = scene.processed()
    assert (processed["failed"], processed["whose"]) == (True, "user")
    assert processed["error"] == "SchemaMergeFailure: The column note has another type."
    assert "mirrorgate tables repair" in processed["remedy"]
    assert scene.metric('mirrorgate_fabric_table_state{state="failed",table="sales.orders"}') == 1
    assert scene.part() == "Fabric reports an error for 1 table. `mirrorgate status` names them with remedies."
    [(subject, code, severity, remedy)] = scene.alerts()
    assert (subject, code, severity) == ("sales.orders", "fabric_error", "critical")
    assert "mirrorgate tables repair" in remedy
    failed = ("failed in Fabric", "SchemaMergeFailure: The column note has another type.")
    assert scene.events() == [failed]
    scene.database.tables = [table("orders", schema="sales")]
    scene.poll()
    assert scene.events() == [failed, ("recovered in Fabric", None)]
    assert (scene.part(), scene.alerts()) == ("ok", [])


def test_a_table_that_failed_without_an_error_is_named_too(scene: Scene) -> None:
    scene.database.tables = [table("orders", "Failed", schema="sales")]
    scene.poll()
    assert [alert[:2] for alert in scene.alerts()] == [("sales.orders", "fabric_error")]
    assert "Monitor replication" in scene.processed()["remedy"]


def test_a_throttled_api_is_asked_again_only_after_the_time_that_it_gave(scene: Scene) -> None:
    scene.poll()
    scene.fabric.service.throttle("getMirroringStatus", 40)
    with capture_logs() as logs:
        assert not scene.poll()
    assert [(one["event"], one["code"]) for one in logs] == [("fabric_poll_failed", "fabric_throttled")]
    asked = len(scene.fabric.service.seen)
    assert not scene.poll()
    assert len(scene.fabric.service.seen) == asked
    assert (scene.part(), scene.said()["state"]) == ("ok", "Running")
    sql.run(scene.engine, "UPDATE mirrorgate.fabric_database SET next_poll_at = next_poll_at - interval '40 seconds'")
    assert scene.poll()
    assert scene.said()["problem"] is None


def test_an_api_that_is_away_is_a_trouble_after_a_quarter_of_an_hour(scene: Scene, clock: FastClock) -> None:
    scene.poll()
    gone = Settings.from_environment(
        fabric_workspace="Sales workspace", fabric_database="orders", fabric_api="https://127.0.0.1:1"
    )
    watcher = FabricWatcher(scene.engine, lambda: open_fabric(gone, patience=1.0, clock=clock.clock), 0.0)
    with capture_logs() as logs:
        assert [watcher.poll(), watcher.poll()] == [False, False]
    assert [one["code"] for one in logs] == ["fabric_unavailable"], "told once"
    assert scene.part() == "ok"
    sql.run(scene.engine, "UPDATE mirrorgate.fabric_database SET answered_at = answered_at - interval '20 minutes'")
    assert scene.part().startswith("no answer of Fabric's API for 20 minutes. Check that a drain runs")
    assert [alert[1:3] for alert in scene.alerts()] == [("fabric_status_old", "warning")]
    assert scene.metric("mirrorgate_fabric_status_age_seconds") == pytest.approx(1200, abs=60)
    sql.run(scene.engine, "UPDATE mirrorgate.fabric_database SET next_poll_at = clock_timestamp()")
    assert scene.poll()
    assert scene.part() == "ok"


def test_a_database_that_this_identity_cannot_see_is_a_trouble_at_once_without_its_name_in_the_probe(
    scene: Scene,
) -> None:
    scene.poll()
    scene.fabric.service.databases.clear()
    assert not scene.poll()
    assert [alert[1:3] for alert in scene.alerts()] == [("fabric_not_found", "critical")]
    assert "orders" in scene.said()["problem"]
    assert "fabric_not_found" in scene.part()
    assert "orders" not in scene.part()


def test_an_answer_that_is_no_json_is_a_problem_and_no_crash(scene: Scene) -> None:
    scene.fabric.service.plan("getTablesMirroringStatus", Answer(200, {"data": ["odd"]}))
    assert not scene.poll()
    assert sql.value(scene.engine, "SELECT problem_code FROM mirrorgate.fabric_database") == "fabric_unavailable"
    wait_until(scene.poll, within=60, what="the next poll is due")


def test_one_drain_asks_in_a_period_and_the_file_counts_only_without_the_api(scene: Scene) -> None:
    with (
        closing(FabricWatcher(scene.engine, scene.open_client, 60.0)) as one,
        closing(FabricWatcher(scene.engine, scene.open_client, 60.0)) as two,
    ):
        assert (one.poll(), two.poll()) == (True, False)

    def file_counts() -> bool:
        return sql.call(scene.engine, claim_reading, 0.0)

    assert not file_counts()
    sql.run(scene.engine, "UPDATE mirrorgate.fabric_database SET tables_at = tables_at - interval '6 minutes'")
    assert file_counts()


def test_a_drain_without_a_database_in_fabric_asks_nothing_and_forgets_what_was_known(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.poll()
    assert fabric_watcher(scene.engine, Settings(fabric_workspace="w", fabric_database="d")) is not None
    assert scene.said()["state"] == "Running"
    assert fabric_watcher(scene.engine, Settings()) is None
    assert scene.gateway.get("/v1/tables").json()["fabric"] is None
    assert scene.gateway.status("sales.orders")["processed"] is None
    off = Settings(fabric_workspace="w", fabric_database="d", fabric_poll_seconds=0)
    assert fabric_watcher(scene.engine, off) is None


def test_a_drain_asks_from_a_thread_of_its_own_until_it_stops(scene: Scene, tmp_path: Path) -> None:
    settings = Settings.from_environment(fabric_workspace="Sales workspace", fabric_database="orders")
    stopping = Event()
    zone = ZoneAddress(str(tmp_path / "zone"))
    thread = FabricStatusReader(scene.engine, settings, zone).watch(stopping)
    try:
        wait_until(lambda: scene.gateway.get("/v1/tables").json()["fabric"], within=30, what="the drain has asked")
    finally:
        stopping.set()
        thread.close()
    FabricStatusReader(scene.engine, Settings(), zone).store()
    assert scene.gateway.get("/v1/tables").json()["fabric"] is None


def test_a_lost_database_is_logged_and_disturbs_nobody(scene: Scene, tmp_path: Path) -> None:
    lost = sa.create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none")
    with pytest.raises(MirrorgateError):
        FabricWatcher(lost, scene.open_client, 0.0).poll()
    with capture_logs() as logs:
        settings = Settings(fabric_workspace="w", fabric_database="d")
        FabricStatusReader(lost, settings, ZoneAddress(str(tmp_path / "zone"))).store()
    assert [(one["event"], one["code"]) for one in logs] == [("fabric_watch_failed", "database_unavailable")] * 2


def test_the_console_and_the_command_show_trouble_first_with_its_remedy(scene: Scene, terminal: Terminal) -> None:
    scene.database.tables = [table("orders", "Failed", schema="sales", error=FAULT)]
    scene.poll()
    scene.database.status = "Paused"
    scene.poll()
    with signed_in(scene.gateway.address) as browser:
        page, of_table = browser.page("/console"), browser.page("/console/tables/sales.orders")
    assert "Fabric has paused mirroring" in page
    assert "SchemaMergeFailure" in page
    assert page.index("Fabric has paused mirroring") < page.index("SchemaMergeFailure")
    assert "Resume the capacity" in page
    assert "Fabric cannot mirror the table" in of_table
    assert "mirrorgate tables repair" in of_table
    ended = terminal.run("status")
    assert "Fabric: Paused since " in ended.output
    assert "remedy: Resume the capacity" in ended.output
    assert "fabric table: SchemaMergeFailure" in ended.output
