"""The limit servers read a body and answer as the gateway does."""

import subprocess
import sys

import pytest

from benchmarks.loads.driver import load_on
from benchmarks.machine.processes import started


@pytest.mark.parametrize("server", ["raw_asgi", "bare_fastapi"])
def test_a_limit_server_answers_each_request_of_a_workload(server: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.limits.{server}"]
    with started(server, command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        with load_on(url, "none", "large", connections=2) as load:
            assert load.send_each_once().requests == 8
