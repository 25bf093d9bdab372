"""`mirrorgate send --producer` with the real API: the same command continues exactly where it stopped."""

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.client.http import GatewayClient
from app.client.send.journal import Journal
from tests.api.calls import Gateway
from tests.api.commands import Ended, Terminal, lines, staged

ARCION = ("--format", "arcion")


class Killed(BaseException):
    """The process ends here."""


class Bomb:
    """Ends the process at one of the moments that matter: before and after each line of the journal is on the disk,
    before and after each request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: float = float("inf")
        fsync, post = os.fsync, GatewayClient.post_changes
        monkeypatch.setattr("app.client.send.journal.os.fsync", lambda file: self._around(lambda: fsync(file)))
        monkeypatch.setattr(GatewayClient, "post_changes", lambda *a, **k: self._around(lambda: post(*a, **k)))

    def _around(self, act: Callable[[], Any]) -> Any:
        self._tick()
        result = act()
        self._tick()
        return result

    def _tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


@pytest.fixture
def terminal(
    gateway: Gateway,
    api_address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Terminal:
    """Give a terminal in a new folder, with a table to send to."""
    monkeypatch.chdir(tmp_path)
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"])
    return Terminal(api_address, monkeypatch, capsys)


@pytest.fixture
def bomb(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Bomb:
    return Bomb(monkeypatch)


@pytest.fixture(scope="module")
def numbers() -> "Iterator[int]":
    return count()


def keys(engine: sa.Engine, table: str = "t") -> list[int]:
    return [row[0] for row in staged(engine, table)]


def send(terminal: Terminal, file: object, *options: object, producer: str = "p") -> Ended:
    return terminal.run("send", file, *ARCION, "--producer", producer, "--give-up-after", 0, *options)


@given(
    deaths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9)), max_size=5),
    is_array=st.booleans(),
    last=st.integers(1, 9),
)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_message_lands_once_and_in_order_whatever_dies_and_whatever_limits_the_next_run_has(
    terminal: Terminal,
    gateway: Gateway,
    api_engine: sa.Engine,
    bomb: Bomb,
    numbers: "Iterator[int]",
    deaths: list[tuple[int, int]],
    is_array: bool,
    last: int,
) -> None:
    name = f"p{next(numbers)}"
    gateway.register(name, {"id": "int64", "note": "string"}, ["id"])
    messages = lines(12, table=name)
    Path(name).write_bytes(b"[" + b", ".join(messages) + b"]" if is_array else b"\n".join(messages))
    for moment, batch in deaths:
        bomb.left = moment
        with suppress(Killed):
            send(terminal, name, "--batch", batch, producer=name)
    bomb.left = float("inf")
    ended = send(terminal, name, "--batch", last, "--json", producer=name)
    assert ended.status == 0
    assert keys(api_engine, name) == list(range(12))
    assert gateway.get(f"/v1/producers/{name}").json()["sequence"] == ended.report["producer"]["sequence"]


def test_a_file_is_sent_once_and_the_next_one_goes_on_with_the_numbers(
    terminal: Terminal, api_engine: sa.Engine
) -> None:
    Path("a").write_bytes(b"\n".join(lines(5)))
    Path("b").write_bytes(gzip.compress(b"\n".join(lines(5, 5))))
    assert send(terminal, "a", "--batch", 2, "--json").report["producer"] == {"producer": "p", "sequence": 3}
    again = send(terminal, "a")
    assert (again.status, again.output) == (0, "accepted: 0 changes in 0 requests\n")
    assert "a was sent completely before" in again.errors
    assert send(terminal, "b", "--json").report["producer"]["sequence"] == 4
    assert keys(api_engine) == list(range(10))


def test_after_a_rejection_the_mended_file_goes_on(terminal: Terminal, api_engine: sa.Engine) -> None:
    Path("a").write_bytes(b"\n".join(lines(9, _5="x")))
    ended = send(terminal, "a", "--batch", 2)
    assert ended.status == 1
    assert "The same command then continues with message 4." in ended.errors
    Path("a").write_bytes(b"\n".join(lines(9)))
    assert send(terminal, "a", "--batch", 2).status == 0
    assert keys(api_engine) == list(range(9))


def test_another_content_under_a_number_that_is_durable_is_rejected(
    terminal: Terminal, api_engine: sa.Engine, bomb: Bomb
) -> None:
    Path("a").write_bytes(b"\n".join(lines(9)))
    bomb.left = 12  # the second request is durable, nobody here knows
    with pytest.raises(Killed):
        send(terminal, "a", "--batch", 2)
    before = keys(api_engine)
    Path("a").write_bytes(b"\n".join(lines(9, 1)))
    ended = send(terminal, "a")
    assert ended.status == 1
    assert "error producer_sequence_reused: number 2 of this producer was used for another request" in ended.errors
    assert "Messages 2 to 3 were sent before with other content" in ended.errors
    assert keys(api_engine) == before == list(range(4))


def test_a_file_that_changed_after_it_was_sent_is_rejected(terminal: Terminal) -> None:
    Path("a").write_bytes(b"\n".join(lines(2)))
    assert send(terminal, "a").status == 0
    Path("a").write_bytes(b"\n".join(lines(3)))
    ended = send(terminal, "a")
    assert ended.status == 1
    assert "was sent completely, 2 messages" in ended.errors
    assert "--from-message 2 without --producer" in " ".join(ended.errors.split())


def test_another_file_waits_for_the_end_of_the_one_before(terminal: Terminal, api_engine: sa.Engine) -> None:
    Path("a").write_bytes(b"\n".join(lines(4, _3="x")))
    Path("b").write_bytes(b"\n".join(lines(2, 10)))
    assert send(terminal, "a", "--batch", 2).status == 1
    ended = send(terminal, "b")
    assert (ended.status, "a is only partly sent and must be completed first" in ended.errors) == (1, True)
    Path("a").unlink()
    assert send(terminal, "b").status == 0
    assert keys(api_engine) == [0, 1, 10, 11]


@pytest.mark.parametrize("lost", ["journal", "gateway"])
def test_a_journal_and_a_gateway_with_different_pasts_are_told_apart(
    terminal: Terminal, api_engine: sa.Engine, lost: str
) -> None:
    Path("a").write_bytes(b"\n".join(lines(4)))
    assert send(terminal, "a", "--batch", 2).status == 0
    Path("b").write_bytes(b"\n".join(lines(4, 4)))
    if lost == "journal":
        Path(".mirrorgate/send/p.journal").unlink()
    else:
        with api_engine.begin() as connection:
            connection.execute(sa.text("UPDATE mirrorgate.producers SET last_sequence = 0"))
    ended = send(terminal, "b")
    assert (ended.status, "error producer_gap: " in ended.errors) == (1, True)
    assert keys(api_engine) == list(range(4))


def test_a_durable_request_whose_receipt_is_gone_is_not_sent_again(
    terminal: Terminal, api_engine: sa.Engine, bomb: Bomb
) -> None:
    Path("a").write_bytes(b"\n".join(lines(9)))
    bomb.left = 12
    with pytest.raises(Killed):
        send(terminal, "a", "--batch", 2)
    with api_engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM mirrorgate.request_receipts"))
    bomb.left = float("inf")
    assert send(terminal, "a", "--json").report["repeated"] == 1
    assert keys(api_engine) == list(range(9))


def test_standard_input_goes_on_when_the_same_stream_is_given_again(
    terminal: Terminal, api_engine: sa.Engine, bomb: Bomb
) -> None:
    def piped(content: bytes) -> Ended:
        reader, writer = os.pipe()
        os.write(writer, content)
        os.close(writer)
        before = os.dup(0)
        os.dup2(reader, 0)
        try:
            return send(terminal, "-", "--batch", 2)
        finally:
            os.dup2(before, 0)
            os.close(before)
            os.close(reader)

    bomb.left = 12
    with pytest.raises(Killed):
        piped(b"\n".join(lines(9)))
    bomb.left = float("inf")
    assert piped(b"\n".join(lines(9))).status == 0
    assert piped(b"\n".join(lines(3, 9))).status == 0
    assert keys(api_engine) == list(range(12))


def test_a_gateway_that_is_away_is_given_up_with_an_exit_status_of_its_own(terminal: Terminal) -> None:
    Path("a").write_bytes(b"\n".join(lines(2)))
    terminal.address = "http://127.0.0.1:9"
    for producer in ((), ("--producer", "p")):
        ended = terminal.run("send", "a", *ARCION, "--give-up-after", 0, *producer)
        assert (ended.status, "error not_ready: " in ended.errors) == (3, True)


def test_two_processes_never_send_for_one_producer(terminal: Terminal) -> None:
    Path("a").write_bytes(b"\n".join(lines(2)))
    with Journal.opened(Path(".mirrorgate/send"), "p"):
        ended = send(terminal, "a")
    assert (ended.status, "error already_running: " in ended.errors) == (1, True)


@pytest.mark.parametrize("producer", ["", "a/b", "ä", "x" * 101])
def test_a_producer_has_a_plain_name(terminal: Terminal, producer: str) -> None:
    Path("a").write_bytes(b"\n".join(lines(2)))
    assert send(terminal, "a", producer=producer).status == 2
