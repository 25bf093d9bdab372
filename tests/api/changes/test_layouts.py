"""Layouts over HTTP: stored, audited, and applied to the next request."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.calls import Gateway, problem
from tests.api.commands import Terminal, staged
from tests.api.conftest import ClientWith
from tests.support.postgres import sql

LAYOUT = {
    "data": "row",
    "before_data": "old_*",
    "headers": "meta",
    "table": "meta.table",
    "operations": {"I": "insert", "D": "delete"},
}
INSERT = {"row": {"id": 1, "n": "a"}, "meta": {"operation": "I", "table": "t"}}
COLUMNS = {"id": "int64", "n": "string"}


def test_messages_of_a_stored_layout_land(gateway: Gateway) -> None:
    gateway.register("t", COLUMNS, ["id"]).raise_for_status()
    assert gateway.put("/v1/layouts/flat", json=LAYOUT).status_code == 201
    answer = gateway.replicate(INSERT, {"old_id": 1, "meta": {"operation": "d", "table": "t"}}, layout="flat")
    assert answer.json()["receipts"] == [{"table": "t", "generation": 1, "sequence": 1, "changes": 2, "rows": 2}]
    assert staged(gateway.engine, "t") == [(1, "a"), (1, None)]


def test_a_change_of_a_layout_is_in_force_for_the_next_request(gateway: Gateway) -> None:
    gateway.register("t", COLUMNS, ["id"]).raise_for_status()
    gateway.put("/v1/layouts/flat", json=LAYOUT).raise_for_status()
    assert gateway.replicate(INSERT, layout="flat", dry_run="true").status_code == 200
    assert gateway.put("/v1/layouts/flat", json=LAYOUT | {"data": "image"}).status_code == 200
    details = problem(gateway.replicate(INSERT, layout="flat"), 422, "malformed_message")
    assert details["errors"][0]["pointer"] == "/image"
    assert gateway.replicate({"image": INSERT["row"], "meta": INSERT["meta"]}, layout="flat").status_code == 202
    assert gateway.delete("/v1/layouts/flat").status_code == 204
    problem(gateway.replicate(INSERT, layout="flat"), 404, "unknown_layout")


def test_a_layout_is_read_back_listed_and_audited_once(gateway: Gateway) -> None:
    for _ in range(2):
        gateway.put("/v1/layouts/flat", json=LAYOUT).raise_for_status()
    gateway.put("/v1/layouts/other", json={"data": "*", "headers": "headers_*", "schema": "s"}).raise_for_status()
    stored = gateway.get("/v1/layouts/flat").json()
    assert (stored["name"], stored["layout"], stored["changed_by"]) == ("flat", LAYOUT, "0000000000000001")
    assert [entry["name"] for entry in gateway.get("/v1/layouts").json()["layouts"]] == ["flat", "other"]
    gateway.delete("/v1/layouts/other")
    actions = sql.rows(
        gateway.engine, "SELECT action FROM mirrorgate.audit_events WHERE code IS NULL ORDER BY event_id"
    )
    assert [action for (action,) in actions] == ["set_layout", "set_layout", "delete_layout"]
    problem(gateway.get("/v1/layouts/other"), 404, "unknown_layout")
    problem(gateway.delete("/v1/layouts/other"), 404, "unknown_layout")


@pytest.mark.parametrize(
    ("layout", "status", "code", "pointer"),
    [
        ({"data": "row", "headers": "row"}, 422, "bad_layout", "/headers"),
        ({"data": "row", "rows": "x", "operation": "op"}, 400, "bad_request", "/rows"),
        ({"data": 5, "operation": "op"}, 400, "bad_request", "/data"),
        ({"data": "row", "operation": "op", "operations": {"I": "merge"}}, 400, "bad_request", "/operations/I"),
    ],
)
def test_a_layout_that_is_not_valid_is_not_stored(
    gateway: Gateway, layout: Any, status: int, code: str, pointer: str
) -> None:
    details = problem(gateway.put("/v1/layouts/flat", json=layout), status, code)
    assert details["errors"][0]["pointer"] == pointer
    assert gateway.get("/v1/layouts").json() == {"layouts": []}


def test_a_full_gateway_rejects_another_layout_and_still_replaces_one(gateway: Gateway) -> None:
    fill = """
        INSERT INTO mirrorgate.layouts (name, layout, changed_by)
        SELECT 'l' || n, CAST(:layout AS jsonb), 'test' FROM generate_series(1, 1000) AS n"""
    sql.run(gateway.engine, fill, layout=json.dumps(LAYOUT))
    problem(gateway.put("/v1/layouts/another", json=LAYOUT), 409, "layouts_full")
    assert gateway.put("/v1/layouts/l7", json=LAYOUT | {"data": "image"}).status_code == 200
    gateway.delete("/v1/layouts/l8").raise_for_status()
    assert gateway.put("/v1/layouts/another", json=LAYOUT).status_code == 201


@pytest.mark.parametrize("name", ["Flat", "a b", "x" * 65, "-a"])
def test_a_name_that_no_layout_can_have_is_rejected(gateway: Gateway, name: str) -> None:
    problem(gateway.put(f"/v1/layouts/{name}", json=LAYOUT), 400, "bad_request")
    problem(gateway.replicate(INSERT, layout=name), 400, "bad_request")


def test_a_key_may_send_by_a_layout_that_it_may_not_change(gateway: Gateway, client_with: ClientWith) -> None:
    assert client_with("register").put("/v1/layouts/flat", json=LAYOUT).status_code == 201
    gateway.register("t", COLUMNS, ["id"]).raise_for_status()
    assert client_with("ingest").replicate(INSERT, layout="flat").status_code == 202


def test_columns_and_pointers_route_messages_over_http(gateway: Gateway) -> None:
    gateway.register("t", COLUMNS, ["id"]).raise_for_status()
    message = {"data": {"id": 1, "n": "a", "tableName": "t"}, "headers": {"operation": "INSERT", "source": "t"}}
    assert gateway.replicate(message, table_from="data.tableName").status_code == 202
    unknown = problem(gateway.replicate(message, table_from="/headers/source"), 422, "unknown_column")
    assert unknown["errors"][0]["column"] == "tableName"
    problem(gateway.replicate(message, table_from="data_*"), 400, "bad_request")
    keyed = {"key": 1, "value": {"headers": {"operation": "DELETE"}}}
    problem(gateway.replicate(keyed, table="t", keyed="false"), 422, "malformed_message")
    assert gateway.replicate(keyed, table="t", keyed="true").status_code == 202
    assert gateway.replicate(keyed, table="t").json()["receipts"][0]["sequence"] == 3


def test_who_changed_a_layout_is_shown_to_those_who_may_change_it(gateway: Gateway, client_with: ClientWith) -> None:
    gateway.put("/v1/layouts/flat", json=LAYOUT).raise_for_status()
    for client, is_shown in (
        (client_with("read"), False),
        (client_with("read", "register", tables=["sales.*"]), False),
        (client_with("read", "register"), True),
        (client_with("admin"), True),
    ):
        [listed] = client.get("/v1/layouts").json()["layouts"]
        assert "changed_by" in listed if is_shown else "changed_by" not in listed
        assert client.get("/v1/layouts/flat").json() == listed


def test_the_commands_store_show_list_and_delete_a_layout(gateway: Gateway, terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "layout.json"
    file.write_text(json.dumps(LAYOUT))
    assert "flat: 5 parts" in terminal.run("layouts", "put", "flat", file).output
    assert json.loads(terminal.run("layouts", "show", "flat").output) == LAYOUT
    assert "data, before_data, headers" in terminal.run("layouts", "list").output
    assert json.loads(terminal.run("layouts", "list", "--json").output)[0]["layout"] == LAYOUT
    for other in ("flat?x", "flat#x", "flat/", ".", ""):
        assert terminal.run("layouts", "delete", other).status == 1
    assert "deleted" in terminal.run("layouts", "delete", "flat").output
    assert "flat: 5 parts" in terminal.run("layouts", "put", "flat", "-", typed=json.dumps(LAYOUT)).output
    terminal.succeed("layouts", "delete", "flat")
    assert gateway.get("/v1/layouts").json() == {"layouts": []}
    file.write_text("{")
    ended = terminal.run("layouts", "put", "flat", file)
    assert (ended.status, "is not JSON" in ended.errors) == (1, True)
    assert terminal.run("layouts", "put", "flat", tmp_path / "none.json").status == 2
