"""The producers of examples/ against a real gateway: the same behavior in two languages, and a row from a third."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY, Gateway, insert, own_gateway
from tests.api.commands import staged
from tests.sdk.toolchains import node_modules
from tests.support.http.faulty_proxy import FaultyProxy, dropping_proxy
from tests.support.processes import REPOSITORY, read_line
from tests.support.waiting import wait_until

TABLE = "sales.orders"
EXAMPLES = REPOSITORY / "examples"


@pytest.fixture
def gateway(database_url: str) -> Iterator[Gateway]:
    with own_gateway(database_url) as client:
        client.register(TABLE, {"id": "int64"}, ["id"]).raise_for_status()
        yield client


@pytest.fixture
def proxy(gateway: Gateway) -> Iterator[FaultyProxy]:
    with dropping_proxy(gateway.address) as proxy:
        yield proxy


@pytest.fixture
def key(gateway: Gateway) -> str:
    """Create a key that may post changes, and no more."""
    return str(gateway.new_key("ingest", tables=["sales.*"])["key"])


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    return tmp_path / "orders.ndjson"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the TypeScript program; skip without Node."""
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "node_modules").symlink_to(node_modules())
    for name in ("producer.mts", "rows.mts", "package.json", "tsconfig.json"):
        shutil.copy(EXAMPLES / "typescript" / name, folder)
    checked = subprocess.run(
        ["node_modules/.bin/tsc"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert checked.returncode == 0, checked.stdout
    return folder / "build" / "producer.mjs"


@pytest.fixture(params=["python", pytest.param("typescript", marks=pytest.mark.slow)])
def program(request: pytest.FixtureRequest) -> list[str]:
    """Return the command of one producer, without its arguments."""
    if request.param == "python":
        return [sys.executable, str(EXAMPLES / "python" / "producer.py")]
    return ["node", str(request.getfixturevalue("compiled"))]


def add(outbox: Path, *lines: list[str]) -> None:
    """Append a line for each request, with an insert for each id."""
    with outbox.open("a") as file:
        for ids in lines:
            file.write(json.dumps([insert(TABLE, id=row) for row in ids]) + "\n")


def environment(url: str, key: str) -> dict[str, str]:
    return os.environ | {"MIRRORGATE_URL": url, "MIRRORGATE_API_KEY": key}


def produce(program: list[str], outbox: Path, url: str, key: str) -> "subprocess.CompletedProcess[str]":
    """Run a producer until it ends by itself."""
    return subprocess.run(
        [*program, str(outbox)], env=environment(url, key), capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def following(program: list[str], outbox: Path, url: str, key: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a producer that waits for more lines, and kill it at the end of the block."""
    with subprocess.Popen(
        [*program, str(outbox), "--follow"],
        env=environment(url, key),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def staged_rows(gateway: Gateway) -> int:
    return int(gateway.status(TABLE)["staged"]["rows"])


def test_each_line_is_staged_once_although_every_first_answer_is_lost(
    gateway: Gateway, proxy: FaultyProxy, key: str, outbox: Path, program: list[str]
) -> None:
    add(outbox, ["1"], ["2", "3"], ["4"])
    ran = produce(program, outbox, proxy.url, key)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [f"line {number}: durable already" for number in (1, 2, 3)]
    assert ran.stderr.count("repeating the request") == 4, "the question for the last number, and three lines"
    assert proxy.posted() == {1: 2, 2: 2, 3: 2}
    assert staged_rows(gateway) == 4


def test_a_producer_that_is_started_again_continues_after_the_last_durable_line(
    gateway: Gateway, proxy: FaultyProxy, key: str, outbox: Path, program: list[str]
) -> None:
    add(outbox, ["1"], ["2"])
    produce(program, outbox, proxy.url, key)
    proxy.seen.clear()
    add(outbox, ["3"])
    ran = produce(program, outbox, proxy.url, key)
    assert (ran.returncode, ran.stdout) == (0, "line 3: durable already\n")
    assert proxy.posted() == {3: 2}
    assert staged_rows(gateway) == 3


def test_a_killed_producer_loses_and_doubles_nothing(
    gateway: Gateway, key: str, outbox: Path, program: list[str]
) -> None:
    add(outbox, *[[str(row)] for row in range(200)])
    with following(program, outbox, gateway.address, key) as process:
        assert read_line(process) == "line 1: durable"
        process.kill()
    ran = produce(program, outbox, gateway.address, key)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1:] in (["line 200: durable"], []), "empty if the kill came after the last line"
    assert gateway.status(TABLE)["accepted"] == {"batches": 200, "changes": 200, "rows": 200}


def test_a_producer_that_follows_sends_new_lines_until_it_is_told_to_stop(
    gateway: Gateway, key: str, outbox: Path, program: list[str]
) -> None:
    add(outbox, ["1"])
    with following(program, outbox, gateway.address, key) as process:
        assert read_line(process) == "line 1: durable"
        with outbox.open("a") as file:
            half = json.dumps(insert(TABLE, id="2"))
            file.write(half[:20])
            file.flush()
            file.write(half[20:] + "\n")
        assert read_line(process) == "line 2: durable"
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout, stderr) == (0, "", "")
    assert staged_rows(gateway) == 2


def test_a_producer_that_waits_for_its_gateway_can_be_stopped(
    gateway: Gateway, key: str, outbox: Path, program: list[str]
) -> None:
    add(outbox, ["1"])
    with following(program, outbox, "http://127.0.0.1:9", key) as process:
        assert process.stderr is not None
        wait_until(lambda: "repeating the request" in process.stderr.readline(), within=30, what="it retries")
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr.splitlines()[-1]) == (0, "stopped; start the program again to continue")


def test_a_line_without_its_newline_is_not_sent_yet(
    gateway: Gateway, key: str, outbox: Path, program: list[str]
) -> None:
    add(outbox, ["1"], ["2"])
    whole = outbox.read_text()
    outbox.write_text(whole[:-1])
    ran = produce(program, outbox, gateway.address, key)
    assert (ran.returncode, ran.stdout) == (0, "line 1: durable\n")
    assert ran.stderr == "the last line has no newline: it is not sent\n"
    outbox.write_text(whole)
    assert produce(program, outbox, gateway.address, key).stdout == "line 2: durable\n"


def test_a_producer_waits_as_long_as_the_gateway_asks(gateway: Gateway, outbox: Path, program: list[str]) -> None:
    add(outbox, ["1"])
    slow = gateway.new_key("ingest", tables=["sales.*"], requests_per_second=1)["key"]
    ran = produce(program, outbox, gateway.address, slow)
    assert (ran.returncode, ran.stdout) == (0, "line 1: durable\n")
    waited = re.findall(r"^status 429: repeating the request in ([\d.]+) s$", ran.stderr, re.MULTILINE)
    assert waited and all(float(seconds) >= 1 for seconds in waited), ran.stderr


def test_a_line_that_is_rejected_stops_the_producer_until_it_is_corrected(
    gateway: Gateway, key: str, outbox: Path, program: list[str]
) -> None:
    add(outbox, ["1"], ["no number"], ["3"])
    rejected = produce(program, outbox, gateway.address, key)
    assert (rejected.returncode, rejected.stdout) == (1, "line 1: durable\n")
    summary, message, remedy, request = rejected.stderr.splitlines()
    assert summary.startswith("line 2: bad_value: ")
    assert message.startswith("  message 0 /after/id: ")
    assert remedy.startswith("  remedy: Correct the value")
    assert re.fullmatch(r"  request id: \w{32}", request)
    outbox.write_text(outbox.read_text().replace("no number", "2"))
    corrected = produce(program, outbox, gateway.address, key)
    assert (corrected.returncode, corrected.stdout) == (0, "line 2: durable\nline 3: durable\n")
    assert staged_rows(gateway) == 3


def test_a_durable_line_that_is_missing_from_the_outbox_stops_the_producer(
    gateway: Gateway, key: str, outbox: Path, program: list[str]
) -> None:
    add(outbox, ["1"], ["2"])
    produce(program, outbox, gateway.address, key)
    outbox.write_text(outbox.read_text().splitlines(keepends=True)[0])
    ran = produce(program, outbox, gateway.address, key)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"{outbox} has fewer lines than the 2 that orders has sent before\n"


def test_a_producer_without_a_valid_key_says_so(gateway: Gateway, key: str, outbox: Path, program: list[str]) -> None:
    add(outbox, ["1"])
    rejected = produce(program, outbox, gateway.address, key + "x")
    assert rejected.returncode == 1
    assert rejected.stderr.startswith("unauthenticated: the API key is not valid\n")


def test_an_answer_of_something_else_than_a_gateway_is_an_error(
    gateway: Gateway, key: str, outbox: Path, program: list[str]
) -> None:
    add(outbox, ["1"])
    rejected = produce(program, outbox, f"{gateway.address}/elsewhere", key)
    assert rejected.returncode == 1
    assert rejected.stderr.startswith("not_found: ")


@pytest.mark.parametrize(("url", "key"), [("127.0.0.1:8480", "mg_x"), ("http://127.0.0.1:8480", "")])
def test_a_producer_that_is_started_wrongly_says_what_is_missing(
    outbox: Path, program: list[str], url: str, key: str
) -> None:
    ran = produce(program, outbox, url, key)
    assert ran.returncode == 2
    assert "MIRRORGATE_API_KEY must hold a key" in ran.stderr if not key else "MIRRORGATE_URL must begin" in ran.stderr


JAVA_PROGRAM = REPOSITORY / "examples/java/Send.java"


def compiles() -> bool:
    java = shutil.which("java")
    if java is None:
        return False
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False).stdout
    return "jdk.compiler" in modules


@pytest.mark.skipif(not compiles(), reason="no Java with a compiler is installed")
def test_the_example_in_java_sends_a_row(database_url: str, engine: sa.Engine) -> None:
    with own_gateway(database_url) as gateway:
        gateway.register("hello.visitors", {"id": "int64", "name": "string"}, ["id"]).raise_for_status()
        command = ["java", str(JAVA_PROGRAM), gateway.address, ADMIN_KEY]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.stdout.strip(), ran.returncode) == ("202", 0), ran.stderr
    assert staged(engine, "hello.visitors") == [(1, "Ada")]
