"""A terminal that runs `mirrorgate fabric …` in this process, against Fabric's API and OneLake over sockets."""

import io
import json
import os
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from mirrorgate.cli import main as cli
from tests.support.fabric.endpoint import Fabric
from tests.support.fabric.fixtures import clock, fabric, onelake, open_client
from tests.support.onelake.fixtures import trust

__all__ = ["clock", "fabric", "onelake", "open_client", "trust"]


class Answers(io.StringIO):
    """Standard input of a terminal in which somebody types these lines."""

    def isatty(self) -> bool:
        return True


@dataclass
class Terminal:
    """Runs `mirrorgate fabric …` in this process."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str, typed: str | None = None) -> tuple[int, str, str]:
        """Run a command. `typed` is what somebody answers; without it, there is no terminal."""
        self.capsys.readouterr()
        self.monkeypatch.setattr("sys.stdin", io.StringIO() if typed is None else Answers(typed))
        self.monkeypatch.setattr("sys.argv", ["mirrorgate", "fabric", *arguments])
        with pytest.raises(SystemExit) as ended, patch.dict(os.environ):  # a command adds variables, as a process may
            cli.main()
        output, errors = self.capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, output, errors

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json")[1])


@pytest.fixture
def terminal(fabric: Fabric, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    monkeypatch.setattr("app.observability.telemetry.configure_logging", lambda *_, **__: None)  # it is for a process
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MIRRORGATE_FABRIC_WORKSPACE", "Sales workspace")
    monkeypatch.setenv("MIRRORGATE_FABRIC_DATABASE", "orders")
    return Terminal(monkeypatch, capsys)
