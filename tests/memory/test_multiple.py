"""No request takes more than a stated multiple of the bytes that it counts, whatever its table makes of it."""

from typing import Final

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings

from tests.memory.multiple import FIXED_BYTES, MULTIPLE, drain_peak, peak_of
from tests.memory.requests import SHAPES, Shape
from tests.support.ingest_harness import open_harness
from tests.support.postgres.databases import clear
from tests.support.samples.schemas import schema_of

SECRET = b"a secret only for tests of the memory of rows"


_FRESH_TABLES: Final = [HealthCheck.function_scoped_fixture]
"""Each example empties the database."""


@settings(max_examples=16, suppress_health_check=_FRESH_TABLES)
@given(shape=SHAPES)
def test_no_request_takes_more_than_a_multiple_of_what_it_counts(engine: sa.Engine, shape: Shape) -> None:
    check(engine, shape)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@settings(max_examples=400, suppress_health_check=_FRESH_TABLES)
@given(shape=SHAPES)
def test_no_request_of_many_shapes_takes_more_than_a_multiple_of_what_it_counts(
    engine: sa.Engine, shape: Shape
) -> None:
    check(engine, shape)


def check(engine: sa.Engine, shape: Shape) -> None:
    with engine.begin() as connection:
        clear(connection, restart_ids=False)
    with open_harness(engine, mask_secret=SECRET) as harness:
        harness.put("t", schema_of(shape.table_columns, ["id"], ["id"]), **shape.options)
        request, size = shape.request()
        for _ in range(2):  # the second one finds the table in the cache
            peak, counted = peak_of(harness, request, size, dry_run=shape.dry_run)
            assert peak <= MULTIPLE * counted + FIXED_BYTES, (peak, counted, size)
        peak, planned = drain_peak(harness, "t")
        assert peak <= MULTIPLE * planned + FIXED_BYTES, (peak, planned)
