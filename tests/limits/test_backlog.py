"""Back-pressure: a table with a full backlog gets 429 while it is full; the others are unaffected."""

from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from app.ingest import backlog
from tests.api.calls import Gateway, insert, problem
from tests.limits.conftest import Serve
from tests.support.gateway_parts import current
from tests.support.postgres import sql
from tests.support.postgres.ledger import owned_now, publish_all
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def frequent_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the backlog so often that no test waits for the next read."""
    monkeypatch.setattr(backlog, "READ_SECONDS", 0.02)


@pytest.fixture
def gateway(serve: Serve) -> Gateway:
    return serve(max_backlog_rows=3)


def post(gateway: Gateway, table: str, *keys: int, **headers: str) -> httpx.Response:
    messages = [insert(table, id=str(key)) for key in keys]
    return gateway.post("/v1/changes/arcion", json=messages, headers=headers)


def full(gateway: Gateway, table: str) -> httpx.Response:
    """Return the rejection of a table, once the backlog has been read."""

    def rejection() -> httpx.Response | None:
        answer = post(gateway, table, 1_000)
        return answer if answer.status_code == 429 else None

    return wait_until(rejection, within=30, what="the backlog is full")


def assert_accepts_again(gateway: Gateway, table: str) -> None:
    wait_until(lambda: post(gateway, table, 2_000).status_code == 202, within=30, what="there is room again")


@pytest.mark.parametrize(
    "settings",
    [{"max_backlog_rows": 3}, {"max_backlog_bytes": 1}, {"max_backlog_seconds": 0.001}],
    ids=["rows", "bytes", "age"],
)
def test_a_full_table_is_rejected_until_its_batches_are_published(
    serve: Serve, engine: sa.Engine, settings: dict[str, Any]
) -> None:
    gateway = serve(**settings)
    assert post(gateway, "t", 1, 2, 3).status_code == 202
    rejection = full(gateway, "t")
    details = problem(rejection, 429, "backlog_full")
    assert details["detail"].startswith("table t has ")
    assert 1 <= int(rejection.headers["retry-after"]) <= 60
    publish_all(engine, owned_now(engine, "t"))
    assert_accepts_again(gateway, "t")


def test_nothing_of_a_rejected_request_is_staged(gateway: Gateway, engine: sa.Engine) -> None:
    gateway.register("u", {"id": "int64"}, ["id"])
    post(gateway, "t", 1, 2, 3)
    full(gateway, "t")
    before = [gateway.status(table)["accepted"] for table in ("t", "u")]
    problem(gateway.arcion(insert("u", id="1"), insert("t", id="4")), 429, "backlog_full")
    assert [gateway.status(table)["accepted"] for table in ("t", "u")] == before
    numbers = "SELECT max(last_sequence) FROM mirrorgate.table_counters"
    assert sql.value(engine, numbers) == max(gateway.status(table)["last_sequence"] for table in ("t", "u"))


def test_a_full_table_changes_nothing_for_a_request_that_it_rejects(gateway: Gateway) -> None:
    gateway.put("/v1/tables/t", json={"options": {"new_columns": "add_as_string"}}).raise_for_status()
    post(gateway, "t", 1, 2, 3)
    full(gateway, "t")
    problem(gateway.arcion(insert("t", id="5", note="new")), 429, "backlog_full")
    assert gateway.status("t")["schema_version"] == 1


@pytest.mark.parametrize("stopped", ["paused", "quarantined"])
def test_a_stopped_table_fills_only_its_own_backlog(gateway: Gateway, engine: sa.Engine, stopped: str) -> None:
    gateway.register("healthy", {"id": "int64"}, ["id"])
    sql.run(engine, "UPDATE mirrorgate.tables SET state = :state WHERE name = 't'", state=stopped)
    assert post(gateway, "t", 1, 2, 3).status_code == 202
    assert full(gateway, "t").headers["retry-after"] == "60"
    healthy = owned_now(engine, "healthy")
    for key in range(10):
        assert post(gateway, "healthy", key).status_code == 202
        publish_all(engine, healthy)
    problem(post(gateway, "t", 4), 429, "backlog_full")


def test_a_request_that_was_accepted_before_the_table_was_full_gets_its_answer_again(gateway: Gateway) -> None:
    named = {"Idempotency-Key": "one"}
    first = post(gateway, "t", 1, 2, 3, **named)
    full(gateway, "t")
    again = post(gateway, "t", 1, 2, 3, **named)
    assert (again.status_code, again.json()["receipts"]) == (200, first.json()["receipts"])


def test_a_dry_run_of_a_full_table_shows_what_would_land(gateway: Gateway) -> None:
    post(gateway, "t", 1, 2, 3)
    full(gateway, "t")
    assert gateway.arcion(insert("t", id="4"), dry_run="true").status_code == 200


@pytest.mark.parametrize("settings", [{"max_total_backlog_rows": 4}, {"max_total_backlog_bytes": 1}])
def test_what_all_tables_have_together_is_bounded_too(
    serve: Serve, engine: sa.Engine, settings: dict[str, int]
) -> None:
    gateway = serve(**settings)
    gateway.register("u", {"id": "int64"}, ["id"])
    post(gateway, "t", 1, 2)
    post(gateway, "u", 1, 2)
    assert full(gateway, "t").json()["detail"].startswith("all tables together have ")
    problem(post(gateway, "u", 3), 429, "backlog_full")
    publish_all(engine, owned_now(engine, "t"))
    publish_all(engine, owned_now(engine, "u"))
    assert_accepts_again(gateway, "u")


def test_a_recreated_table_begins_with_an_empty_backlog(gateway: Gateway, engine: sa.Engine) -> None:
    post(gateway, "t", 1, 2, 3)
    full(gateway, "t")
    table = current(engine, "t")
    sql.run(
        engine,
        """INSERT INTO mirrorgate.schema_versions (table_id, generation, version, key_columns, columns)
           SELECT table_id, 2, 1, key_columns, columns FROM mirrorgate.schema_versions WHERE table_id = :table_id""",
        table_id=table.table_id,
    )
    with engine.begin() as connection:
        new = "UPDATE mirrorgate.tables SET generation = 2, revision = revision + 1 WHERE table_id = :table_id"
        connection.execute(sa.text(new), {"table_id": table.table_id})
        reset = "UPDATE mirrorgate.table_counters SET last_sequence = 0 WHERE table_id = :table_id"
        connection.execute(sa.text(reset), {"table_id": table.table_id})
    assert_accepts_again(gateway, "t")


def test_the_backlog_is_looked_at_again_after_the_connection_broke(gateway: Gateway, engine: sa.Engine) -> None:
    wait_until(lambda: sql.end_sessions(engine, "mirrorgate backlog") > 0, within=30, what="the backlog is looked at")
    post(gateway, "t", 1, 2, 3)
    full(gateway, "t")
