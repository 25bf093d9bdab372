"""Payload partitions are created in time and dropped whole, and no writer or reader waits for it."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from app.domain.model.landing_file import BatchRange
from app.domain.model.table import BatchSequence
from app.staging.batches.staged_blocks import SELECT_PAYLOADS, read_payloads
from app.staging.connection.database import AdvisoryLock, session_lock
from app.staging.retention import rounds as retention
from app.staging.retention.payload_partitions import find_partitions
from app.staging.retention.rounds import run_retention
from tests.staging.connection.test_query_plans import explained
from tests.support.gateway_parts import registered, stage_keys, staged_ids
from tests.support.postgres import sql
from tests.support.postgres.ledger import owned_table, plan, publish, publish_all
from tests.support.postgres.retention import (
    AT_ONCE,
    WEEK,
    count,
    partition_states,
    partitions_of_payloads,
    purge,
)
from tests.support.processes import Died, die
from tests.support.samples.schemas import schema_of
from tests.support.waiting import wait_until

DAY = 86_400.0
NO_PATIENCE = replace(AT_ONCE, detach_seconds=0.1)


def open_since(engine: sa.Engine, days: float) -> None:
    moved = "UPDATE mirrorgate.payload_buckets SET opened_at = now() - make_interval(secs => :s) WHERE state = 'open'"
    sql.run(engine, moved, s=days * DAY)


def closed_since(engine: sa.Engine, days: float) -> None:
    moved = "UPDATE mirrorgate.payload_buckets SET closed_at = now() - make_interval(secs => :s) WHERE state = 'closed'"
    sql.run(engine, moved, s=days * DAY)


@pytest.mark.parametrize("way", [1, -1], ids=["past", "clock_was_set_back"])
def test_a_partition_is_closed_when_it_is_a_seventh_of_the_period_old_and_dropped_a_period_later(
    engine: sa.Engine, way: int
) -> None:
    owned = owned_table(engine, [1])
    publish_all(engine, owned)
    [first, *_] = partition_states(engine)
    open_since(engine, way * 0.99)
    purge(engine, WEEK)
    assert partition_states(engine)[first] == "open"
    open_since(engine, way * 1.01)
    purge(engine, WEEK)
    assert list(partition_states(engine).values()) == ["closed", "open", "ahead"]
    closed_since(engine, way * 6.99)
    purge(engine, WEEK)
    assert staged_ids(engine, owned.table) == [1]
    closed_since(engine, way * 7.01)
    assert purge(engine, WEEK).dropped_partitions == 1
    assert list(partition_states(engine).values()) == ["open", "ahead"]
    assert first not in partition_states(engine)


def test_an_empty_partition_stays_open(engine: sa.Engine) -> None:
    states = partition_states(engine)
    open_since(engine, 400)
    purge(engine, WEEK)
    assert partition_states(engine) == states


def test_a_partition_that_was_just_closed_is_left_to_those_who_may_still_write_into_it(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1])
    publish_all(engine, owned)
    cautious = replace(AT_ONCE, quiet_seconds=60)
    assert purge(engine, cautious).dropped_partitions == 0
    closed_since(engine, 61 / DAY)
    assert purge(engine, cautious).dropped_partitions == 1


def test_beyond_the_byte_cap_the_oldest_published_payloads_go_and_unpublished_ones_never(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    capped = replace(WEEK, keep_bytes=900_000)
    for _ in range(6):
        stage_keys(engine, owned.table, range(30_000))
        publish_all(engine, owned)
        purge(engine, capped)
    kept = sql.value(engine, "SELECT array_agg(first_sequence ORDER BY 1) FROM mirrorgate.block_payloads")
    assert 1 not in kept
    assert kept[-1] == 6
    assert sum(partition_bytes(engine)) <= capped.keep_bytes + capped.keep_bytes / 8

    backlog = [7, 8, 9, 10, 11, 12, 13]
    for _ in backlog:
        stage_keys(engine, owned.table, range(30_000))
        assert purge(engine, capped).moved_payloads == 0
    kept = sql.value(engine, "SELECT array_agg(first_sequence ORDER BY 1) FROM mirrorgate.block_payloads")
    assert kept == backlog


def partition_bytes(engine: sa.Engine) -> list[int]:
    return [partition.total_bytes for partition in sql.call(engine, find_partitions)]


def test_the_room_on_disk_comes_back(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    empty = sum(partition_bytes(engine))
    for _ in range(3):
        stage_keys(engine, owned.table, range(30_000))
    publish_all(engine, owned)
    full = sum(partition_bytes(engine))
    assert purge(engine).freed_bytes > (full - empty) / 2
    assert full > empty + 150_000
    assert sum(partition_bytes(engine)) <= empty


STEPS: list[tuple[str, Callable[..., Any]]] = [
    ("open_next_partition", retention.open_next_partition),
    ("attach_next_partition", retention.attach_next_partition),
    ("move_needed", retention.move_needed),
    ("detach", retention.detach),
    ("drop_detached", retention.drop_detached),
    ("purge_blocks", retention.purge_blocks),
    ("purge_files", retention.purge_files),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("name", "step"), STEPS, ids=[name for name, _ in STEPS])
def test_a_round_that_died_at_any_step_is_completed_by_the_next(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, name: str, step: Callable[..., Any], after: bool
) -> None:
    owned = owned_table(engine, [1], [2], [3], [4])
    for file in plan(engine, owned)[:3]:
        publish(engine, owned, file)
    with monkeypatch.context() as patch:
        patch.setattr(retention, name, (lambda *a, **k: (step(*a, **k), die())) if after else die)
        with pytest.raises(Died):
            run_retention(engine, AT_ONCE)
    purge(engine)
    assert staged_ids(engine, owned.table, first=4) == [4]
    assert (count(engine, "staged_blocks"), count(engine, "landing_files")) == (1, 2)
    assert list(partition_states(engine).values()) == ["open", "ahead"]
    assert tables_of_partitions(engine) == sorted(partition_states(engine))
    totals = sql.rows(engine, "SELECT through_sequence, rows, files, file_rows FROM mirrorgate.purged_totals")
    assert totals == [(3, 3, 2, 2)]


def tables_of_partitions(engine: sa.Engine) -> list[int]:
    tables = "SELECT relname FROM pg_class WHERE relname ~ '^block_payloads_[0-9]+$' AND relkind = 'r'"
    return sorted(int(name.rpartition("_")[2]) for (name,) in sql.rows(engine, tables))


def test_staging_and_reading_go_on_while_an_old_transaction_keeps_a_partition_from_going(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2])
    publish(engine, owned, plan(engine, owned)[0])
    with sql.locked(engine, "SELECT count(*) FROM mirrorgate.block_payloads"):
        assert purge(engine, NO_PATIENCE).dropped_partitions == 0
        assert "detaching" in partition_states(engine).values()
        stage_keys(engine, owned.table, [3])
        assert staged_ids(engine, owned.table, first=2) == [2, 3]
        assert purge(engine, NO_PATIENCE).dropped_partitions == 0
        stage_keys(engine, owned.table, [4])
    assert purge(engine).dropped_partitions >= 1
    assert "detaching" not in partition_states(engine).values()
    assert staged_ids(engine, owned.table, first=2) == [2, 3, 4]


def test_a_payload_that_comes_to_be_needed_while_its_partition_goes_is_rescued(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = owned_table(engine, [1])
    publish_all(engine, owned)
    detach = retention.detach

    def staged_late(autocommit: sa.Connection, partition: Any, **limits: float) -> bool:
        if owned.table.generation and count(engine, "staged_blocks") == 1:
            stage_keys(engine, owned.table, [2])
            late = "UPDATE mirrorgate.{} SET bucket = :bucket WHERE first_sequence = 2"
            for name in ("staged_blocks", "block_payloads"):
                sql.run(engine, late.format(name), bucket=partition.number)
        return detach(autocommit, partition, **limits)

    monkeypatch.setattr(retention, "detach", staged_late)
    report = purge(engine)
    assert (report.dropped_partitions, report.moved_payloads) == (1, 1)
    assert staged_ids(engine, owned.table, first=2) == [2]
    assert list(partitions_of_payloads(engine)) == [2]


def test_a_reader_that_knows_the_old_place_finds_a_payload_that_has_moved(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2])
    whole = BatchRange(BatchSequence(1), BatchSequence(2))
    blocks = read_payloads(engine, owned.table.table_id, owned.table.generation, whole, slice_bytes=1)
    next(blocks)
    mover = threading.Thread(target=run_retention, args=(engine, NO_PATIENCE))
    mover.start()
    mover.join()
    assert len(list(blocks)) == 1


def test_many_rounds_beside_a_busy_writer_lose_nothing(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    stop = threading.Event()
    rounds = []

    def purge_again_and_again() -> None:
        while not stop.is_set():
            rounds.append(purge(engine))

    thread = threading.Thread(target=purge_again_and_again)
    thread.start()
    for key in range(60):
        stage_keys(engine, owned.table, [key])
        if key % 3 == 0:
            for file in plan(engine, owned)[:2]:
                publish(engine, owned, file)
    stop.set()
    thread.join()
    through = sql.value(engine, "SELECT published_through FROM mirrorgate.table_counters")
    assert staged_ids(engine, owned.table, first=through + 1) == list(range(through, 60))
    assert sum(report.dropped_partitions for report in rounds) > 1


def test_only_one_process_is_at_it_and_one_that_died_is_followed_by_another(engine: sa.Engine) -> None:
    with session_lock(engine, AdvisoryLock.RETENTION) as other:
        assert other is not None
        assert run_retention(engine, AT_ONCE) is None
        other.invalidate()
    wait_until(lambda: run_retention(engine, AT_ONCE), within=30, what="the lock goes with its connection")


def test_reading_payloads_touches_only_partitions_from_theirs_on(engine: sa.Engine) -> None:
    table = registered(engine, "t", schema_of({"id": "int64"}, ["id"]))
    for key in range(10):
        stage_keys(engine, table, [key])
        open_since(engine, 2)
        purge(engine, WEEK)
    assert len(partition_states(engine)) == 12
    sql.run(engine, "ANALYZE mirrorgate.block_payloads")
    newest = partitions_of_payloads(engine)[10]
    reads = explained(engine, SELECT_PAYLOADS, first_sequence=10, last_sequence=10, bucket=newest)
    touched = {node["Relation Name"] for node in reads if "Relation Name" in node}
    assert touched == {f"block_payloads_{newest + offset}" for offset in range(3)}
