"""Fixtures of the tests of `verify`: drains without a JVM, OneLake, and the command line in this process."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mirrorgate.cli import main as cli
from tests.drain.conftest import landing_zone, new_drain
from tests.support.onelake.fixtures import new_onelake, onelake, trust
from tests.verify.zones import zone

__all__ = ["landing_zone", "new_drain", "new_onelake", "onelake", "trust", "zone"]


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    status: int
    output: str
    errors: str


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs `mirrorgate` in this process, whose logs stay as they are."""
    monkeypatch.setattr("app.observability.telemetry.configure_logging", lambda *_, **__: None)

    def command(*arguments: object) -> Ended:
        capsys.readouterr()
        monkeypatch.setattr("sys.argv", ["mirrorgate", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output, errors = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, output, errors)

    return command
