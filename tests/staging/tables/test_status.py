"""Lag and reconciliation: accepted = staged always, = published when nothing is pending."""

import sqlalchemy as sa

from app.staging.tables.status import TableCounts, count_tables
from tests.support.gateway_parts import stage, typed
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, counts_of, owned_table, plan, publish
from tests.support.samples.changes import update


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
