"""`mirrorgate send` as a process: standard input, Ctrl-C, and its summary."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.client.send.fake_gateway import FakeGateway, accepts, answer, fake_gateway, rejects
from tests.support.cli_output import first_json
from tests.support.command_tree import find_command
from tests.support.http.stand_in import StandIn
from tests.support.processes import REPOSITORY, started

ENDED_BY_CTRL_C = 130


@contextmanager
def sending(
    gateway: FakeGateway, *arguments: str, text: str = '{"a":1}\n{"b":2}\n'
) -> Iterator["subprocess.Popen[str]"]:
    """Give the command that sends each message alone, its standard input open behind `text`."""
    connection = ("--url", gateway.url, "--key", "mg_a_key")
    command = ("mirrorgate.cli", "send", "-", "--format", "arcion", "--batch", "1", *connection, *arguments)
    with started(*command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.flush()
        yield process


def lines_until(process: "subprocess.Popen[str]", text: str) -> str:
    """Return what standard error says up to the line that holds `text`."""
    assert process.stderr is not None
    said = ""
    while text not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


def test_standard_input_is_sent_as_it_comes() -> None:
    with fake_gateway() as gateway, sending(gateway, "--json") as process:
        assert gateway.arrived.acquire(timeout=30)
        assert gateway.bodies == [b'{"a":1}\n']
        output, errors = process.communicate('{"c":3}\n', timeout=30)
    assert (process.returncode, errors) == (0, "")
    assert gateway.bodies[1:] == [b'{"b":2}\n', b'{"c":3}\n']
    assert first_json(output) == {
        "complete": True,
        "next_message": 3,
        "requests": 3,
        "changes": 3,
        "ignored": 0,
        "duplicates": 0,
        "repeated": 0,
        "files": 1,
        "bytes": 24,
        "tables": {"t": {"generation": 1, "last_sequence": 7, "changes": 3, "rows": 3}},
        "in_doubt": None,
        "producer": None,
        "error": None,
    }


@contextmanager
def interrupted(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", threading.Event]]:
    """Interrupt a command that waits for its second answer; the gateway gives it after the event."""
    release = threading.Event()

    def waits(handler: StandIn) -> None:
        release.wait(30)
        accepts(handler)

    with (
        fake_gateway(accepts, waits) as gateway,
        sending(gateway, *arguments, text='{"a":1}\n{"b":2}\n{"c":3}\n') as process,
    ):
        assert gateway.arrived.acquire(timeout=30) and gateway.arrived.acquire(timeout=30)
        process.send_signal(signal.SIGINT)
        lines_until(process, "Stopping after the answer")
        yield process, release
        release.set()
    assert process.returncode == ENDED_BY_CTRL_C


def test_ctrl_c_waits_for_the_answer_under_way() -> None:
    with interrupted() as (process, release):
        release.set()
        output, errors = process.communicate(timeout=30)
    assert output.startswith("accepted: 2 changes in 2 requests")
    assert errors == "interrupted: the messages before 2 were accepted\nto send the rest, add --from-message 2\n"


def test_a_second_ctrl_c_ends_at_once_and_tells_what_is_in_doubt() -> None:
    with interrupted("--json") as (process, _):
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert first_json(output)["in_doubt"] == [1, 1]
    assert "the messages before 1 were accepted; messages 1 to 1 may have been accepted too" in errors


def test_ctrl_c_while_nothing_comes_in_ends_at_once() -> None:
    with fake_gateway() as gateway, sending(gateway) as process:
        assert gateway.arrived.acquire(timeout=30)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == ENDED_BY_CTRL_C
        assert process.stderr is not None
        assert "to send the rest, add --from-message 1" in process.stderr.read()


def test_the_page_on_sending_names_options_that_there_are() -> None:
    options = {option for parameter in find_command("send").params for option in parameter.opts}
    named = set(re.findall(r"--[a-z]+(?:-[a-z]+)*", (REPOSITORY / "docs/send/files.md").read_text()))
    assert named <= options
    assert {"--producer", "--load", "--from-message"} <= named


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "csv", "--table", "t"], "requires --table and --mode"),
        (["--format", "arcion", "--delimiter", ";"], "--delimiter is for --format csv and rows-csv"),
        (["--format", "rows", "--table", "t", "--override"], "--override is for --format arcion"),
        (["--format", "rows", "--table", "t", "--parameter", "op=insert"], "--parameter op=… is the option --op"),
        (["--format", "debezium", "--parameter", "dry_run=true"], "send stages what it sends"),
        (["--format", "debezium", "--parameter", "tombstones"], "must be NAME=VALUE"),
        (["--format", "replicate", "--op", "insert"], "--op is for --format rows and rows-csv"),
        (["--format", "rows-csv"], "requires --table"),
        (["--format", "csv", "--table", "t", "--mode", "snapshot"], "columns_required"),
        (["--format", "arcion", "nowhere.json"], "nowhere.json cannot be read: No such file"),
        (["--format", "arcion", "--from-message", "2", "docs"], "--from-message is for one file"),
        (
            ["--format", "rows", "--table", "t", "--load", "full", "--producer", "p"],
            "--load does not accept --producer",
        ),
    ],
)
def test_options_that_do_not_fit_are_rejected(arguments: list[str], said: str) -> None:
    file = () if {"nowhere.json", "docs"} & set(arguments) else ("-",)
    with started("mirrorgate.cli", "send", *file, *arguments, "--key", "mg_a_key", stdin=subprocess.DEVNULL) as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode in (1, 2)
    assert said in " ".join(errors.replace("│", "").split())


def run(gateway: FakeGateway, *options: str) -> "subprocess.CompletedProcess[str]":
    """Send one message; both outputs go into one pipe, as in `mirrorgate send … | less`."""
    connection = ("--url", gateway.url, "--key", "mg_a_key")
    return subprocess.run(
        [sys.executable, "-m", "mirrorgate.cli", "send", "-", "--format", "arcion", *connection, *options],
        cwd=REPOSITORY, input='{"a":1}\n{"b":2}\n', text=True, timeout=60,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip


def test_a_rejection_is_said_once_and_nothing_is_called_accepted() -> None:
    error = {"index": 0, "pointer": "/after/a", "code": "bad_value", "detail": "value is not a number"}
    problem = {"code": "bad_value", "detail": "value is not a number", "remedy": "Correct it.", "errors": [error]}
    with fake_gateway(lambda handler: answer(handler, 422, problem)) as gateway:
        ran = run(gateway)
    assert ran.returncode == 1
    assert ran.stdout.splitlines() == [
        "error bad_value: message 0 /after/a: byte 0, line 1: value is not a number",
        "remedy: Correct it.",
    ]


def test_what_was_accepted_comes_before_the_rejection_and_is_counted_right() -> None:
    with fake_gateway(accepts, rejects(422, "bad_value")) as gateway:
        lines = run(gateway, "--batch", "1").stdout.splitlines()
    assert lines[0] == "accepted: 1 change in 1 request"
    assert lines[3] == "error bad_value: as the test says"
    assert "--from-message 1" in lines[4]
    assert len(lines) == 5


def test_without_a_gateway_the_remedy_is_to_start_one(tmp_path: Path) -> None:
    with started(
        "mirrorgate.cli", "status", "--url", "http://127.0.0.1:1", "--key", "mg_a_key", "--data-dir", tmp_path
    ) as process:
        _, errors = process.communicate(timeout=60)
    assert errors.startswith("error not_ready: no gateway answers at http://127.0.0.1:1\nremedy: Start one with ")
    assert "mirrorgate up" in errors and "--url" in errors
