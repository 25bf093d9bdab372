"""The three probes: the process serves, the process can accept changes, the whole gateway works."""

from uuid import uuid4

import pytest
import sqlalchemy as sa

from app.api.routes import probes as probe_routes
from app.domain.publication import Failure
from app.staging.ledger.leases import renew_lease
from app.staging.ledger.reports import record_failure
from mirrorgate.errors import Code
from tests.api.calls import Gateway, insert
from tests.support.gateway_parts import current, quarantined
from tests.support.postgres import sql


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute every answer again, without the cache."""
    monkeypatch.setattr(probe_routes, "CACHE_SECONDS", -1.0)


@pytest.fixture
def drain(gateway: Gateway) -> None:
    sql.call(gateway.engine, renew_lease, uuid4(), 60)


def test_a_process_is_ready_without_any_drain(anonymous: Gateway, gateway: Gateway) -> None:
    gateway.register("t", {"id": "int64"}).raise_for_status()
    gateway.arcion(insert("t", id="1")).raise_for_status()
    answer = anonymous.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["parts"] == {"api": "ok", "database": "ok", "writer": "ok", "masks": "ok"}
    writer = answer.json()["writer"]
    assert writer["waiting_requests"] == 0
    assert 0 <= writer["last_commit_seconds"] < 60


def test_the_gateway_is_not_well_without_a_drain(anonymous: Gateway, gateway: Gateway) -> None:
    answer = anonymous.get("/statusz")
    assert answer.status_code == 503
    assert "mirrorgate drain" in answer.json()["parts"]["drain"]
    assert answer.json()["drains"] == 0


def test_a_drain_that_waits_for_its_landing_zone_shows_in_the_gateways_status(
    anonymous: Gateway, api_engine: sa.Engine
) -> None:
    worker = uuid4()
    sql.call(api_engine, renew_lease, worker, 60, waits_for=Code.LANDING_ZONE_AWAY)
    answer = anonymous.get("/statusz")
    assert answer.status_code == 503
    told = f"1 of 1 drains publish nothing: landing_zone_away. {Code.LANDING_ZONE_AWAY.remedy}"
    assert answer.json()["parts"]["drain"] == told
    sql.call(api_engine, renew_lease, worker, 60)
    assert anonymous.get("/statusz").json()["parts"]["drain"] == "ok"


@pytest.mark.usefixtures("drain")
def test_a_gateway_whose_parts_all_work_is_well(anonymous: Gateway) -> None:
    answer = anonymous.get("/statusz")
    assert (answer.status_code, set(answer.json()["parts"].values())) == (200, {"ok"})


@pytest.mark.usefixtures("drain")
def test_a_quarantined_table_shows_in_the_gateways_status_without_its_name(
    anonymous: Gateway, gateway: Gateway
) -> None:
    gateway.register("sales.secret", {"id": "int64"}).raise_for_status()
    quarantined(gateway.engine, "sales.secret")
    answer = anonymous.get("/statusz")
    assert answer.status_code == 503
    assert answer.json()["parts"]["tables"] == "of 1 tables, 1 quarantined"
    assert answer.json()["tables"] == {"quarantined": 1}
    assert "secret" not in answer.text
    assert anonymous.get("/readyz").status_code == 200


@pytest.mark.usefixtures("drain")
def test_a_clock_that_was_set_back_shows_in_the_gateways_status(anonymous: Gateway, gateway: Gateway) -> None:
    gateway.register("t", {"id": "int64"}).raise_for_status()
    gateway.arcion(insert("t", id="1")).raise_for_status()
    sql.run(gateway.engine, "UPDATE mirrorgate.staged_blocks SET staged_at = staged_at + interval '5 hours'")
    assert "set back" in anonymous.get("/statusz").json()["parts"]["clock"]


def test_a_drain_whose_clock_is_wrong_shows_in_the_gateways_status(anonymous: Gateway, gateway: Gateway) -> None:
    sql.call(gateway.engine, renew_lease, uuid4(), 60, clock=0.0)
    assert "clock of a drain" in anonymous.get("/statusz").json()["parts"]["clock"]


@pytest.mark.usefixtures("drain")
def test_a_failing_table_shows_in_status_metrics_and_the_gateways_status(gateway: Gateway) -> None:
    gateway.register("t", {"id": "int64"}).raise_for_status()
    failure = Failure(Code.STORAGE_FAILED, "ENOSPC (No space left on device) at /zone/t", "Free space.")
    shown = []
    for _ in range(3):
        sql.call(gateway.engine, record_failure, current(gateway.engine, "t"), failure)
        shown.append(gateway.status("t")["failing"])
    assert shown[:2] == [None, None]
    assert (shown[2]["code"], shown[2]["tries"], shown[2]["remedy"]) == ("storage_failed", 3, "Free space.")
    answer = gateway.get("/statusz")
    assert (answer.status_code, answer.json()["tables"]) == (503, {"failing": 1})
    text = gateway.get("/metrics").text
    assert 'mirrorgate_table_state{state="failing",table="t"} 1.0' in text
    assert 'mirrorgate_table_state{state="active",table="t"} 0.0' in text
