"""`mirrorgate send --producer`, or a program with a writer, is killed during a request: the next run continues."""

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import keys, lines, staged
from tests.support.http.faulty_proxy import Held, faulty_proxy, kill_while_held
from tests.support.processes import REPOSITORY, started

PART = 10
PROGRAM = """
import sys
from mirrorgate import BufferLimits, ChangeWriter, GatewayClient

url, key = sys.argv[1:]
limits = BufferLimits(request_rows=10, max_age=60)
with GatewayClient(url, key) as gateway, ChangeWriter(gateway, table="t", producer="app/outbox", limits=limits) as rows:
    for line in range(0 if rows.position is None else int(rows.position) + 1, 50):
        rows.write({"id": line}, position=str(line))
"""


def program(url: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROGRAM, url, ADMIN_KEY]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sending(address: str, *arguments: object) -> "AbstractContextManager[subprocess.Popen[str]]":
    connection = ("--url", address, "--key", ADMIN_KEY)
    return started("mirrorgate.cli", "send", *arguments, "--format", "arcion", "--producer", "p", *connection)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Held.LOST, marks=pytest.mark.thorough),
        Held.IN_FLIGHT,
        pytest.param(Held.ANSWERED, marks=pytest.mark.thorough),
    ],
)
def test_a_killed_program_loses_and_doubles_nothing(gateway: Gateway, kind: Held) -> None:
    gateway.register("t", {"id": "int64"}, ["id"]).raise_for_status()
    kill_while_held(gateway.address, 3, kind, program)
    durable = 20 if kind is Held.LOST else 30
    assert gateway.get("/v1/producers/app%2Foutbox").json()["position"] == str(durable - 1)
    with program(gateway.address) as process:
        assert ended(process) == (0, "")
    assert keys(gateway.engine) == list(range(50))


def test_a_request_that_arrives_after_the_restart_lands_once(gateway: Gateway) -> None:
    """The new run asked for the position before the request of the killed run became durable."""
    gateway.register("t", {"id": "int64"}, ["id"]).raise_for_status()
    with (
        faulty_proxy(gateway.address, Held.IN_FLIGHT) as late,
        faulty_proxy(gateway.address, Held.IN_FLIGHT) as later,
        program(late.url) as old,
    ):
        assert late.held.wait(60)
        with program(later.url) as new:
            assert later.held.wait(60)
            old.kill()
            old.communicate()
            late.release.set()
            assert late.passed.wait(60)
            later.release.set()
            assert ended(new) == (0, "")
    assert keys(gateway.engine) == list(range(50))


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize(("kind", "batch"), [(Held.LOST, 7), (Held.IN_FLIGHT, PART), (Held.ANSWERED, 7)])
def test_a_killed_sending_goes_on_exactly(gateway: Gateway, tmp_path: Path, kind: Held, batch: int, files: int) -> None:
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"])
    source, length = tmp_path / "changes", 6 * PART // files
    source.mkdir()
    for number in range(files):
        (source / f"{number}.json").write_bytes(b"\n".join(lines(length, length * number)))
    path = source if files > 1 else source / "0.json"
    kill_while_held(gateway.address, 4, kind, lambda url: sending(url, path, "--batch", PART))
    durable = 3 if kind is Held.LOST else 4
    assert len(staged(gateway.engine, "t")) == durable * PART
    with sending(gateway.address, path, "--batch", batch) as process:
        status, errors = ended(process)
    assert status == 0, errors
    assert files > 1 or errors == "", "only a folder has progress to tell"
    assert keys(gateway.engine) == list(range(6 * PART))
