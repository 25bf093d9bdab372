"""Group commit: dense sequences in commit order, whole requests, one block for all that wait together."""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Event

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.domain.model.table import BatchSequence, Generation, Table
from app.staging.batches.batch import Batch, Receipt, StagingRequest, TableMoved
from app.staging.retention.payload_partitions import attach_next_partition, open_next_partition
from app.staging.writer.group_commit import GroupCommit
from app.staging.writer.request_queue import WaitingRequest
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.gateway_parts import inserts, registered, running_writer, stage, staged_ids, together, typed
from tests.support.postgres import sql
from tests.support.samples.changes import update
from tests.support.samples.schemas import ID, schema_of
from tests.support.waiting import wait_until

WIDER = schema_of({"id": "int64", "note": "string"}, ["id"])


def batch(table: Table, *keys: int) -> Batch:
    return typed(table, inserts([{"id": key} for key in keys]))


def sequences(receipts: Sequence[Receipt]) -> list[int]:
    return [receipt.sequence for receipt in receipts]


def test_a_receipt_names_the_batch_and_counts_it(engine: sa.Engine) -> None:
    table = registered(engine, "sales.orders", ID)
    [receipt] = stage(engine, [typed(table, [*inserts([{"id": 1}]), update({"id": 1}, {"id": 2})])])
    assert receipt == Receipt("sales.orders", table.generation, BatchSequence(1), changes=2, rows=3)


def test_requests_that_wait_together_become_one_block_with_a_border_for_each(engine: sa.Engine, table: Table) -> None:
    futures = together(engine, [batch(table, 1)], [batch(table, 2, 3)], [batch(table, 4)])
    assert [sequences(future.result()) for future in futures] == [[1], [2], [3]]
    block = "SELECT first_sequence, last_sequence, batch_rows, batch_changes, row_count FROM mirrorgate.staged_blocks"
    assert sql.rows(engine, block) == [(1, 3, [1, 2, 1], [1, 2, 1], 4)]
    assert staged_ids(engine, table) == [1, 2, 3, 4]


def test_many_threads_and_two_processes_leave_no_gap_and_no_double(engine: sa.Engine, table: Table) -> None:

    def send(thread: int) -> list[tuple[int, int]]:
        sent: list[tuple[int, int]] = []
        for number in range(25):
            key = thread * 100 + number
            [receipt] = writers[thread % 2].submit(StagingRequest([batch(table, key)])).result(timeout=60)
            sent.append((receipt.sequence, key))
        return sent

    with running_writer(engine) as one, running_writer(engine) as other, ThreadPoolExecutor(8) as threads:
        writers = [one, other]
        sent = [entry for entries in threads.map(send, range(8)) for entry in entries]
    sent.sort()
    assert [sequence for sequence, _ in sent] == list(range(1, 201))
    assert staged_ids(engine, table) == [key for _, key in sent]


def test_a_block_holds_one_schema_version(engine: sa.Engine) -> None:
    old = registered(engine, "t", ID)
    stage(engine, [batch(old, 1)])
    new = registered(engine, "t", WIDER)
    stage(engine, [typed(new, inserts([{"id": 2, "note": "x"}]))])
    versions = "SELECT first_sequence, schema_version FROM mirrorgate.staged_blocks ORDER BY first_sequence"
    assert sql.rows(engine, versions) == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ("state = 'dropping', drop_plan = '{}'", False),
        ("state = 'dropped'", False),
        ("generation = 2", False),
        ("state = 'paused'", True),
        ("state = 'quarantined'", True),
    ],
)
def test_the_state_at_the_moment_of_staging_decides(
    engine: sa.Engine, table: Table, change: str, accepted: bool
) -> None:
    sql.run(engine, f"UPDATE mirrorgate.tables SET {change}")
    [future] = together(engine, [batch(table, 1)])
    if accepted:
        assert sequences(future.result()) == [1]
    else:
        with pytest.raises(TableMoved):
            future.result()
        assert sql.value(engine, "SELECT last_sequence FROM mirrorgate.table_counters") == 0


def test_a_request_that_arrives_while_a_group_gets_its_receipts_is_alone_in_the_next_group(
    engine: sa.Engine, table: Table
) -> None:
    later: list[Future[list[Receipt]]] = []

    def submit_one(_: object) -> None:
        later.append(writer.submit(StagingRequest([batch(table, 100)])))

    writer = GroupCommit(engine)
    futures = [writer.submit(StagingRequest([batch(table, key)])) for key in range(32)]
    futures[-1].add_done_callback(submit_one)
    writer.start()
    wait_until(lambda: bool(later) and later[0].done(), within=30, what="the later one is staged")
    writer.close()
    found = sql.rows(engine, "SELECT cardinality(batch_rows) FROM mirrorgate.staged_blocks ORDER BY first_sequence")
    assert [batches for (batches,) in found] == [32, 1]


def test_a_committed_request_sets_the_staged_event(engine: sa.Engine, table: Table) -> None:
    staged = Event()
    with running_writer(engine, staged=staged) as writer:
        writer.submit(StagingRequest([batch(table, 1)])).result(timeout=30)
        assert staged.is_set()


def test_closing_stages_what_waits_and_rejects_what_comes_later(engine: sa.Engine, table: Table) -> None:
    writer = GroupCommit(engine)
    waiting = writer.submit(StagingRequest([batch(table, 1)]))
    writer.start()
    writer.close()
    assert sequences(waiting.result()) == [1]
    with pytest.raises(TemporarilyUnavailable, match=Code.SHUTTING_DOWN):
        writer.submit(StagingRequest([batch(table, 2)]))


@pytest.mark.parametrize("caller_waits", [lambda futures: futures[1], lambda futures: futures[0]])
def test_a_caller_that_has_gone_takes_no_number_and_disturbs_no_other(
    engine: sa.Engine,
    table: Table,
    caller_waits: Callable[[Sequence["Future[list[Receipt]]"]], "Future[list[Receipt]]"],
) -> None:
    writer = GroupCommit(engine)
    futures = [writer.submit(StagingRequest([batch(table, key)])) for key in (1, 2)]
    waits = caller_waits(futures)
    for future in futures:
        assert future is waits or future.cancel()
    writer.start()
    writer.close()
    assert sequences(waits.result()) == [1]
    assert sql.value(engine, "SELECT last_sequence FROM mirrorgate.table_counters") == 1


def test_a_writer_whose_callers_have_all_gone_still_stops(engine: sa.Engine, table: Table) -> None:
    writer = GroupCommit(engine)
    assert writer.submit(StagingRequest([batch(table, 1)])).cancel()
    writer.start()
    writer.close()
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.staged_blocks") == 0


def test_a_request_in_its_transaction_can_no_longer_be_taken_back(engine: sa.Engine, table: Table) -> None:
    locked = sql.locked(engine, "SELECT FROM mirrorgate.table_counters FOR UPDATE")
    with running_writer(engine) as writer:
        with locked:
            future = writer.submit(StagingRequest([batch(table, 1)]))
            wait_until(future.running, within=30, what="the transaction has begun")
            assert not future.cancel()
        assert sequences(future.result(timeout=30)) == [1]


class Caller:
    """A waiter that is not a Future, as the API has one per request."""

    def __init__(self) -> None:
        self.outcome: list[Receipt] | BaseException | None = None

    def set_running_or_notify_cancel(self) -> bool:
        return True

    def done(self) -> bool:
        return self.outcome is not None

    def set_result(self, result: list[Receipt]) -> None:
        self.outcome = result

    def set_exception(self, exception: BaseException) -> None:
        self.outcome = exception


def test_a_waiter_of_the_callers_own_gets_the_receipts_and_errors_that_a_future_gets(
    engine: sa.Engine, table: Table
) -> None:
    moved = registered(engine, "moved", ID)
    registered(engine, "moved", WIDER)
    writer = GroupCommit(engine)
    good, bad = Caller(), Caller()
    writer.stage(WaitingRequest(StagingRequest([batch(table, 1)]), good))
    writer.stage(WaitingRequest(StagingRequest([batch(moved, 1)]), bad))
    writer.start()
    writer.close()
    assert good.outcome == [Receipt("t", table.generation, BatchSequence(1), changes=1, rows=1)]
    assert isinstance(bad.outcome, TableMoved)
    with pytest.raises(TemporarilyUnavailable):
        writer.stage(WaitingRequest(StagingRequest([batch(table, 2)]), Caller()))


def test_the_groups_are_cut_at_the_caps(engine: sa.Engine, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.staging.writer.request_queue.MAX_GROUP_REQUESTS", 2)
    monkeypatch.setattr("app.staging.writer.request_queue.MAX_GROUP_ROWS", 3)
    requests = [[batch(table, *range(rows))] for rows in (1, 1, 1, 9, 1, 2, 1)]
    together(engine, *requests)
    found = sql.rows(engine, "SELECT batch_rows FROM mirrorgate.staged_blocks ORDER BY first_sequence")
    assert [rows for (rows,) in found] == [[1, 1], [1], [9], [1, 2], [1]]


@dataclass
class Unread:
    """A request of one batch; `read` calls `on_read` first."""

    batch: Batch
    on_read: Callable[[], object] = bool
    size: int = 10
    waiter: "Future[list[Receipt]]" = field(default_factory=Future)
    submitted_at: float = field(default_factory=time.monotonic)

    def read(self, together: Sequence["Unread"]) -> list[WaitingRequest]:
        for request in together:
            request.on_read()
        return [WaitingRequest(StagingRequest([request.batch]), request.waiter) for request in together]


def test_requests_that_arrive_while_the_writer_gathers_share_the_next_group(engine: sa.Engine, table: Table) -> None:
    later = [Unread(batch(table, key)) for key in range(100, 103)]
    writer = GroupCommit(engine)

    def gather() -> None:
        writer.gather = lambda: None
        for body in later:
            writer.read_and_stage([body])

    writer.gather = gather
    writer.read_and_stage([Unread(batch(table, 1))])
    writer.start()
    wait_until(lambda: later[-1].waiter.done(), within=30, what="the later ones are staged")
    writer.close()
    found = sql.rows(engine, "SELECT cardinality(batch_rows) FROM mirrorgate.staged_blocks ORDER BY first_sequence")
    assert [batches for (batches,) in found] == [1, 3]


def test_a_body_that_arrives_during_a_transaction_is_read_after_its_commit(engine: sa.Engine, table: Table) -> None:
    committed: list[bool] = []
    second = Unread(batch(table, 2), lambda: committed.append(first.waiter.done()))
    with running_writer(engine) as writer:
        first = Unread(batch(table, 1), lambda: writer.read_and_stage([second]))
        writer.read_and_stage([first])
        assert [sequences(request.waiter.result(timeout=30)) for request in (first, second)] == [[1], [2]]
    assert committed == [True]


MAX_TABLES = 5
_NAMES = itertools.count()

OCCUPY_SEQUENCE = """
    INSERT INTO mirrorgate.staged_blocks (table_id, generation, first_sequence, last_sequence, schema_version,
        batch_rows, batch_changes, row_count, change_count, payload_bytes, payload_digest)
    VALUES (:table_id, 1, :sequence, :sequence, 1, '{1}', '{1}', 1, 1, 1, sha256(''))"""


def batch_of(table: Table, *keys: int, position: str | None = None) -> Batch:
    staged = typed(table, inserts([{"id": key} for key in keys]))
    return staged._replace(rows=replace(staged.rows, source_position=position))


@dataclass(frozen=True)
class Request:
    """The rows of a request in each of its tables, by the table's number; a stale one was typed too early."""

    rows: dict[int, int]
    is_stale: bool


REQUESTS = st.builds(
    Request,
    st.dictionaries(st.integers(0, MAX_TABLES - 1), st.integers(1, 40), min_size=1),
    st.integers(0, 5).map(lambda number: number == 0),
)


@given(
    groups=st.lists(st.lists(REQUESTS, min_size=1, max_size=12), min_size=1, max_size=3),
    occupied=st.sets(st.integers(0, MAX_TABLES - 1), max_size=2),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_request_of_a_group_is_staged_in_all_its_tables_or_fails_for_its_own_reason(
    engine: sa.Engine, groups: list[list[Request]], occupied: set[int]
) -> None:
    """Postgres rejects the next block of an occupied table, and so the one statement with the blocks of all tables."""
    prefix = f"group{next(_NAMES)}"
    old = registered(engine, f"{prefix}.moved", ID)
    registered(engine, f"{prefix}.moved", WIDER)
    tables = [registered(engine, f"{prefix}.t{number}", ID) for number in range(MAX_TABLES)]
    for number in occupied:
        sql.run(engine, OCCUPY_SEQUENCE, table_id=tables[number].table_id, sequence=1)
    expected: list[list[int]] = [[] for _ in tables]
    sequences: Counter[int] = Counter()
    keys = itertools.count()
    for group in groups:
        written = [
            {number: list(itertools.islice(keys, rows)) for number, rows in request.rows.items()} for request in group
        ]
        typed_group = [[batch_of(tables[number], *ids) for number, ids in rows.items()] for rows in written]
        for request, batches in zip(group, typed_group, strict=True):
            batches += [batch_of(old, 1)] if request.is_stale else []
        for request, rows, future in zip(group, written, together(engine, *typed_group), strict=True):
            if request.is_stale:
                with pytest.raises(TableMoved):
                    future.result()
            elif occupied & rows.keys():
                with pytest.raises(sa.exc.IntegrityError):
                    future.result()
            else:
                sequences.update(rows.keys())
                assert future.result() == [
                    Receipt(f"{prefix}.t{number}", Generation(1), BatchSequence(sequences[number]), len(ids), len(ids))
                    for number, ids in rows.items()
                ]
                for number, ids in rows.items():
                    expected[number] += ids
    for number in {*range(MAX_TABLES)} - occupied:
        assert staged_ids(engine, tables[number]) == expected[number]
    counters = sql.rows(
        engine,
        "SELECT last_sequence, accepted_rows, accepted_changes, cdc_started FROM mirrorgate.table_counters "
        "WHERE table_id = ANY(:ids) ORDER BY table_id",
        ids=[table.table_id for table in tables],
    )
    assert counters == [(sequences[at], len(ids), len(ids), bool(ids)) for at, ids in enumerate(expected)]


@given(positions=st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
@example(positions=['"', "\\", "NULL", "", "{a,b}", None, " ", "a'b;\n"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_source_position_of_each_table_is_stored_verbatim(engine: sa.Engine, positions: list[str | None]) -> None:
    prefix = f"position{next(_NAMES)}"
    tables = [registered(engine, f"{prefix}.t{number}", ID) for number in range(len(positions))]
    requests = [[batch_of(table, 1, position=mark)] for table, mark in zip(tables, positions, strict=True)]
    for future in together(engine, *requests):
        future.result()
    for table, mark in zip(tables, positions, strict=True):
        stored = "SELECT source_position FROM mirrorgate.staged_blocks WHERE table_id = :table_id"
        assert sql.value(engine, stored, table_id=table.table_id) == (mark or None)


def test_the_blocks_of_a_group_have_one_payload_partition_and_are_of_one_transaction(engine: sa.Engine) -> None:
    tables = [registered(engine, f"t{number}", ID) for number in range(3)]
    before = together(engine, *([batch_of(table, 1)] for table in tables))
    sql.call(engine, attach_next_partition)
    sql.call(engine, open_next_partition)
    after = together(engine, *([batch_of(table, 2)] for table in tables))
    assert [future.result()[0].sequence for future in [*before, *after]] == [1, 1, 1, 2, 2, 2]
    found = sql.rows(
        engine,
        "SELECT b.first_sequence, b.bucket = o.bucket, b.bucket = p.bucket, count(DISTINCT CAST(b.xmin AS text)) "
        "FROM mirrorgate.staged_blocks b JOIN mirrorgate.block_payloads p USING (table_id, generation, first_sequence) "
        "CROSS JOIN mirrorgate.payload_buckets o WHERE o.state = 'open' GROUP BY 1, 2, 3 ORDER BY 1",
    )
    assert found == [(1, False, True, 1), (2, True, True, 1)]
    assert [staged_ids(engine, table) for table in tables] == [[1, 2]] * 3


@pytest.mark.parametrize("max_bytes", [1, 1_000, 2_000, 64 * 2**20])
def test_payloads_that_are_too_long_for_one_statement_are_inserted_by_several(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, max_bytes: int
) -> None:
    monkeypatch.setattr("app.staging.batches.staged_blocks.MAX_BYTES_PER_STATEMENT", max_bytes)
    tables = [registered(engine, f"t{number}", ID) for number in range(6)]
    futures = together(
        engine, *([batch_of(table, *range(1 + 30 * (number % 3)))] for number, table in enumerate(tables))
    )
    assert [future.result()[0].sequence for future in futures] == [1] * 6
    assert [staged_ids(engine, table) for table in tables] == [[*range(1 + 30 * (number % 3))] for number in range(6)]


def test_a_group_whose_last_statement_fails_leaves_nothing_of_the_first(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.staging.batches.staged_blocks.MAX_BYTES_PER_STATEMENT", 1)
    one, other = registered(engine, "one", ID), registered(engine, "other", ID)
    sql.run(engine, OCCUPY_SEQUENCE, table_id=other.table_id, sequence=1)
    [future] = together(engine, [batch_of(one, 1), batch_of(other, 1)])
    with pytest.raises(sa.exc.IntegrityError):
        future.result()
    assert staged_ids(engine, one) == []
    assert sql.rows(engine, "SELECT last_sequence FROM mirrorgate.table_counters") == [(0,), (0,)]
