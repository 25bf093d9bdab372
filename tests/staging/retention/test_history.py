"""The history of rates and lag: every row is counted once, in the sample after it, for each table and for all."""

import sqlalchemy as sa

from app.domain.model.table import TableId
from app.staging.retention.history import PURGE_HISTORY, Sample, history, take_sample
from app.staging.retention.rounds import purge
from tests.support.gateway_parts import registered, stage_keys
from tests.support.postgres import sql
from tests.support.postgres.ledger import owned_table, publish_all
from tests.support.samples.schemas import schema_of


def next_minute(engine: sa.Engine) -> None:
    """Let the stored samples be one minute older."""
    for column in ("minute", "sampled_at"):
        sql.run(engine, f"UPDATE mirrorgate.history SET {column} = {column} - interval '1 min'")


def sampled(engine: sa.Engine, table_id: TableId | None = None) -> Sample:
    """Take a sample, and return it for a table or for all; the samples before move back by a minute."""
    next_minute(engine)
    with engine.begin() as connection:
        assert take_sample(connection)
        return history(connection, 60, table_id)[-1]


def rows(sample: Sample) -> tuple[int, int, int]:
    return sample.accepted_rows, sample.published_rows, sample.pending_rows


def test_what_is_accepted_and_published_is_counted_once(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1, 2], [3])
    table_id = owned.table.table_id
    first = sampled(engine, table_id)
    assert rows(first) == (3, 0, 3)
    assert first.oldest_seconds > 0
    publish_all(engine, owned)
    assert rows(sampled(engine, table_id)) == (0, 3, 0)
    assert rows(sampled(engine, table_id)) == (0, 0, 0)
    with engine.begin() as connection:
        assert [rows(sample) for sample in history(connection, 60)] == [(3, 0, 3), (0, 3, 0), (0, 0, 0)]
        assert [sample.oldest_seconds for sample in history(connection, 60, table_id)][1:] == [0, 0]


def test_tables_are_told_apart_and_added_up(engine: sa.Engine) -> None:
    one, two, idle = (registered(engine, name, schema_of({"id": "int64"})) for name in ("one", "two", "idle"))
    stage_keys(engine, one, [1, 2])
    stage_keys(engine, two, [1], [2], [3])
    assert rows(sampled(engine)) == (5, 0, 5)
    with engine.begin() as connection:
        for tables, pending in (([one], 2), ([one, two, idle], 5), ([idle], 0), ([], 0)):
            ids = [table.table_id for table in tables]
            found = [rows(sample) for sample in history(connection, 60, table_ids=ids)]
            assert found == [(pending, 0, pending)]
    stored = sql.value(engine, "SELECT table_ids FROM mirrorgate.history")
    assert sorted(stored) == [one.table_id, two.table_id]


def test_one_process_takes_the_sample_of_a_minute(engine: sa.Engine) -> None:
    stage_keys(engine, registered(engine, "t", schema_of({"id": "int64"})), [1])
    next_minute(engine)
    with engine.begin() as connection:
        first = take_sample(connection)
        minute = connection.execute(sa.text("SELECT date_trunc('minute', clock_timestamp())")).scalar_one()
        second = take_sample(connection)
        again = connection.execute(sa.text("SELECT date_trunc('minute', clock_timestamp())")).scalar_one()
    assert first
    assert second == (again != minute)


def test_an_aborted_sample_leaves_its_counts_to_the_next(engine: sa.Engine) -> None:
    stage_keys(engine, registered(engine, "t", schema_of({"id": "int64"})), [1, 2])
    with engine.connect() as connection, connection.begin() as transaction:
        assert take_sample(connection)
        transaction.rollback()
    assert rows(sampled(engine)) == (2, 0, 2)


def test_the_seconds_of_a_sample_reach_back_to_the_one_before(engine: sa.Engine) -> None:
    sampled(engine)
    assert 59 <= sampled(engine).seconds < 90


def test_old_samples_are_purged_and_outside_the_minutes_asked_for(engine: sa.Engine) -> None:
    sampled(engine)
    sql.run(engine, "UPDATE mirrorgate.history SET minute = minute - interval '90 min'")
    with engine.begin() as connection:
        assert history(connection, 60) == []
        assert len(history(connection, 120)) == 1
        assert purge(connection, PURGE_HISTORY, older_than_seconds=3600, limit=10) == 1
        assert history(connection, 120) == []
