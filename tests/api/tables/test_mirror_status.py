"""How far tables are mirrored: the route, the status, the probe and the metrics."""

import re
from typing import Any

import sqlalchemy as sa

from app.domain.mirror_report import MirrorState
from app.domain.model.table import Table
from app.staging.mirror import store_reports
from tests.api.calls import Gateway, insert, problem
from tests.api.conftest import ClientWith
from tests.support.mirror_reports import NOON, NOTHING_APPLIED, STOPPED, report_of
from tests.support.postgres import sql
from tests.support.postgres.ledger import owned_now, publish_all
from tests.support.waiting import wait_until


def published(gateway: Gateway, engine: sa.Engine, name: str, files: int) -> Table:
    """Register a table without a seed file, and publish this many files."""
    gateway.register(name, {"id": "int64"}, ["id"], seed_file=False).raise_for_status()
    for key in range(files):
        gateway.arcion(insert(name, id=str(key))).raise_for_status()
    owned = owned_now(engine, name)
    publish_all(engine, owned)
    return owned.table


def report(engine: sa.Engine, table: Table, **fields: Any) -> None:
    assert store_reports(engine, [report_of(engine, table, **fields)]) == 1


def test_a_table_that_no_mirror_has_reported_is_404_not_mirrored(gateway: Gateway) -> None:
    problem(gateway.get("/v1/tables/none/mirror"), 404, "unknown_table")
    gateway.register("sales.orders", {"id": "int64"}, ["id"])
    told = problem(gateway.get("/v1/tables/sales.orders/mirror"), 404, "not_mirrored")
    assert told["detail"] == "no mirror has reported generation 1 of sales.orders"
    assert gateway.status("sales.orders")["mirror"] is None


def test_the_route_tells_version_files_lag_and_times(gateway: Gateway) -> None:
    table = published(gateway, gateway.engine, "sales.orders", 3)
    report(gateway.engine, table, version=0, file_number=1, last_file=1, generation=4)
    told = gateway.get("/v1/tables/sales.orders/mirror").raise_for_status().json()
    assert 0 < told.pop("lag_seconds") < 60
    assert told.pop("updated_at")
    assert told == {
        "table": "sales.orders",
        "generation": 1,
        "delta_generation": 4,
        "state": "behind",
        "version": 0,
        "file_number": 1,
        "published_file": 3,
        "pending_files": 2,
        "reason": None,
        "committed_at": NOON.isoformat().replace("+00:00", "Z"),
    }
    report(gateway.engine, table, version=2, file_number=3, last_file=3, generation=4)
    told = gateway.get("/v1/tables/sales.orders/mirror").json()
    assert (told["state"], told["version"], told["pending_files"], told["lag_seconds"]) == ("in_step", 2, 0, 0)


def test_the_status_has_the_summary(gateway: Gateway) -> None:
    table = published(gateway, gateway.engine, "sales.orders", 2)
    gateway.register("quiet", {"id": "int64"}, ["id"])
    report(gateway.engine, table, **STOPPED)
    listed = {status["table"]: status["mirror"] for status in gateway.get("/v1/tables").json()["tables"]}
    summary = listed["sales.orders"]
    assert listed["quiet"] is None
    assert summary.keys() == {
        "state",
        "version",
        "file_number",
        "pending_files",
        "lag_seconds",
        "reason",
        "updated_at",
    }
    assert summary["state"] == "stopped"
    assert summary["reason"] == {name: STOPPED[name] for name in ("code", "detail", "remedy")}
    shown = gateway.status("sales.orders")["mirror"]
    assert shown | {"lag_seconds": 0} == summary | {"lag_seconds": 0}


def test_metrics_tell_how_far_each_table_of_a_key_is_mirrored(gateway: Gateway, client_with: ClientWith) -> None:
    report(gateway.engine, published(gateway, gateway.engine, "sales.orders", 3), version=1, file_number=2, last_file=2)
    report(gateway.engine, published(gateway, gateway.engine, "empty", 1), **NOTHING_APPLIED)
    gateway.register("quiet", {"id": "int64"}, ["id"])
    text = gateway.get("/metrics").text
    values = dict(re.findall(r'^mirrorgate_mirror_(\w+)\{table="sales.orders"\} (\S+)$', text, re.MULTILINE))
    assert float(values.pop("lag_seconds")) > 0
    assert values == {"version": "1.0", "file_number": "2.0"}
    states = re.findall(r'^mirrorgate_mirror_state\{state="(\w+)",table="sales.orders"\} (\S+)$', text, re.MULTILINE)
    assert sorted(states) == sorted((state.value, "1.0" if state == "behind" else "0.0") for state in MirrorState)
    assert 'mirrorgate_mirror_file_number{table="empty"} 0.0' in text
    assert 'mirrorgate_mirror_version{table="empty"}' not in text
    assert not re.search(r'mirrorgate_mirror_\w+\{[^}]*table="quiet"', text)
    assert "sales.orders" not in client_with("read", tables=["other.*"]).get("/metrics").text


def test_the_probe_names_a_mirror_that_cannot_continue_while_it_runs(gateway: Gateway) -> None:
    table = published(gateway, gateway.engine, "sales.orders", 2)
    report(gateway.engine, table, **STOPPED)

    def told() -> str:
        part: str = gateway.get("/statusz").json()["parts"]["mirror"]
        return part

    wait_until(lambda: told() == "the Delta mirror cannot continue 1 tables", within=60, what="the answer is new")
    sql.run(gateway.engine, "UPDATE mirrorgate.mirror_reports SET updated_at = updated_at - interval '61 seconds'")
    wait_until(lambda: told() == "ok", within=60, what="the answer is new")
