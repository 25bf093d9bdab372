"""Fixtures that clear caches of layouts before each test, and change the time zone of the machine."""

import time
from collections.abc import Iterator

import pytest

from tests.support.suite.fresh_caches import fresh_caches as _  # noqa: F401  # an autouse fixture


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the machine be in another time zone than UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
