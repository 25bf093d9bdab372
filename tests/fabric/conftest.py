"""A terminal that runs `mirrorgate fabric …` in this process, against Fabric's API and OneLake over sockets."""

import io
import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.support.cli_output import Ended
from tests.support.cli_output import Terminal as CommandLine
from tests.support.fabric.endpoint import Fabric
from tests.support.fabric.fixtures import clock, fabric, onelake, open_client
from tests.support.onelake.fixtures import trust
from tests.support.processes import REPOSITORY

__all__ = ["clock", "fabric", "onelake", "open_client", "trust"]


class Terminal(CommandLine):
    """Runs `mirrorgate fabric …` in this process."""

    def run(self, *arguments: object, typed: str | None = None) -> Ended:
        return super().run("fabric", *arguments, typed=typed)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").output)


@pytest.fixture
def terminal(fabric: Fabric, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    monkeypatch.setattr("app.observability.telemetry.configure_logging", lambda *_, **__: None)  # it is for a process
    monkeypatch.setattr("sys.stdin", io.StringIO())  # no terminal
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MIRRORGATE_FABRIC_WORKSPACE", "Sales workspace")
    monkeypatch.setenv("MIRRORGATE_FABRIC_DATABASE", "orders")
    return Terminal(capsys)


def interrupted(*arguments: str, at: str) -> tuple[str, str]:
    """Run `mirrorgate fabric …` in its own process, and press Ctrl-C at the first line with a text.

    Return that line and the standard error; check the status.
    """
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from mirrorgate.cli.__main__ import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "fabric", *arguments],
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = next((line for line in process.stdout if at in line), "")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    return line, errors
