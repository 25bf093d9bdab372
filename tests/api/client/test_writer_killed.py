"""A program with a writer and positions is killed during a request: the next run continues exactly."""

import subprocess
import sys

import pytest

from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import keys
from tests.support.http.holding_proxy import Held, holding_proxy, kill_while_held
from tests.support.processes import REPOSITORY

PROGRAM = """
import sys
from mirrorgate import BufferLimits, ChangeWriter, GatewayClient

url, key = sys.argv[1:]
limits = BufferLimits(request_rows=10, max_age=60)
with GatewayClient(url, key) as gateway, ChangeWriter(gateway, table="t", producer="app/outbox", limits=limits) as rows:
    for line in range(0 if rows.position is None else int(rows.position) + 1, 50):
        rows.write({"id": line}, position=str(line))
"""


def program(url: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", PROGRAM, url, ADMIN_KEY]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors.decode()


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
        holding_proxy(gateway.address, 1, Held.IN_FLIGHT) as late,
        holding_proxy(gateway.address, 1, Held.IN_FLIGHT) as later,
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
