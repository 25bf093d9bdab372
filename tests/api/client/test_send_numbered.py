"""`mirrorgate send --producer` with the real API: the same command continues exactly where it stopped."""

import gzip
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrorgate.http import GatewayClient
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import Ended, Terminal, keys, lines
from tests.api.objects.bridging import write, write_more_at_the_end

ARCION = ("--format", "arcion")


class Killed(BaseException):
    """The process ends here."""


class Bomb:
    """Ends the process at one of the moments that matter: before and after each request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: float = float("inf")
        post = GatewayClient.post_changes

        def around(*arguments: Any, **options: Any) -> Any:
            self._tick()
            answer = post(*arguments, **options)
            self._tick()
            return answer

        monkeypatch.setattr(GatewayClient, "post_changes", around)

    def _tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


@pytest.fixture(autouse=True)
def folder_and_table(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a new folder, with a table to send to."""
    monkeypatch.chdir(tmp_path)
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"])


@pytest.fixture
def bomb(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Bomb:
    return Bomb(monkeypatch)


def send(terminal: Terminal, file: object, *options: object, producer: str = "p") -> Ended:
    return terminal.run("send", file, *ARCION, "--producer", producer, "--give-up-after", 0, *options)


@given(
    deaths=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 9)), max_size=5),
    is_array=st.booleans(),
    parts=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    last=st.integers(1, 9),
)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_message_lands_once_and_in_order_whatever_dies_and_whatever_limits_the_next_run_has(
    terminal: Terminal,
    gateway: Gateway,
    bomb: Bomb,
    numbers: Iterator[int],
    deaths: list[tuple[int, int]],
    is_array: bool,
    parts: list[int],
    last: int,
) -> None:
    name = f"p{next(numbers)}"
    gateway.register(name, {"id": "int64", "note": "string"}, ["id"])
    messages = lines(sum(parts), table=name)
    for number, count_of_part in enumerate(parts):
        part, messages = messages[:count_of_part], messages[count_of_part:]
        write(Path(name), {f"{number}.json": b"[" + b", ".join(part) + b"]" if is_array else b"\n".join(part)})
    for moment, batch in deaths:
        bomb.left = moment
        with suppress(Killed):
            send(terminal, name, "--batch", batch, producer=name)
    bomb.left = float("inf")
    ended = send(terminal, name, "--batch", last, "--json", producer=name)
    assert ended.status == 0
    assert keys(gateway.engine, name) == list(range(sum(parts)))
    if sum(parts):
        assert gateway.get(f"/v1/producers/{name}").json()["sequence"] == ended.report["producer"]["sequence"]


def test_a_file_is_sent_once_and_the_next_one_continues_with_the_numbers(
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


@pytest.mark.parametrize("content", [lines(2), lines(3)], ids=["unchanged", "changed"])
def test_a_file_that_sorts_before_the_one_that_was_sent_last_is_rejected(
    terminal: Terminal, api_engine: sa.Engine, content: list[bytes]
) -> None:
    write(Path(), {name: b"\n".join(lines(2, 2 * number)) for number, name in enumerate(["in/a", "in/b/c"])})
    for name in ("in/a", "in/b/c"):
        assert send(terminal, name).status == 0
    Path("in/a").write_bytes(b"\n".join(content))
    write(Path("other"), {"a": lines(1, 4)[0]})
    ended = send(terminal, "in/a")
    assert (ended.status, "error source_order_unsafe: in/a sorts before " in ended.errors) == (1, True)
    assert send(terminal, "in/b/c").status == 0
    assert send(terminal, "other/a").status == 0
    assert keys(api_engine) == list(range(5))


def test_files_and_folders_are_sent_in_the_order_of_the_command_and_those_of_a_folder_by_their_paths(
    terminal: Terminal, api_engine: sa.Engine
) -> None:
    names = ["z.json", "in/2026/11/01.json", "in/2026/11/02.json", "in/2027.json"]
    write(Path(), {name: b"\n".join(lines(2, 2 * number)) for number, name in enumerate(names)})
    write(Path(), {"in/_old/x": b"no", "in/x.tmp": b"no", "in/empty": b""})
    given = ("z.json", "in", "in/2027.json", "z.json")  # each file once, however often it is given
    ended = send(terminal, *given, "--json")
    assert (ended.status, ended.report["files"], ended.report["changes"]) == (0, 5, 8)
    assert "in/2027.json: sent completely, 2 messages" in ended.errors
    assert send(terminal, *given, "--json").report["changes"] == 0
    assert keys(api_engine) == list(range(8))


def test_a_folder_continues_after_the_file_that_was_sent_last_even_if_that_is_gone(
    terminal: Terminal, api_engine: sa.Engine
) -> None:
    write(Path("in"), {"a": b"\n".join(lines(2)), "b": b"\n".join(lines(2, 2))})
    assert send(terminal, "in").status == 0
    write(Path("in"), {"c": b"\n".join(lines(2, 4))})
    ended = send(terminal, "in", "--json")
    assert (ended.report["files"], "2 files were sent completely before" in ended.errors) == (1, True)
    Path("in/c").unlink()
    write(Path("in"), {"d": b"\n".join(lines(2, 6))})
    assert send(terminal, "in").status == 0
    write(Path("in"), {"bb": b"\n".join(lines(2, 8))})
    os.utime("in/bb", (2**33, 2**33))
    ended = send(terminal, "in")
    assert (ended.status, "error source_order_unsafe: 1 files before the one" in ended.errors) == (1, True)
    assert "in/bb" in ended.errors
    assert keys(api_engine) == list(range(8))


def test_after_a_rejection_the_corrected_file_continues_and_a_changed_beginning_is_rejected(
    terminal: Terminal, api_engine: sa.Engine
) -> None:
    Path("a").write_bytes(b"\n".join(lines(9, _5="x")))
    ended = send(terminal, "a", "--batch", 2)
    assert ended.status == 1
    assert "The same command then continues with message 4." in ended.errors
    Path("a").write_bytes(b"\n".join(lines(9, _2="x")))
    ended = send(terminal, "a")
    assert (ended.status, "error source_position_lost: " in ended.errors) == (1, True)
    Path("a").write_bytes(b"\n".join(lines(9)))
    assert send(terminal, "a", "--from-message", 4).status == 1
    assert send(terminal, "a", "--batch", 2).status == 0
    assert keys(api_engine) == list(range(9))


def test_a_file_that_changed_after_it_was_sent_is_rejected(terminal: Terminal) -> None:
    Path("a").write_bytes(b"\n".join(lines(2)))
    assert send(terminal, "a").status == 0
    Path("a").write_bytes(b"\n".join(lines(3)))
    ended = send(terminal, "a")
    assert (ended.status, "a was sent completely and has changed since" in ended.errors) == (1, True)


def test_the_end_of_a_file_that_is_written_while_it_is_read_is_sent_when_it_is_complete(
    terminal: Terminal, api_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"\n".join(lines(4))
    Path("a").write_bytes(content[:-1])
    write_more_at_the_end(monkeypatch, Path("a"), content[-1:])
    ended = send(terminal, "a", "--batch", 2)
    assert (ended.status, "the file was changed while it was read" in ended.errors) == (1, True)
    assert send(terminal, "a", "--batch", 2).status == 0
    assert keys(api_engine) == [0, 1, 2, 3]


def test_another_file_waits_for_the_end_of_the_one_before(terminal: Terminal, api_engine: sa.Engine) -> None:
    Path("a").write_bytes(b"\n".join(lines(4, _3="x")))
    Path("b").write_bytes(b"\n".join(lines(2, 10)))
    assert send(terminal, "a", "--batch", 2).status == 1
    ended = send(terminal, "b")
    assert (ended.status, "a is only partly sent and must be completed first" in ended.errors) == (1, True)
    Path("a").unlink()
    assert send(terminal, "b").status == 0
    assert keys(api_engine) == [0, 1, 10, 11]


def test_a_path_that_is_too_long_for_a_position_is_found_again(terminal: Terminal, api_engine: sa.Engine) -> None:
    folder = Path("/".join("x" * 100 for _ in range(3)))
    write(folder, {"a": b"\n".join(lines(4)), "b": b"\n".join(lines(4, 4, _6="x"))})
    assert send(terminal, folder, "--batch", 2).status == 1
    write(folder, {"b": b"\n".join(lines(4, 4))})
    assert send(terminal, folder).status == 0
    assert keys(api_engine) == list(range(8))


def test_a_producer_that_another_program_uses_is_rejected(
    terminal: Terminal, api_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a").write_bytes(b"\n".join(lines(4)))
    post = GatewayClient.post_changes

    def after_another(client: GatewayClient, source_format: str, body: bytes, **options: Any) -> Any:
        monkeypatch.setattr(GatewayClient, "post_changes", post)
        post(client, "arcion", lines(1, 100)[0], headers=options["headers"])
        return post(client, source_format, body, **options)

    monkeypatch.setattr(GatewayClient, "post_changes", after_another)
    ended = send(terminal, "a")
    assert (ended.status, "another process sends as the producer p" in ended.errors) == (1, True)
    with GatewayClient(api_address, ADMIN_KEY) as client:
        headers = {"Mirrorgate-Producer": "q", "Mirrorgate-Producer-Sequence": "1"}
        client.post_changes("arcion", lines(1, 200)[0], headers=headers)
    ended = send(terminal, "a", producer="q")
    assert (ended.status, "error producer_shared: " in ended.errors) == (1, True)


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

    bomb.left = 4  # the second request is durable, and its answer is lost
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


@pytest.mark.parametrize("producer", ["", "a/b", "ä", "x" * 101])
def test_a_producer_has_a_plain_name(terminal: Terminal, producer: str) -> None:
    Path("a").write_bytes(b"\n".join(lines(2)))
    assert send(terminal, "a", producer=producer).status == 2
