"""A table `t` that keeps dead letters, and a database that takes none."""

import pytest

from tests.support.ingest_harness import IngestHarness
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "n": "int64"}, ["id"], ["id"])
FAIL_ON_LETTERS = """
    CREATE FUNCTION mirrorgate.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
    CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON mirrorgate.dead_letters
        FOR EACH ROW EXECUTE FUNCTION mirrorgate.fail()"""
SUCCEED_AGAIN = "DROP FUNCTION mirrorgate.fail CASCADE"


@pytest.fixture
def keeping(harness: IngestHarness) -> IngestHarness:
    """Give a harness with a table `t` that keeps dead letters."""
    harness.put("t", SCHEMA, dead_letters="accept")
    return harness
