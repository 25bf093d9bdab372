"""Run `mirrorgate` inside the test process, and read what it printed."""

import io
import json
import os
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from structlog.testing import capture_logs

from mirrorgate.cli import main as cli


class Ended(NamedTuple):
    """How a command ended and what it printed."""

    status: int
    output: str
    errors: str

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = first_json(self.output)
        return report


class Typed(io.StringIO):
    """Standard input of a terminal in which somebody types these lines."""

    def isatty(self) -> bool:
        return True


@dataclass
class Terminal:
    """Runs `mirrorgate` in this process. What it logs and sets in the environment does not outlast the command."""

    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: object, typed: str | None = None) -> Ended:
        """Run a command. `typed` is what somebody answers; without it, standard input is what the test has set."""
        self.capsys.readouterr()
        with pytest.MonkeyPatch.context() as patched, patch.dict(os.environ), capture_logs():
            patched.setattr("sys.argv", ["mirrorgate", *map(str, arguments)])
            if typed is not None:
                patched.setattr("sys.stdin", Typed(typed))
            with pytest.raises(SystemExit) as ended:
                cli.main()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, *self.capsys.readouterr())


def first_json(output: str) -> Any:
    """Return the first JSON value of an output.

    A Spark that an earlier test of this process started can log a line to the same output at any time.
    """
    value, _ = json.JSONDecoder().raw_decode(output.lstrip())
    return value
