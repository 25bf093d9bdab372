"""Fixtures of the tests of `verify`: drains without a JVM, OneLake, and the command line in this process."""

from collections.abc import Callable

import pytest

from tests.drain.conftest import landing_zone, new_drain
from tests.support.cli_output import Ended, Terminal
from tests.support.onelake.fixtures import new_onelake, onelake, trust
from tests.verify.zones import zone

__all__ = ["landing_zone", "new_drain", "new_onelake", "onelake", "trust", "zone"]

Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs `mirrorgate` in this process."""
    monkeypatch.setattr("app.observability.telemetry.configure_logging", lambda *_, **__: None)
    return Terminal(capsys).run
