"""Fixtures that clear caches of layouts before each test, and change the time zone of the machine."""

import time
from collections.abc import Iterator

import pytest

from app.domain.rows import row_layout, typed_columns


@pytest.fixture(autouse=True)
def _fresh_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty the caches of what was worked out from a table's rules, so that no test gets what another one worked out.

    Mutation testing needs this most: it forks after all tests have run once, with everything already worked out.
    """
    for cache in (row_layout._LAYOUTS, typed_columns._ALIKE):
        monkeypatch.setattr(cache, "_kept", {})


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the machine be in another time zone than UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
