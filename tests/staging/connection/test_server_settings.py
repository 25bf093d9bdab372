"""Settings that the server reports."""

import sqlalchemy as sa

from app.domain.preflight import DatabaseFacts, Outcome, judge_database
from app.staging.connection.schema_revision import database_facts
from tests.support.postgres import sql


def outcomes(facts: DatabaseFacts) -> dict[str, Outcome]:
    """Return what is not ok, by check."""
    return {finding.check: finding.outcome for finding in judge_database(facts) if finding.outcome is not Outcome.OK}


def test_a_server_that_may_lose_what_it_acknowledged_is_unsafe(engine: sa.Engine) -> None:
    facts = database_facts(engine)
    unsafe = {"postgres_fsync", "postgres_full_page_writes", "postgres_synchronous_commit"}
    assert outcomes(facts) == dict.fromkeys(unsafe, Outcome.UNSAFE)
    assert facts.heard_itself
    assert not facts.through_pooler
    assert abs(facts.clock_behind_seconds) < 5


def test_a_database_of_another_revision_is_unsafe_and_the_remedy_says_what_to_run(engine: sa.Engine) -> None:
    before = sql.value(engine, "SELECT version_num FROM mirrorgate.alembic_version")
    sql.run(engine, "UPDATE mirrorgate.alembic_version SET version_num = 'elsewhere'")
    try:
        (finding,) = [found for found in judge_database(database_facts(engine)) if found.check == "postgres_revision"]
    finally:
        sql.run(engine, "UPDATE mirrorgate.alembic_version SET version_num = :before", before=before)
    assert finding.outcome is Outcome.UNSAFE
    assert "elsewhere" in finding.detail
    assert "mirrorgate migrate" in str(finding.remedy)
