"""`mirrorgate send --load` with the real API: a file becomes a load session, also after a crash."""

import csv
import io
import json
import subprocess
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mirrorgate.errors import Code
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.loads import Load
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import Ended, Terminal
from tests.support.gateway_parts import current
from tests.support.http.faulty_proxy import Held, kill_while_held
from tests.support.postgres import sql
from tests.support.processes import started
from tests.support.samples.images import stored_images

TABLE = "shop.prices"

Send = Callable[..., Ended]


@pytest.fixture
def table(gateway: Gateway) -> str:
    gateway.register(TABLE, {"id": "int64", "note": "string"}, ["id"], row_images="on").raise_for_status()
    return TABLE


@pytest.fixture
def send(terminal: Terminal, tmp_path: Path) -> Send:
    """Run the command on the same file, each time with this content."""

    def run(content: bytes, *options: object) -> Ended:
        file = tmp_path / "prices.csv"
        file.write_bytes(content)
        given = ("--format", "rows-csv", "--table", TABLE, *options)
        return terminal.run("send", file, *given)

    return run


def prices(keys: Iterable[int], note: str) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([("id", "note"), *((key, note) for key in keys)])
    return text.getvalue().encode()


def notes(engine: sa.Engine) -> dict[int, Any]:
    images = stored_images(engine, current(engine, TABLE)).values()
    return {int(str(image["id"])): image["note"] for image in images}


def loads(gateway: Gateway) -> list[str]:
    return [load["state"] for load in gateway.get(f"/v1/tables/{TABLE}/loads").json()["loads"]]


def test_a_file_is_loaded_again_whenever_its_content_is_new(gateway: Gateway, table: str, send: Send) -> None:
    assert send(prices(range(10), "a"), "--load", "full", "--batch", 4).status == 0
    ended = send(prices(range(5, 12), "b"), "--load", "full", "--json")
    assert (ended.status, ended.errors) == (0, "")
    load = ended.report["load"]
    assert (load["state"], load["rows"], load["deletes"]) == ("completed", 7, 5)
    assert notes(gateway.engine) == dict.fromkeys(range(5, 12), "b")
    assert "load completed: 1 row, 0 rows deleted" in send(prices([20], "c"), "--load", "append").output
    assert notes(gateway.engine) == dict.fromkeys(range(5, 12), "b") | {20: "c"}


def test_a_corrected_file_begins_a_new_load(gateway: Gateway, table: str, send: Send) -> None:
    wrong = prices([1, 2], "a") + b"not a number,x\n"
    assert send(wrong, "--load", "full", "--batch", 1).status == 1
    assert send(prices([2, 3], "b"), "--load", "full").status == 0
    assert loads(gateway) == ["completed", "aborted"]
    assert notes(gateway.engine) == {2: "b", 3: "b"}


def test_a_killed_load_continues_with_the_same_command(gateway: Gateway, table: str, tmp_path: Path) -> None:
    gateway.rows(table, {"id": 99, "note": "gone"}).raise_for_status()
    file = tmp_path / "prices.csv"
    file.write_bytes(prices(range(30), "a"))

    def sending(url: str) -> "AbstractContextManager[subprocess.Popen[str]]":
        options = ("--format", "rows-csv", "--table", table, "--load", "full", "--batch", 10)
        return started("mirrorgate.cli", "send", file, *options, "--url", url, "--key", ADMIN_KEY)

    kill_while_held(gateway.address, 4, Held.LOST, sending)
    assert loads(gateway) == ["open"]
    with sending(gateway.address) as process:
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, ""), output
    assert loads(gateway) == ["completed"]
    assert notes(gateway.engine) == dict.fromkeys(range(30), "a")
    assert sql.value(gateway.engine, "SELECT rows FROM mirrorgate.loads") == 30


@pytest.fixture
def second_request_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    post = GatewayClient.post_changes
    calls = count()

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return post(*arguments, **options)

    monkeypatch.setattr(GatewayClient, "post_changes", interrupted)


def test_the_load_of_a_file_that_has_changed_since_a_crash_is_aborted(
    gateway: Gateway, table: str, send: Send, second_request_is_interrupted: None
) -> None:
    assert send(prices(range(5), "a"), "--load", "full", "--batch", 3).status == 130
    ended = send(prices([1, 2], "changed"), "--load", "full")
    assert (ended.status, ended.errors) == (0, "")
    assert loads(gateway) == ["completed", "aborted"]
    assert notes(gateway.engine) == {1: "changed", 2: "changed"}


def test_a_file_is_loaded_into_several_tables(gateway: Gateway, terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_bytes(prices([1], "a"))
    for name in ("t", "u"):
        gateway.register(name, {"id": "int64", "note": "string"}, ["id"], row_images="on")
        terminal.succeed("send", file, "--table", name, "--load", "full")


def test_an_interrupted_load_is_continued_by_the_same_content_and_named_to_any_other(
    gateway: Gateway, table: str, terminal: Terminal, tmp_path: Path, second_request_is_interrupted: None
) -> None:
    files = {name: tmp_path / name for name in ("first", "other")}
    for name, file in files.items():
        file.write_bytes(prices(range(5), name))

    def load(name: str) -> Ended:
        options = ("--format", "rows-csv", "--table", TABLE, "--load", "full", "--batch", 3, "--json")
        return terminal.run("send", files[name], *options)

    assert load("first").status == 130
    (open_load,) = gateway.get(f"/v1/tables/{TABLE}/loads").json()["loads"]
    rejected = load("other")
    assert (rejected.status, rejected.report["error"]["code"]) == (1, "load_open")
    assert open_load["load"] in rejected.report["error"]["detail"]
    assert f"`mirrorgate tables abort-load {TABLE} {open_load['load']}`" in rejected.report["error"]["remedy"]
    ended = load("first")
    assert (ended.status, ended.report["repeated"], ended.report["load"]["load"]) == (0, 1, open_load["load"])
    assert notes(gateway.engine) == dict.fromkeys(range(5), "first")


def test_rows_that_come_back_within_a_file_land_in_their_order(gateway: Gateway, table: str, send: Send) -> None:
    content = b"id,note\n1,a\n1,b\n1,a\n"
    assert send(content, "--load", "full", "--batch", 1).status == 0
    assert notes(gateway.engine) == {1: "a"}


def test_the_loads_of_a_table_are_listed_and_the_open_one_is_aborted(
    gateway: Gateway, table: str, terminal: Terminal
) -> None:
    assert "there is no open load" in terminal.run("tables", "abort-load", table).output
    load = gateway.post(f"/v1/tables/{table}/loads", json={"mode": "full"}).json()["load"]
    listed = terminal.run("tables", "loads", table).output
    assert load in listed
    assert "open" in listed
    assert f"load {load} is aborted" in terminal.run("tables", "abort-load", table).output
    [found] = json.loads(terminal.run("tables", "loads", table, "--json").output)
    assert (found["load"], found["state"]) == (load, "aborted")


def test_a_load_needs_a_table_and_no_producer(send: Send) -> None:
    assert send(b"", "--load", "full", "--producer", "p").status == 2


def test_a_client_continues_a_load_that_it_knows_by_its_id(gateway: Gateway, table: str) -> None:
    gateway.rows(table, {"id": 1, "note": "gone"}).raise_for_status()
    with GatewayClient(gateway.address, ADMIN_KEY) as client:
        load = Load.begin(client, table, "full")
        client.post_changes("rows", b'[{"id": 2, "note": "a"}]', table=table, headers=load.headers)
        again = Load.begin(client, table, "full", load_id=load.load_id)
        assert again.complete()["deletes"] == 1
        assert again.status()["state"] == "completed"
        with pytest.raises(RejectedByGateway) as rejection:
            again.abort()
    assert rejection.value.code is Code.LOAD_ENDED
    assert notes(gateway.engine) == {2: "a"}
