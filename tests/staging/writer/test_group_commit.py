"""Group commit: dense sequences in commit order, whole requests, one block for all that wait together."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

import pytest
import sqlalchemy as sa

from app.domain.model.table import BatchSequence, Table
from app.staging.batches.batch import Batch, Receipt, StagingRequest, TableMoved
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
