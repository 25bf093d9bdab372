"""What is told of a table: metrics, files, mirror; and request ids and crashes."""

import re
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from app.api.routes import tables as table_routes
from app.domain.mirror_report import MirrorState
from app.domain.model.table import Table
from app.staging.ledger.leases import renew_lease
from app.staging.mirror import store_reports
from mirrorgate.errors.site import with_addresses
from tests.api.calls import Gateway, insert, problem
from tests.api.conftest import ClientWith
from tests.support.gateway_parts import quarantined
from tests.support.mirror_reports import NOON, NOTHING_APPLIED, STOPPED, report_of
from tests.support.postgres import sql
from tests.support.postgres.ledger import owned_now, publish_all
from tests.support.postgres.retention import purge
from tests.support.waiting import wait_until


def test_metrics_tell_the_lag_of_each_table(gateway: Gateway) -> None:
    gateway.register("sales.orders", {"id": "int64"}, ["id"])
    gateway.arcion(insert("sales.orders", id="1"), insert("sales.orders", id="2"))
    gateway.arcion(insert("sales.orders", id="x"))
    response = gateway.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    values = dict(re.findall(r'^(mirrorgate_\w+)\{table="sales.orders"\} (\S+)$', response.text, re.MULTILINE))
    assert (values["mirrorgate_lag_batches"], values["mirrorgate_lag_rows"]) == ("1.0", "2.0")
    assert float(values["mirrorgate_lag_bytes"]) > 0
    assert float(values["mirrorgate_lag_oldest_seconds"]) > 0
    assert values["mirrorgate_published_files_total"] == "0.0"
    assert 'mirrorgate_rejected_requests_total{code="bad_value"}' in response.text
    assert 'mirrorgate_requests_total{route="/v1/changes/arcion",status="202"}' in response.text


def test_metrics_tell_each_tables_state_and_the_drains(gateway: Gateway) -> None:
    gateway.register("sales.orders", {"id": "int64"}, ["id"])
    quarantined(gateway.engine, "sales.orders")
    sql.call(gateway.engine, renew_lease, uuid4(), 60)
    text = gateway.get("/metrics").text
    assert 'mirrorgate_table_state{state="quarantined",table="sales.orders"} 1.0' in text
    assert 'mirrorgate_table_state{state="active",table="sales.orders"} 0.0' in text
    assert "mirrorgate_drain_workers 1.0" in text
    assert re.search(
        r'^mirrorgate_build_info\{component="api",revision="r\d{4}",version="[^"]+"\} 1.0$', text, re.MULTILINE
    )
    assert 'mirrorgate_backlog_limit_ratio{table="sales.orders"} 0.0' in text
    assert "mirrorgate_writer_waiting_requests 0.0" in text


def test_a_quarantine_says_which_file_and_since_when_until_it_is_released(gateway: Gateway) -> None:
    gateway.register("sales.orders", {"id": "int64"}, ["id"])
    before = gateway.get("/v1/tables/sales.orders").json()
    reason = "foreign_file: another file has number 1: sales.schema/orders/00000000000000000001.parquet"
    quarantined(gateway.engine, "sales.orders", reason)
    table = gateway.get("/v1/tables/sales.orders").json()
    assert (before["quarantined_at"], table["state_reason"]) == (None, reason)
    [trouble] = table["troubles"]
    assert (trouble["code"], trouble["detail"], trouble["since"]) == ("foreign_file", reason, table["quarantined_at"])
    assert with_addresses("docs/troubleshoot/quarantined.md#foreign_file") in trouble["remedy"]
    gateway.post("/v1/tables/sales.orders/release?generation=1", json={"reason": "moved away"})
    assert gateway.get("/v1/tables/sales.orders").json()["quarantined_at"] is None


def test_what_retention_has_purged_is_still_counted_and_answered(gateway: Gateway) -> None:
    gateway.register("t", {"id": "int64"}, ["id"], seed_file=False)
    for key in ("1", "2"):
        gateway.arcion(insert("t", id=key))
    publish_all(gateway.engine, owned_now(gateway.engine, "t"))
    before = gateway.status("t")
    assert purge(gateway.engine).purged_files == 1
    assert gateway.status("t") == before
    batch = gateway.get("/v1/batches/t/1/1").json()
    assert (batch["state"], batch["changes"], batch["rows"], batch["file"]) == ("published", None, None, None)
    assert gateway.get("/v1/batches/t/1/2").json()["rows"] == 1
    problem(gateway.get("/v1/batches/t/1/3"), 404, "unknown_batch")
    ledger = gateway.get("/v1/tables/t/files").json()
    assert [file["number"] for file in ledger["files"]] == [2]


@pytest.mark.parametrize("request_id", ["a", "A-b_c.9", "x" * 64])
def test_a_sane_request_id_is_sent_back(gateway: Gateway, request_id: str) -> None:
    for path in ("/healthz", "/nowhere", "/v1/tables/none"):
        response = gateway.get(path, headers={"X-Request-Id": request_id})
        assert response.headers.get_list("x-request-id") == [request_id]


@pytest.mark.parametrize("request_id", ["", "x" * 65, "a b", "a;b", "é"])
def test_any_other_request_id_is_replaced(gateway: Gateway, request_id: str) -> None:
    response = gateway.get("/healthz", headers=[(b"X-Request-Id", request_id.encode())])
    assert re.fullmatch("[0-9a-f]{32}", response.headers["x-request-id"])


@pytest.mark.parametrize(
    "page", ["limit=0", "limit=many", "limit=1_0", "limit=%2B1", "limit=1.0", "after=-1", "after=٣", f"after={2**63}"]
)
def test_a_page_that_cannot_be_is_rejected(gateway: Gateway, page: str) -> None:
    problem(gateway.get(f"/v1/tables/t/files?{page}"), 400, "bad_request")


def test_a_crash_is_answered_with_its_request_id_and_nothing_of_the_cause(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError("canary7391")

    monkeypatch.setattr(table_routes, "list_tables", crash)
    for _ in range(2):
        response = gateway.get("/v1/tables", headers={"X-Request-Id": "crash-1"})
        problem(response, 500, "internal")
        assert response.headers["x-request-id"] == "crash-1"
        assert "canary7391" not in response.text
        assert "ZeroDivisionError" not in response.text
    assert 'mirrorgate_requests_total{route="/v1/tables",status="500"}' in gateway.get("/metrics").text


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")], ids=["memory", "threads"])
def test_a_request_that_meets_the_end_of_memory_is_503_overloaded(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def exhausted(*_: object) -> None:
        raise error

    monkeypatch.setattr(table_routes, "list_tables", exhausted)
    response = gateway.get("/v1/tables")
    problem(response, 503, "overloaded")
    assert response.headers["retry-after"] == "5"


def test_a_rejection_keeps_the_connection(gateway: Gateway) -> None:
    responses = [gateway.get(path) for path in ("/nowhere", "/v1/tables/none", "/v1/keys?x", "/healthz")]
    streams = [response.extensions["network_stream"] for response in responses]
    assert len({stream.get_extra_info("client_addr") for stream in streams}) == 1


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
