"""A terminal that runs `mirrorgate fabric …` in this process, against Fabric's API and OneLake over sockets."""

import io
import json
from typing import Any

import pytest

from tests.support.cli_output import Ended
from tests.support.cli_output import Terminal as CommandLine
from tests.support.fabric.endpoint import Fabric
from tests.support.fabric.fixtures import clock, fabric, onelake, open_client
from tests.support.onelake.fixtures import trust

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
