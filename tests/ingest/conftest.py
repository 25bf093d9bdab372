"""A harness over an empty database, like an API process."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.support.ingest_harness import IngestHarness, open_harness


@pytest.fixture
def harness(engine: sa.Engine) -> Iterator[IngestHarness]:
    with open_harness(engine) as harness:
        yield harness
