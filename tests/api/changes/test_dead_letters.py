"""Dead letters over HTTP and on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.calls import Gateway, insert, problem
from tests.api.commands import Terminal

LETTERS = "/v1/tables/t/dead-letters"
SECRET = "a-value-nobody-logs"
KEEP = {"on_reject": "dead_letter"}


@pytest.fixture
def table(gateway: Gateway) -> Gateway:
    """Give a gateway with a table `t` that keeps dead letters."""
    gateway.register("t", {"id": "int64", "n": "int32"}, ["id"], dead_letters="accept").raise_for_status()
    return gateway


def left(gateway: Gateway, *messages: Any) -> list[int]:
    """Post these messages and return the ids of all pending dead letters."""
    gateway.arcion(*(messages or [bad()]), **KEEP).raise_for_status()
    return [letter["id"] for letter in gateway.letters("t", state="waiting")]


def bad(key: int = 2) -> dict[str, Any]:
    return insert("t", id=str(key), n=SECRET)


def test_an_answer_counts_the_messages_that_are_kept_and_so_do_status_and_metrics(table: Gateway) -> None:
    before = table.metric("dead_letters_total")
    response = table.arcion(insert("t", id="1"), bad(), **KEEP)
    assert response.status_code == 202
    assert response.json().items() >= {"dead_letters": 1, "ignored": 0, "replayed": False}.items()
    assert table.status("t")["dead_letters"]["waiting"] == 1
    assert table.metric("dead_letters_total") == before + 1
    assert table.metric('waiting_dead_letters{table="t"}') == 1


@pytest.mark.parametrize("parameters", [{"on_reject": "drop"}, KEEP | {"dry_run": "true"}])
def test_what_cannot_be_asked_for_is_rejected(table: Gateway, parameters: dict[str, str]) -> None:
    problem(table.arcion(bad(), **parameters), 400, "bad_request")


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
def test_a_message_of_each_format_is_downloaded_as_it_was_written(
    table: Gateway, path: str, content: str, message: Any
) -> None:
    body = message if isinstance(message, str) else json.dumps(message, indent=3)
    key = {"Idempotency-Key": "k"}
    table.body(path, body, content, key, table="t", **KEEP).raise_for_status()
    (letter,) = table.letters("t")
    assert (letter["request"], letter["producer_sequence"]) == ("k", None)
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
    [letter] = table.letters("t")
    assert (letter["state"], letter["corrected"], letter["replayed_sequence"]) == ("replayed", True, 1)
    assert table.status("t")["dead_letters"]["waiting"] == 0
    [event] = table.events("t")
    details = {"letter": letter["id"], "corrected": True, "sequence": 1}
    assert (event["action"], event["details"]) == ("dead letter replayed", details)


def test_all_that_wait_are_replayed_by_one_call(table: Gateway) -> None:
    before = table.metric("replayed_dead_letters_total")
    left(table, insert("t", id="1", new="x"), bad(), insert("t", id="3", new="y"))
    table.put("/v1/tables/t", json={"options": {"new_columns": "add_as_string"}}).raise_for_status()
    done = table.post(f"{LETTERS}/replay")
    assert (done.status_code, done.json()) == (202, {"replayed": 2, "rejected": 1, "next_after": None})
    assert table.status("t")["accepted"]["rows"] == 2
    assert table.metric("replayed_dead_letters_total") == before + 2


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
    assert [letter["state"] for letter in table.letters("t")] == [*["discarded"] * 2, "waiting"]
    assert [(event["action"], event["details"]) for event in table.events("t")] == [
        ("dead letters discarded", {"letters": 1, "through": first}),
        ("dead letters discarded", {"letters": 1, "through": second}),
    ]
    assert third


def test_a_letter_is_found_under_its_own_table_only(table: Gateway) -> None:
    table.register("u", {"id": "int64"}).raise_for_status()
    [letter_id] = left(table)
    problem(table.get(f"/v1/tables/u/dead-letters/{letter_id}"), 404, "unknown_dead_letter")
    problem(table.get(f"/v1/tables/u/dead-letters/{'9' * 5_000}"), 400, "bad_request")
    problem(table.post(f"/v1/tables/u/dead-letters/{letter_id}/replay"), 404, "unknown_dead_letter")


def test_the_command_line_lists_shows_replays_and_discards(table: Gateway, terminal: Terminal, tmp_path: Path) -> None:
    def run(command: str, *arguments: object) -> tuple[int, str]:
        ended = terminal.run("dead-letters", command, "t", *arguments)
        return ended.status, ended.output

    first, second, third = left(table, bad(1), insert("t", id="2", n="x"), bad(3))
    code, said = run("list", "--state", "waiting")
    assert (code, said.count("bad_value"), SECRET in said) == (0, 3, False)
    assert [letter["id"] for letter in json.loads(run("list", "--json")[1])] == [first, second, third]
    of_all = terminal.run("dead-letters", "list").output
    assert (of_all.splitlines()[0].split()[0], of_all.count("bad_value")) == ("table", 3)
    assert "dead_letters.waiting: 3" in terminal.run("tables", "show", "t").output.splitlines()
    assert terminal.run("status").output.splitlines()[0].endswith("dead letters")
    assert run("show", first) == (0, json.dumps(bad(1), separators=(",", ":")))
    corrected = tmp_path / "corrected.json"
    corrected.touch()
    empty = terminal.run("dead-letters", "replay", "t", third, "--file", corrected)
    assert (empty.status, "error empty_request: " in empty.errors) == (1, True)
    corrected.write_text(json.dumps(insert("t", id="1", n="1")))
    assert run("replay", first, "--file", corrected) == (0, f"t: dead letter {first} is batch 1\n")
    assert run("replay") == (1, "t: 0 replayed, 2 rejected again; `mirrorgate dead-letters list t` says why\n")
    assert run("discard", second) == (0, "t: 1 discarded\n")
    assert run("discard", "--through", third, "--generation", 1) == (0, "t: 1 discarded\n")
    assert run("replay") == (0, "t: 0 replayed, 0 rejected again\n")
    assert table.status("t")["dead_letters"]["waiting"] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "--file", "/dev/null"),
        ("discard",),
        ("discard", "1", "--through", "2"),
        ("discard", "--through", "2"),
    ],
)
@pytest.mark.usefixtures("table")
def test_the_command_line_rejects_what_it_cannot_mean(terminal: Terminal, arguments: tuple[str, ...]) -> None:
    command, *others = arguments
    assert terminal.run("dead-letters", command, "t", *others).status == 2
