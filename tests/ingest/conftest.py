"""Gates over one database: each is what one API process is to it."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.support.ingest_harness import Gate, opened


@pytest.fixture
def gate(engine: sa.Engine) -> Iterator[Gate]:
    with opened(engine) as gate:
        yield gate


@pytest.fixture
def other_gate(engine: sa.Engine) -> Iterator[Gate]:
    """Another process's."""
    with opened(engine) as gate:
        yield gate
