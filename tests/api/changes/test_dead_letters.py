"""Dead letters over HTTP and on the command line."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs
from typer.testing import CliRunner

from mirrorgate.cli.main import app
from tests.api.calls import ADMIN_KEY, Gateway, insert, problem
from tests.api.conftest import ClientWith
from tests.support.postgres import sql

LETTERS = "/v1/tables/t/dead-letters"
SECRET = "a-value-nobody-logs"
KEEP = {"on_reject": "dead_letter"}


@pytest.fixture
def table(gateway: Gateway) -> Gateway:
    """Give a gateway with a table `t` that keeps dead letters."""
    columns = [{"name": "id", "type": "int64", "nullable": False}, {"name": "n", "type": "int32"}]
    wanted = {"key_columns": ["id"], "columns": columns, "options": {"dead_letters": "accept"}}
    gateway.put("/v1/tables/t", json=wanted).raise_for_status()
    return gateway


def left(gateway: Gateway, *messages: Any) -> list[int]:
    """Post these messages and return the ids of all pending dead letters."""
    gateway.arcion(*(messages or [bad()]), **KEEP).raise_for_status()
    found = gateway.get(LETTERS, params={"state": "waiting"}).raise_for_status().json()["letters"]
    return [letter["id"] for letter in found]


def bad(key: int = 2) -> dict[str, Any]:
    return insert("t", id=str(key), n=SECRET)


def metric(gateway: Gateway, name: str) -> float:
    lines = gateway.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def test_an_answer_counts_the_messages_that_are_kept_and_so_do_status_and_metrics(table: Gateway) -> None:
    before = metric(table, "mirrorgate_dead_letters_total{")
    response = table.arcion(insert("t", id="1"), bad(), **KEEP)
    assert response.status_code == 202
    assert {name: response.json()[name] for name in ("dead_letters", "ignored", "replayed")} == {
        "dead_letters": 1,
        "ignored": 0,
        "replayed": False,
    }
    assert table.status("t")["dead_letters"]["waiting"] == 1
    assert metric(table, "mirrorgate_dead_letters_total{") == before + 1
    assert metric(table, 'mirrorgate_waiting_dead_letters{table="t"}') == 1


def test_without_the_parameter_a_request_is_all_or_nothing(table: Gateway) -> None:
    for parameters in ({}, {"on_reject": "reject"}):
        problem(table.arcion(insert("t", id="1"), bad(), **parameters), 422, "bad_value")
    status = table.status("t")
    assert (status["accepted"]["rows"], status["dead_letters"]) == (0, {"waiting": 0, "oldest_seconds": 0})


@pytest.mark.parametrize("parameters", [{"on_reject": "drop"}, KEEP | {"dry_run": "true"}])
def test_what_cannot_be_asked_for_is_rejected(table: Gateway, parameters: dict[str, str]) -> None:
    problem(table.arcion(bad(), **parameters), 400, "bad_request")


def test_a_repeated_request_keeps_its_letters_once(table: Gateway) -> None:
    def post() -> httpx.Response:
        return table.post("/v1/changes/arcion", json=[bad()], params=KEEP, headers={"Idempotency-Key": "k"})

    first, second = post(), post()
    assert (first.status_code, second.status_code) == (202, 200)
    assert second.json() == first.json() | {"replayed": True}
    [letter] = table.get(LETTERS).json()["letters"]
    assert (letter["request"], letter["producer_sequence"]) == ("k", None)


def test_letters_are_listed_in_pages_without_any_value(table: Gateway) -> None:
    ids = left(table, bad(1), bad(2), bad(3))
    first = table.get(LETTERS, params={"limit": 2})
    assert SECRET not in first.text
    assert ([letter["id"] for letter in first.json()["letters"]], first.json()["next_after"]) == (ids[:2], ids[1])
    second = table.get(LETTERS, params={"limit": 2, "after": ids[1]}).json()
    assert ([letter["id"] for letter in second["letters"]], second["next_after"]) == (ids[2:], None)
    [letter] = second["letters"]
    assert letter["errors"] == [
        {"code": "bad_value", "column": "n", "detail": letter["errors"][0]["detail"], "pointer": "/after/n"}
    ]
    assert (letter["index"], letter["format"], letter["state"]) == (2, "arcion", "waiting")


def test_a_message_is_downloaded_as_it_was_written_in_the_type_it_has(table: Gateway) -> None:
    parameters = KEEP | {"table": "t", "mode": "snapshot", "columns": "id,n"}
    headers = {"Content-Type": "text/csv"}
    table.post("/v1/changes/arcion", content=b"1,x\r\n", params=parameters, headers=headers).raise_for_status()
    body = json.dumps([bad(), insert("t", id="1")], indent=3).encode()
    headers = {"Content-Type": "application/json"}
    table.post("/v1/changes/arcion", content=body, params=KEEP, headers=headers).raise_for_status()
    second, first = (letter["id"] for letter in table.get(LETTERS).json()["letters"])
    message, record = table.get(f"{LETTERS}/{first}"), table.get(f"{LETTERS}/{second}")
    assert (message.content in body, message.json(), message.headers["content-type"]) == (
        True,
        bad(),
        "application/json",
    )
    assert (record.content, record.headers["content-type"]) == (b"1,x\r\n", "text/csv; charset=utf-8")


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("arcion", "application/json", bad()),
        ("replicate", "application/json", {"data": {"id": 2, "n": SECRET}, "headers": {"operation": "INSERT"}}),
        ("debezium", "application/json", {"before": None, "after": {"id": 2, "n": SECRET}, "op": "c", "source": {}}),
        ("rows", "application/json", {"id": 2, "n": SECRET}),
        ("rows", "text/csv", f"id,n\n2,{SECRET}\n"),
    ],
)
def test_a_message_of_each_format_is_downloaded(table: Gateway, path: str, content: str, message: Any) -> None:
    body = message if isinstance(message, str) else json.dumps(message)
    parameters, headers = KEEP | {"table": "t"}, {"Content-Type": content}
    table.post(f"/v1/changes/{path}", content=body, params=parameters, headers=headers).raise_for_status()
    (letter,) = table.get(LETTERS).json()["letters"]
    kept = table.get(f"{LETTERS}/{letter['id']}")
    assert (kept.status_code, kept.headers["content-type"].split(";")[0]) == (200, content)
    assert kept.text in body


def test_a_letter_is_replayed_with_a_corrected_message_and_then_settled(table: Gateway) -> None:
    [letter_id] = left(table)
    replay = f"{LETTERS}/{letter_id}/replay"
    rejected = problem(table.post(replay), 422, "bad_value")
    assert rejected["errors"][0]["pointer"] == "/after/n"
    response = table.post(replay, json=insert("t", id="2", n="7"))
    receipt = {"table": "t", "generation": 1, "sequence": 1, "changes": 1, "rows": 1}
    assert (response.status_code, response.json()) == (202, {"id": letter_id, "receipt": receipt})
    problem(table.post(replay), 409, "dead_letter_settled")
    [letter] = table.get(LETTERS).json()["letters"]
    assert (letter["state"], letter["corrected"], letter["replayed_sequence"]) == ("replayed", True, 1)
    assert table.status("t")["dead_letters"]["waiting"] == 0


def test_all_that_wait_are_replayed_by_one_call(table: Gateway) -> None:
    before = metric(table, "mirrorgate_replayed_dead_letters_total ")
    left(table, insert("t", id="1", new="x"), bad(), insert("t", id="3", new="y"))
    table.put("/v1/tables/t", json={"options": {"new_columns": "add_as_string"}}).raise_for_status()
    done = table.post(f"{LETTERS}/replay")
    assert (done.status_code, done.json()) == (202, {"replayed": 2, "rejected": 1, "next_after": None})
    assert table.status("t")["accepted"]["rows"] == 2
    assert metric(table, "mirrorgate_replayed_dead_letters_total ") == before + 2


def test_discarding_leaves_an_event_and_a_letter_that_can_still_be_read(table: Gateway) -> None:
    first, second, third = left(table, bad(), bad(), bad())
    for expected in (1, 0):
        assert table.delete(f"{LETTERS}/{first}").json() == {"discarded": expected}
    through = {"through": second, "generation": 1}
    problem(table.delete(LETTERS, params=through | {"generation": 2}), 409, "generation_mismatch")
    assert table.delete(LETTERS, params={"through": second}).status_code == 400
    assert table.delete(LETTERS, params=through).json() == {"discarded": 1}
    problem(table.post(f"{LETTERS}/{first}/replay"), 409, "dead_letter_settled")
    assert table.get(f"{LETTERS}/{first}").json() == bad()
    assert [letter["state"] for letter in table.get(LETTERS).json()["letters"]] == [*["discarded"] * 2, "waiting"]
    events = table.get("/v1/tables/t/events").json()["events"]
    assert [(event["action"], event["details"]) for event in events] == [
        ("dead letters discarded", {"letters": 1, "through": first}),
        ("dead letters discarded", {"letters": 1, "through": second}),
    ]
    assert third


def test_letters_of_a_dropped_table_can_be_read_and_not_replayed(table: Gateway, api_engine: sa.Engine) -> None:
    [letter_id] = left(table)
    sql.run(api_engine, "UPDATE mirrorgate.tables SET state = 'dropped'")
    assert [letter["id"] for letter in table.get(LETTERS).json()["letters"]] == [letter_id]
    assert table.get(f"{LETTERS}/{letter_id}").json() == bad()
    assert (
        "present generation"
        in problem(table.post(f"{LETTERS}/{letter_id}/replay"), 409, "generation_mismatch")["remedy"]
    )


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/tables/none/dead-letters", "unknown_table"),
        ("GET", LETTERS + "/9999999", "unknown_dead_letter"),
        ("POST", LETTERS + "/9999999/replay", "unknown_dead_letter"),
        ("DELETE", LETTERS + "/9999999", "unknown_dead_letter"),
        ("POST", "/v1/tables/none/dead-letters/replay", "unknown_table"),
        ("DELETE", "/v1/tables/none/dead-letters?through=1&generation=1", "unknown_table"),
    ],
)
def test_what_is_not_there_is_not_found(table: Gateway, method: str, path: str, code: str) -> None:
    problem(table.request(method, path), 404, code)


def test_a_letter_is_found_under_its_own_table_only(table: Gateway) -> None:
    table.register("u", {"id": "int64"}).raise_for_status()
    [letter_id] = left(table)
    problem(table.get(f"/v1/tables/u/dead-letters/{letter_id}"), 404, "unknown_dead_letter")
    problem(table.post(f"/v1/tables/u/dead-letters/{letter_id}/replay"), 404, "unknown_dead_letter")


def test_readers_see_what_is_wrong_and_administrators_the_messages(table: Gateway, client_with: ClientWith) -> None:
    [letter_id] = left(table)
    reader, stranger = client_with("read", "ingest", "register"), client_with("admin", tables=["other"])
    assert len(reader.get(LETTERS).json()["letters"]) == 1
    calls = [
        ("GET", f"{LETTERS}/{letter_id}"),
        ("POST", f"{LETTERS}/{letter_id}/replay"),
        ("POST", f"{LETTERS}/replay"),
        ("DELETE", f"{LETTERS}/{letter_id}"),
        ("DELETE", f"{LETTERS}?through={letter_id}&generation=1"),
    ]
    for method, path in calls:
        problem(reader.request(method, path), 403, "forbidden")
        problem(stranger.request(method, path), 404, "unknown_table")
    problem(stranger.get(LETTERS), 404, "unknown_table")
    problem(client_with("ingest").get(LETTERS), 403, "forbidden")


class CommandLine:
    """`mirrorgate dead-letters` against one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._connection = ["--url", str(gateway.base_url), "--key", ADMIN_KEY]

    def __call__(self, command: str, *arguments: str) -> tuple[int, bytes]:
        with capture_logs():  # the gateway runs in this process
            ran = CliRunner().invoke(app, ["dead-letters", command, "t", *arguments, *self._connection])
        return ran.exit_code, ran.stdout_bytes


def test_the_command_line_lists_shows_replays_and_discards(table: Gateway, tmp_path: Path) -> None:
    run = CommandLine(table)
    first, second, third = left(table, bad(1), insert("t", id="2", n="x"), bad(3))
    code, said = run("list", "--state", "waiting")
    assert (code, said.count(b"bad_value"), SECRET.encode() in said) == (0, 3, False)
    assert [letter["id"] for letter in json.loads(run("list", "--json")[1])] == [first, second, third]
    connection = ["--url", str(table.base_url), "--key", ADMIN_KEY]
    with capture_logs():
        of_all = CliRunner().invoke(app, ["dead-letters", "list", *connection])
        shown = CliRunner().invoke(app, ["tables", "show", "t", *connection])
        status = CliRunner().invoke(app, ["status", *connection])
    assert (of_all.output.splitlines()[0].split()[0], of_all.output.count("bad_value")) == ("table", 3)
    assert "dead_letters.waiting: 3" in shown.output.splitlines()
    assert status.output.splitlines()[0].endswith("dead letters")
    assert run("show", str(first)) == (0, json.dumps(bad(1), separators=(",", ":")).encode())
    corrected = tmp_path / "corrected.json"
    corrected.write_text(json.dumps(insert("t", id="1", n="1")))
    assert run("replay", str(first), "--file", str(corrected)) == (0, b"t: dead letter %d is batch 1\n" % first)
    assert run("replay") == (1, b"t: 0 replayed, 2 rejected again\n")
    assert run("discard", str(second)) == (0, b"t: 1 discarded\n")
    assert run("discard", "--through", str(third), "--generation", "1") == (0, b"t: 1 discarded\n")
    assert run("replay") == (0, b"t: 0 replayed, 0 rejected again\n")
    assert table.status("t")["dead_letters"]["waiting"] == 0


@pytest.mark.parametrize(
    "arguments", [("replay", "--file", "/dev/null"), ("discard",), ("discard", "1", "--through", "2"),
                  ("discard", "--through", "2")]
)  # fmt: skip
def test_the_command_line_rejects_what_it_cannot_mean(table: Gateway, arguments: tuple[str, ...]) -> None:
    assert CommandLine(table)(*arguments)[0] == 2
