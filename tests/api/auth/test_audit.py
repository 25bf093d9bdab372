"""The audit records every rejection and every operation, and never a row value."""

from typing import Any

import pytest

from tests.api.calls import ADMIN_KEY, Gateway, insert, problem
from tests.api.commands import Terminal
from tests.api.conftest import ClientWith
from tests.support.postgres import sql
from tests.support.samples.messages import metadata
from tests.support.waiting import wait_until

COLUMNS = {"id": "int64"}
ADMIN_ID = ADMIN_KEY.split("_")[1]


def key_of(client: Gateway) -> str:
    return str(client.headers["Authorization"]).split("_")[1]


def rejections(gateway: Gateway, count: int, **wanted: Any) -> list[dict[str, Any]]:
    """Wait until there are this many rejections, which are written shortly after the answer; return them."""

    def written() -> list[dict[str, Any]] | None:
        found = gateway.audit(outcome="rejected", **wanted)
        return found if sum(event["times"] for event in found) >= count else None

    return wait_until(written, within=30, what="the rejections are written")


def test_a_missing_right_is_kept_with_key_route_and_table(gateway: Gateway, client_with: ClientWith) -> None:
    client = client_with("read")
    rejected = client.register("Sales.Orders", COLUMNS)
    problem(rejected, 403, "forbidden")
    [event] = rejections(gateway, 1, subject=key_of(client))
    assert event.pop("id") > 0
    assert event.pop("happened_at").endswith(":00Z")
    assert event == {
        "request_id": rejected.headers["x-request-id"],
        "subject": key_of(client),
        "subject_name": None,
        "action": "PUT /v1/tables/{table}",
        "table": "sales.orders",
        "generation": None,
        "outcome": "rejected",
        "status": 403,
        "code": "forbidden",
        "times": 1,
        "reason": None,
        "details": {},
    }


@pytest.mark.parametrize("is_there", [True, False])
def test_a_table_outside_the_patterns_is_kept_whether_it_exists_or_not_and_a_missing_one_within_is_not(
    gateway: Gateway, client_with: ClientWith, is_there: bool
) -> None:
    if is_there:
        gateway.register("hr.people", COLUMNS).raise_for_status()
    client = client_with("read", "ingest", "register", tables=["sales.*"])
    problem(client.get("/v1/tables/sales.nobody"), 404, "unknown_table")
    problem(client.get("/v1/tables/hr.people"), 404, "unknown_table")
    problem(client.arcion(insert("hr.people", id="1")), 404, "unknown_table")
    problem(client.arcion(insert("sales.nobody", id="1")), 404, "unknown_table")
    snapshot = {"table": "hr.people", "mode": "snapshot", "columns": "id"}
    problem(client.body("arcion", "1\r\n", "text/csv", **snapshot), 404, "unknown_table")
    found = rejections(gateway, 3, subject=key_of(client))
    assert {(event["action"], event["table"], event["times"]) for event in found} == {
        ("GET /v1/tables/{table}", "hr.people", 1),
        ("POST /v1/changes/arcion", "hr.people", 2),
    }


def test_a_metadata_message_without_its_right_or_outside_the_tables_is_kept(
    gateway: Gateway, client_with: ClientWith
) -> None:
    registration = metadata("HR.EMPLOYEES", {"id": "INT8"})
    weak, bounded = client_with("ingest"), client_with("ingest", "register", tables=["sales.*"])
    problem(weak.replicate(registration), 403, "forbidden")
    problem(bounded.replicate(registration), 404, "unknown_table")
    assert [event["status"] for event in rejections(gateway, 1, subject=key_of(weak))] == [403]
    assert [event["table"] for event in rejections(gateway, 1, subject=key_of(bounded))] == ["hr.employees"]
    client_with("ingest", "register", tables=["hr.*"]).replicate(registration).raise_for_status()
    [event] = gateway.audit(table="hr.employees", outcome="done")
    assert (event["action"], event["details"]) == ("register_table", {"outcome": "created", "by": "metadata message"})


def test_calls_without_a_valid_key_are_counted_together_and_a_wrong_secret_under_its_key(
    gateway: Gateway, client_with: ClientWith, anonymous: Gateway
) -> None:
    client = client_with("read")
    with Gateway.at(gateway.address, str(client.headers["Authorization"]).removeprefix("Bearer ")[:-1]) as wrong:
        problem(wrong.get("/v1/tables"), 401, "unauthenticated")
    with Gateway.at(gateway.address, "mg_deadbeef_" + "x" * 43) as unknown:
        for number in range(5):
            problem(unknown.get(f"/v1/tables/t{number}"), 401, "unauthenticated")
            problem(anonymous.get(f"/v1/tables/t{number}"), 401, "unauthenticated")
    [tried] = rejections(gateway, 1, subject=key_of(client))
    assert (tried["action"], tried["status"], tried["table"]) == ("GET /v1/tables", 401, None)
    nobody = [event for event in rejections(gateway, 11) if event["action"] == "GET /v1/tables/{table}"]
    assert sum(event["times"] for event in nobody) == 10
    assert {(event["subject"], event["table"]) for event in nobody} == {(None, None)}
    assert len(nobody) <= 2, "one row for each minute"


def test_a_call_is_rejected_as_always_while_the_audit_cannot_be_written_and_is_kept_when_it_can(
    gateway: Gateway, client_with: ClientWith
) -> None:
    client = client_with("read")
    sql.run(gateway.engine, "ALTER TABLE mirrorgate.audit_events RENAME TO away")
    try:
        problem(client.get("/v1/keys"), 403, "forbidden")
        client.get("/v1/tables").raise_for_status()
    finally:
        sql.run(gateway.engine, "ALTER TABLE mirrorgate.away RENAME TO audit_events")
    assert len(rejections(gateway, 1, subject=key_of(client))) == 1


def test_every_act_is_kept_once_with_who_did_it_and_in_which_request(gateway: Gateway, client_with: ClientWith) -> None:
    key = gateway.new_key("admin", "ingest")
    answers = [
        gateway.register("orders", COLUMNS),
        gateway.register("orders", COLUMNS),
        gateway.register("orders", COLUMNS | {"more": "string"}),
        gateway.post("/v1/tables/orders/pause", params={"generation": 1}),
        gateway.post(f"/v1/keys/{key['id']}/rotate", json={"overlap_seconds": 5}),
        gateway.delete(f"/v1/keys/{key['id']}"),
    ]
    assert all(answer.is_success for answer in answers)
    acts = gateway.audit(outcome="done")
    assert {act["subject"] for act in acts} == {ADMIN_ID}
    assert [(act["action"], act["table"], act["details"]) for act in acts] == [
        ("create_key", None, {"key": key["id"], "rights": ["admin", "ingest"], "tables": ["*"], "expires_at": None}),
        ("register_table", "orders", {"outcome": "created"}),
        ("change schema", "orders", {"schema_version": 2, "added": [{"name": "more", "type": "string"}]}),
        ("pause", "orders", {}),
        ("rotate_key", None, {"key": key["id"], "overlap_seconds": 5}),
        ("delete_key", None, {"key": key["id"]}),
    ]
    changed = [answer.headers["x-request-id"] for answer in (*answers[:1], *answers[2:])]
    assert [act["request_id"] for act in acts[1:]] == changed


def test_tables_are_named_as_they_are_registered_also_after_they_are_gone(gateway: Gateway) -> None:
    gateway.register("HR.Employees", COLUMNS).raise_for_status()
    gateway.post("/v1/tables/hr.employees/pause", params={"generation": 1}).raise_for_status()
    gateway.delete("/v1/tables/hr.employees", params={"generation": 1}).raise_for_status()
    assert {event["table"] for event in gateway.audit()} == {"HR.Employees"}
    assert len(gateway.audit(table="hr.employees")) == len(gateway.audit())


def test_pages_follow_each_other_to_the_last(gateway: Gateway) -> None:
    for number in range(5):
        gateway.register(f"t{number}", COLUMNS)
    tables: list[str] = []
    after: int | None = 0
    while after is not None:
        page = gateway.get("/v1/audit", params={"after": after, "limit": 2, "outcome": "done"}).json()
        tables += [event["table"] for event in page["events"]]
        after = page["next_after"]
    assert tables == [f"t{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("wanted", "status", "code"),
    [
        ({"since": "2026-01-01T00:00:00"}, 400, "bad_request"),
        ({"since": "yesterday"}, 400, "bad_request"),
        ({"outcome": "lost"}, 400, "bad_request"),
        ({"subject": "\x00"}, 400, "bad_request"),
        ({"limit": 0}, 400, "bad_request"),
        ({"table": "a/b"}, 422, "bad_name"),
    ],
)
def test_a_filter_that_makes_no_sense_is_rejected(
    gateway: Gateway, wanted: dict[str, Any], status: int, code: str
) -> None:
    problem(gateway.get("/v1/audit", params=wanted), status, code)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_times_at_the_ends_of_the_calendar_are_taken(gateway: Gateway, moment: str) -> None:
    gateway.register("t", COLUMNS)
    expected = 1 if moment < "1" else 0
    assert len(gateway.audit(since=moment, outcome="done")) == expected
    assert len(gateway.audit(until=moment, outcome="done")) == 1 - expected


def test_the_command_shows_acts_and_rejections(
    gateway: Gateway, client_with: ClientWith, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    gateway.register("orders", COLUMNS)
    client = client_with("read")
    problem(client.get("/v1/keys"), 403, "forbidden")
    rejections(gateway, 1, subject=key_of(client))

    assert "register_table" in terminal.succeed("audit").output
    rejected = terminal.succeed("audit", "--outcome", "rejected", "--subject", key_of(client)).output
    assert "403 forbidden" in rejected
    assert "register_table" not in rejected
    registrar = client_with("register", tables=["sales.*"])
    problem(registrar.register("sales.a", COLUMNS, sources=["\x1b[2J.t"]), 404, "unknown_table")
    rejections(gateway, 1, subject=key_of(registrar))
    assert "\\x1b[2j.t" in terminal.succeed("audit").output, "a name does not change the terminal"
    assert terminal.succeed("audit", "--json", "--hours", "0", "--table", "nothing").output.splitlines()[-1] == "[]"
