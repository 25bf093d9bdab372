"""The backlog and the status of tables."""

import random
from itertools import count

import sqlalchemy as sa

from app.domain.model.table import TableLife
from app.domain.publication import Amount
from app.staging.tables.status import BacklogReader, Lagging, TableCounts, count_tables
from tests.support.gateway_parts import dropping, stage, stage_keys, typed
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, counts_of, owned_table, plan, publish
from tests.support.samples.changes import update

BLOCKS = """
    INSERT INTO mirrorgate.staged_blocks (table_id, generation, first_sequence, last_sequence, schema_version,
        batch_rows, batch_changes, row_count, change_count, payload_bytes, payload_digest)
    SELECT :table_id, 1, n, n, 1, '{1}', '{1}', 1, 1, 7, sha256('')
    FROM generate_series(CAST(:first AS bigint), :last) n"""


def counted(engine: sa.Engine, tables: list[Owned]) -> dict[TableLife, Amount]:
    """Return what the status of these tables counts as pending, without tables that have nothing."""
    counts = sql.call(engine, count_tables, [owned.table.table_id for owned in tables])
    amounts = {table_id: Amount(found.pending_bytes, found.pending_rows) for table_id, found in counts.items()}
    lives = {(owned.table.table_id, owned.table.generation): amounts[owned.table.table_id] for owned in tables}
    return {life: amount for life, amount in lives.items() if amount.rows}


def pending(reading: dict[TableLife, Lagging]) -> dict[TableLife, Amount]:
    return {life: lagging.pending for life, lagging in reading.items() if lagging.pending.rows}


def test_every_reading_is_what_a_full_count_says_however_tables_lag_and_catch_up(engine: sa.Engine) -> None:
    source = random.Random(7)
    tables = [owned_table(engine, name=f"t{number}") for number in range(3)]
    reader, keys, moments = BacklogReader(), count(), count()
    for _ in range(60):
        owned = source.choice(tables)
        if source.random() < 0.5:
            stage_keys(engine, owned.table, *([next(keys)] * source.randint(1, 4) for _ in range(source.randint(1, 3))))
        else:
            for file in plan(engine, owned)[: source.randint(1, 6)]:
                publish(engine, owned, file)
        if source.random() < 0.6:
            assert pending(reader.read(engine, next(moments))) == counted(engine, tables)


def test_a_reading_tells_what_was_published_since_the_one_before(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1, 2], [3], [4])
    reader, published = BacklogReader(), []
    for files in (0, 1, 2, 0):
        for file in plan(engine, owned)[:files]:
            publish(engine, owned, file)
        published.append([lagging.published.rows for lagging in reader.read(engine, 0.0).values()])
    assert published == [[0], [2], [2], []]


def test_what_came_after_everything_known_was_published_is_all_that_is_pending(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2])
    reader = BacklogReader()
    reader.read(engine, 0.0)
    stage_keys(engine, owned.table, [3], [4])
    for file in plan(engine, owned)[:3]:
        publish(engine, owned, file)
    reading = reader.read(engine, 1.0)
    assert pending(reading) == counted(engine, [owned])
    assert [lagging.published.rows for lagging in reading.values()] == [2]


def test_a_reading_looks_only_at_blocks_that_are_new_or_gone(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1])
    advance = "UPDATE mirrorgate.table_counters SET last_sequence = :last"
    sql.run(engine, BLOCKS, table_id=owned.table.table_id, first=2, last=5_000)
    sql.run(engine, advance, last=5_000)
    reader = BacklogReader()
    [lagging] = reader.read(engine, 1.0).values()
    assert lagging.pending.rows == 5_000
    # Of the blocks that were looked at nothing is asked again.
    sql.run(engine, "UPDATE mirrorgate.staged_blocks SET payload_bytes = 1000 WHERE first_sequence > 100")
    sql.run(engine, BLOCKS, table_id=owned.table.table_id, first=5_001, last=5_010)
    sql.run(engine, advance, last=5_010)
    sql.run(engine, "UPDATE mirrorgate.table_counters SET published_through = 51")
    [later] = reader.read(engine, 2.0).values()
    assert later.published.rows == 51
    assert later.pending == Amount(lagging.pending.bytes + 10 * 7 - later.published.bytes, 5_010 - 51)


def test_after_a_long_pause_everything_is_summed_again(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2], [3])
    reader = BacklogReader()
    reader.read(engine, 0.0)
    for file in plan(engine, owned)[:2]:
        publish(engine, owned, file)
    sql.run(engine, "DELETE FROM mirrorgate.staged_blocks WHERE first_sequence <= 2")
    reading = reader.read(engine, 1_000.0)
    assert pending(reading) == counted(engine, [owned])
    assert [lagging.published for lagging in reading.values()] == [Amount()]


def test_the_age_is_that_of_the_oldest_batch_that_is_not_published(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2])
    sql.run(
        engine, "UPDATE mirrorgate.staged_blocks SET staged_at = staged_at - interval '1 hour' WHERE first_sequence = 1"
    )
    reader = BacklogReader()
    [before] = reader.read(engine, 0.0).values()
    publish(engine, owned, plan(engine, owned)[0])
    [after] = reader.read(engine, 1.0).values()
    assert before.oldest_seconds > 3_600 > after.oldest_seconds


def test_a_table_that_is_being_dropped_has_no_backlog(engine: sa.Engine) -> None:
    owned_table(engine, [1], [2])
    dropping(engine, "t")
    assert BacklogReader().read(engine, 0.0) == {}


def three_views(counts: TableCounts) -> list[tuple[int, int, int]]:
    """Batches, changes and rows as accepted, staged and published."""
    return [
        (counts.last_sequence, counts.accepted_changes, counts.accepted_rows),
        (counts.staged_batches, counts.staged_changes, counts.staged_rows),
        (counts.published_batches, counts.published_changes, counts.published_rows),
    ]


def with_backlog(engine: sa.Engine) -> Owned:
    """Two batches, three changes, four rows."""
    owned = owned_table(engine, [1, 2])
    stage(engine, [typed(owned.table, [update({"id": 1}, {"id": 3})])])
    return owned


def test_what_is_staged_is_pending_until_it_is_published(engine: sa.Engine) -> None:
    owned = with_backlog(engine)
    one, two = plan(engine, owned)
    waiting = counts_of(engine, owned.table)
    assert three_views(waiting) == [(2, 3, 4), (2, 3, 4), (0, 0, 0)]
    assert (waiting.pending_batches, waiting.pending_rows) == (2, 4)
    assert waiting.pending_bytes > 0
    assert waiting.oldest_seconds > 0

    publish(engine, owned, one)
    half = counts_of(engine, owned.table)
    assert three_views(half) == [(2, 3, 4), (2, 3, 4), (1, 2, 2)]
    assert (half.pending_batches, half.pending_rows, half.last_file, half.published_files) == (1, 2, 1, 1)

    publish(engine, owned, two)
    done = counts_of(engine, owned.table)
    assert three_views(done) == [(2, 3, 4)] * 3
    assert (done.pending_batches, done.pending_bytes, done.oldest_seconds, done.last_file) == (0, 0, 0, 2)


def test_tables_are_counted_apart(engine: sa.Engine) -> None:
    owned = with_backlog(engine)
    other = owned_table(engine, [1], name="other")
    counts = sql.call(engine, count_tables, [owned.table.table_id, other.table.table_id])
    assert [entry.staged_rows for entry in counts.values()] == [4, 1]
