"""Two harnesses over one database, each like an API process of its own."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.support.ingest_harness import IngestHarness, open_harness


@pytest.fixture
def harness(engine: sa.Engine) -> Iterator[IngestHarness]:
    with open_harness(engine) as harness:
        yield harness


@pytest.fixture
def other_harness(engine: sa.Engine) -> Iterator[IngestHarness]:
    """Yield the harness of a second API process."""
    with open_harness(engine) as harness:
        yield harness
