"""Drains without a JVM: the real cycle, a real Postgres, a real folder."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.landing.open_zone import ZoneAddress
from spark_jobs.drain_cycle import DrainCycle
from tests.support.small_drain import small_drain

NewDrain = Callable[..., DrainCycle]


@pytest.fixture
def landing_zone(tmp_path: Path) -> Path:
    return tmp_path / "zone"


@pytest.fixture
def new_drain(database_url: str, landing_zone: Path) -> Iterator[NewDrain]:
    """Make drains with a running lease, by default of the test's database and landing zone."""
    with ExitStack() as stack:

        def make(*, url: str = database_url, zone: Path | ZoneAddress = landing_zone, rows: int = 10**6) -> DrainCycle:
            return stack.enter_context(small_drain(url, zone, rows=rows))

        yield make
