"""Operations on tables over HTTP and by the command line: what is accepted, rejected, shown, and audited."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.calls import Gateway, insert, problem
from tests.api.commands import Terminal
from tests.api.conftest import ClientWith
from tests.support.gateway_parts import quarantined
from tests.support.postgres import sql
from tests.support.waiting import wait_until

COLUMNS = {"id": "int64"}


@pytest.fixture
def orders(gateway: Gateway) -> Gateway:
    """Give a gateway with a table `orders` in generation 1."""
    gateway.register("orders", COLUMNS, ["id"]).raise_for_status()
    return gateway


DROPS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "drop": ("DELETE", "/v1/tables/orders", {}),
    "recreate": ("POST", "/v1/tables/orders/recreate", {}),
    "rename": ("POST", "/v1/tables/orders/rename", {"json": {"name": "sales"}}),
}


@pytest.mark.parametrize("act", DROPS)
def test_a_drop_is_accepted_visible_and_rejects_changes_meanwhile(orders: Gateway, act: str) -> None:
    method, path, content = DROPS[act]
    answers = [orders.request(method, path, params={"generation": 1}, **content) for _ in range(2)]
    assert [(answer.status_code, answer.json()["state"]) for answer in answers] == [(202, "dropping")] * 2
    assert orders.status("orders")["state"] == "dropping"
    problem(orders.arcion(insert("orders", id="1")), 409, "table_not_accepting")
    [event] = orders.events("orders")
    assert (event["action"], event["generation"]) == (act, 1)


def act(client: Gateway, name: str, wanted: Any = None) -> httpx.Response:
    return client.post(f"/v1/tables/orders/{name}", params={"generation": 1}, json=wanted)


def test_what_a_table_is_recreated_with_is_checked_before_anything_is_dropped(orders: Gateway) -> None:
    wanted = {"columns": [{"name": "a", "type": "int64"}], "key_columns": ["b"]}
    problem(act(orders, "recreate", wanted), 422, "bad_schema")
    wanted = {"columns": [{"name": "a", "type": "int64"}], "options": {"insert_marker": "upsert"}}
    problem(act(orders, "recreate", wanted), 422, "bad_option")
    problem(act(orders, "recreate", {"columns": [{"name": "a ", "type": "int64"}]}), 422, "bad_name")
    assert orders.status("orders")["state"] == "active"


def test_a_table_is_renamed_only_to_a_free_name_that_the_key_may_touch(
    orders: Gateway, client_with: ClientWith
) -> None:
    orders.register("taken", COLUMNS, ["id"])
    for name in ("taken", "a/b", "ORDERS", "or\u200bders"):
        problem(act(orders, "rename", {"name": name}), 422, "bad_name")
    limited = client_with("admin", tables=["orders"])
    problem(act(limited, "rename", {"name": "free"}), 404, "unknown_table")


def test_a_release_says_why(orders: Gateway) -> None:
    problem(act(orders, "release", {"reason": ""}), 400, "bad_request")
    problem(act(orders, "release", {"reason": "looked"}), 409, "wrong_table_state")


def test_events_come_in_pages(orders: Gateway) -> None:
    for name in ("pause", "resume", "flush"):
        act(orders, name).raise_for_status()
    first = orders.get("/v1/tables/orders/events", params={"limit": 2}).json()
    second = orders.get("/v1/tables/orders/events", params={"limit": 2, "after": first["next_after"]}).json()
    assert [event["action"] for event in first["events"] + second["events"]] == ["pause", "resume", "flush"]
    assert second["next_after"] is None


def test_waiting_for_a_drop_does_not_take_that_of_an_earlier_table_for_it(orders: Gateway, terminal: Terminal) -> None:
    done = """INSERT INTO mirrorgate.table_events (table_id, folded_name, generation, actor, action, details)
        SELECT table_id, 'orders', 1, 'drain', 'drop done', '{"discarded_batches": 0, "discarded_rows": 0,
            "landed_again": 0}' FROM mirrorgate.tables WHERE folded_name = 'orders'"""
    sql.run(orders.engine, done)
    with ThreadPoolExecutor(1) as thread:
        command = thread.submit(terminal.run, "tables", "drop", "orders", "--generation", 1)
        wait_until(lambda: orders.status("orders")["state"] == "dropping", within=30, what="the drop begins")
        assert not command.done()
        sql.run(orders.engine, done)
        result = command.result(timeout=30)
    assert (result.status, "drop done" in result.output) == (0, True)
    events = orders.events("orders")
    assert [(event["action"], event["completes"]) for event in events] == [
        ("drop done", "drop"),
        ("drop", None),
        ("drop done", "drop"),
    ]


def test_the_command_releases_all_tables_of_one_reason_and_says_which(orders: Gateway, terminal: Terminal) -> None:
    orders.register("foreign", COLUMNS, ["id"])
    for name, reason in (("orders", "landing_folder_lost: gone"), ("foreign", "foreign_file: landing_folder_lost")):
        quarantined(orders.engine, name, reason)
    release = ("tables", "release", "--reason", "mounted again")
    first, again = (terminal.run(*release, "--all", "--code", "landing_folder_lost") for _ in range(2))
    assert (first.status, again.status) == (0, 0)
    assert "orders: released in generation 1; it was landing_folder_lost: gone" in first.output
    assert "1 tables released" in first.output
    assert "0 tables released" in again.output
    assert (orders.status("orders")["state"], orders.status("foreign")["state"]) == ("active", "quarantined")
    for wrong in (["orders"], ["--code", "landing_folder_lost"], ["--all"], ["--all", "--code", "nonsense"]):
        assert terminal.run(*release, *wrong).status == 2


def test_a_table_is_shown_with_its_columns_and_the_options_that_are_not_the_default(
    gateway: Gateway, terminal: Terminal
) -> None:
    gateway.register("Shop.Orders", {"id": "int64", "total": "decimal(12,2)"}, ["id"], exclude=["secret"])
    lines = terminal.run("tables", "show", "shop.orders").output.splitlines()
    assert lines[:4] == [
        "Shop.Orders: active, generation 1, schema 1",
        "",
        "column  type           nullable  key  note",
        "id      int64          no          1",
    ]
    assert "accepted.rows: 0" in lines
    assert 'options.exclude: ["secret"]' in lines
    assert [line for line in lines if line.startswith("options.")] == ['options.exclude: ["secret"]']
    assert lines[-1].endswith("options at the default (--json shows all)")
    assert not any(word in line for line in lines for word in ("True", "None", "['"))
    assert max(map(len, lines)) <= 80
    assert terminal.run("tables", "show", "shop.orders", "--json").report["options"]["seed_file"] is True


def test_a_registration_with_fewer_columns_says_which_stay(gateway: Gateway, terminal: Terminal) -> None:
    whole = gateway.register("t", {"id": "int64", "a": "string", "b": "string"}, ["id"])
    assert whole.json()["undeclared_columns"] == []
    fewer = gateway.register("t", {"id": "int64", "b": "string"}, ["id"])
    assert (fewer.status_code, fewer.json()["undeclared_columns"]) == (200, ["a"])
    assert fewer.json()["schema_version"] == 1
    said = terminal.run("tables", "register", "t", "--key-column", "id", "--column", "id:int64:required").output
    assert said.splitlines()[1] == "columns that you left out remain in the table: a, b"


def test_register_sets_options_that_are_json_or_text(gateway: Gateway, terminal: Terminal) -> None:
    column = ("--key-column", "id", "--column", "id:int64:required", "--column", "at:timestamp")
    texts = {"partial_updates": "complete", "row_images": "on", "seed_file": "false", "source_timezone": "UTC"}
    options = [part for name, text in texts.items() for part in ("--option", f"{name}={text}")]
    assert terminal.run("tables", "register", "t", *column, *options).status == 0
    assert gateway.status("t")["options"].items() >= (texts | {"seed_file": False}).items()
    wrong = terminal.run("tables", "register", "t", *column, "--option", "sorcery=1")
    assert (wrong.status, "bad_option" in wrong.errors) == (1, True)
    assert terminal.run("tables", "register", "t", *column, "--option", "row_images").status == 2


@pytest.mark.parametrize("content", [b"{", b"\xff"])
def test_a_schema_for_a_recreate_that_is_not_json_is_named(content: bytes, terminal: Terminal, tmp_path: Path) -> None:
    (file := tmp_path / "schema.json").write_bytes(content)
    ended = terminal.run("tables", "recreate", "t", "--generation", "1", "--schema", file)
    assert (ended.status, f"bad_schema: {file} is not JSON" in ended.errors) == (1, True)


@pytest.mark.parametrize("name", ["shop/orders", "", ".", ".."])
def test_a_name_that_would_be_another_path_is_no_name_of_a_table(name: str, terminal: Terminal) -> None:
    ended = terminal.run("tables", "show", name)
    assert (ended.status, "bad_name" in ended.errors) == (1, True)


def test_an_unknown_table_is_named_alike_by_every_call(gateway: Gateway) -> None:
    calls = [
        gateway.get("/v1/tables/shop.none"),
        gateway.post("/v1/tables/shop.none/pause", params={"generation": 1}),
        gateway.post("/v1/tables/shop.none/loads", json={"mode": "full"}),
        gateway.rows("shop.none", {"id": 1}),
        gateway.arcion(insert("shop.none", id="1")),
    ]
    for answer in calls:
        assert problem(answer, 404, "unknown_table")["detail"] == "table shop.none is not registered"
