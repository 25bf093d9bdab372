"""Bodies that wait for the columnar reader are read together, with the same result as each alone."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.model.names import SourceName
from app.ingest import ArcionJson, reader_thread
from app.ingest.columnar import Asked, ColumnarBody, Decline, Declined, ReadOutcome, read_together
from app.ingest.reader_thread import MAX_SHORT_BYTES, ColumnarReader, LoopBridge, LoopFuture, UnreadBody
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import Receipt
from app.staging.writer.request_queue import MAX_BYTES_TOGETHER
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable
from tests.formats.arcion.test_columnar import messages, partial_updates
from tests.fuzz.decoders import TABLE
from tests.support.ingest_harness import ADMIN, IngestHarness
from tests.support.samples.messages import arcion

WAIT_SECONDS = 60


def request(*of_body: Any) -> Asked[ColumnarBody]:
    return Asked(ArcionJson(json.dumps(of_body).encode()), ADMIN)


@pytest.fixture
def table_cache(harness: IngestHarness) -> TableCache:
    """It remembers two tables without row images and one with them."""
    harness.put("tpch.t", TABLE)
    harness.put("tpch.u", TABLE)
    harness.put("tpch.v", TABLE, partial_updates="complete")
    for name in ("tpch.t", "tpch.u", "tpch.v"):
        harness.ingest.table_cache.route(SourceName.parse(name))
    return harness.ingest.table_cache


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bodies=st.lists(
        st.tuples(st.sampled_from("ttuvx"), st.lists(messages() | partial_updates(), min_size=1, max_size=3)),
        min_size=1,
        max_size=6,
    )
)
def test_bodies_read_together_are_what_each_is_alone(
    table_cache: TableCache, bodies: list[tuple[str, list[dict[str, Any]]]]
) -> None:
    requests = []
    for name, of_body in bodies:
        for message in of_body:
            message["tableName"]["name"] = name
        requests.append(request(*of_body))
    together = read_together(requests, table_cache)
    for outcome, (alone,) in zip(together, [read_together([one], table_cache) for one in requests], strict=True):
        if isinstance(outcome, list) and isinstance(alone, list):
            (batch,), (expected,) = outcome, alone
            assert batch.rows.batch.equals(expected.rows.batch)
            assert batch._replace(rows=replace(batch.rows, batch=expected.rows.batch)) == expected
        else:
            assert type(outcome) is type(alone)


def test_bodies_that_come_at_once_are_staged_and_rejected_each_by_itself(harness: IngestHarness) -> None:
    harness.put("t", TABLE)
    note = "n" * 2**14
    rows = [{"id": str(number), "name": "a", "note": note} for number in range(20)]
    rows[7]["id"] = "seven"

    async def post_all() -> list[Any]:
        bodies = [json.dumps([arcion("t", None, row)]).encode() for row in rows]
        return await asyncio.gather(
            *(harness.ingest.accept(ArcionJson(body), ADMIN) for body in bodies), return_exceptions=True
        )

    answers = asyncio.run(post_all())
    rejection = answers.pop(7)
    assert isinstance(rejection, RejectedInput)
    assert [(problem.code, problem.index, problem.pointer) for problem in rejection.problems] == [
        (Code.BAD_VALUE, 0, "/after/id")
    ]
    sequences = [answer.receipts[0].sequence for answer in answers]
    assert sorted(sequences) == list(range(1, 20))
    landed = {sequence: row["id"] for sequence, row in enumerate(harness.rows("t"), 1)}
    expected = [number for number in range(20) if number != 7]
    assert [landed[sequence] for sequence in sequences] == expected


LONG = MAX_SHORT_BYTES + 1


class _Recorded:
    """Stands for the reading itself: notes what is read together, and holds the first until it is let go."""

    def __init__(self) -> None:
        self.began, self.may_go = Event(), Event()
        self.groups: list[list[int]] = []

    def __call__(self, requests: Sequence[Asked[ColumnarBody]], _: TableCache) -> list[ReadOutcome]:
        self.groups.append([len(one.body.body) for one in requests])
        self.began.set()
        assert self.may_go.wait(WAIT_SECONDS)
        if len(requests[0].body.body) in {1, LONG + 1}:
            raise MemoryError
        return [Declined(Decline.BODY)] * len(requests)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> _Recorded:
    recorded = _Recorded()
    monkeypatch.setattr(reader_thread, "read_together", recorded)
    return recorded


def read_sizes(
    harness: IngestHarness, recorded: _Recorded, first: int, sizes: list[int], gone: int | None = None
) -> list[object]:
    """Return the results of bodies of these sizes that wait behind another; the caller of one can be `gone`."""

    async def read() -> list[object]:
        ingest = harness.ingest
        reader = ColumnarReader(ingest.table_cache, ingest.group_commit, ingest.check_room)
        bridge = LoopBridge(asyncio.get_running_loop(), reader.submit)

        def submitted(size: int) -> "asyncio.Task[list[Receipt]]":
            waiter: LoopFuture[list[Receipt]] = LoopFuture(bridge)
            body = UnreadBody(reader, Asked(ArcionJson(bytes(size)), ADMIN), waiter)
            bridge.send(body)
            return asyncio.ensure_future(waiter.result())

        ahead = submitted(first)
        assert await asyncio.to_thread(recorded.began.wait, WAIT_SECONDS)
        waiting = [submitted(size) for size in sizes]
        await asyncio.sleep(0)
        if gone is not None:
            waiting[gone].cancel()
            await asyncio.sleep(0)
        recorded.may_go.set()
        outcomes = (await asyncio.gather(ahead, *waiting, return_exceptions=True))[1:]
        reader.close()
        return outcomes

    return asyncio.run(asyncio.wait_for(read(), WAIT_SECONDS))


def test_long_bodies_that_wait_are_read_together_up_to_a_size(harness: IngestHarness, recorded: _Recorded) -> None:
    part = MAX_BYTES_TOGETHER // 2
    read_sizes(harness, recorded, LONG, [part, part, part, 2 * MAX_BYTES_TOGETHER, LONG, LONG + 2])
    assert recorded.groups == [[LONG], [part, part], [part], [2 * MAX_BYTES_TOGETHER], [LONG, LONG + 2]]


def test_short_bodies_that_wait_for_a_transaction_are_read_together_up_to_a_size(
    harness: IngestHarness, recorded: _Recorded
) -> None:
    many = [MAX_SHORT_BYTES] * (MAX_BYTES_TOGETHER // MAX_SHORT_BYTES)
    read_sizes(harness, recorded, 0, [*many, 10, 20])
    assert recorded.groups == [[0], many, [10, 20]]


@pytest.mark.parametrize("size", [10, LONG])
def test_a_body_whose_caller_has_gone_is_not_read(harness: IngestHarness, recorded: _Recorded, size: int) -> None:
    outcomes = read_sizes(harness, recorded, size, [size, size + 10, size + 20], gone=1)
    assert recorded.groups == [[size], [size, size + 20]]
    assert [type(outcome) for outcome in outcomes] == [Declined, asyncio.CancelledError, Declined]


@pytest.mark.parametrize(("size", "others"), [(1, MAX_SHORT_BYTES), (LONG + 1, MAX_BYTES_TOGETHER)])
def test_a_fault_reaches_all_who_wait_and_the_next_are_read(
    harness: IngestHarness, recorded: _Recorded, size: int, others: int
) -> None:
    full = [others] * (MAX_BYTES_TOGETHER // others)
    outcomes = read_sizes(harness, recorded, size - 1, [size, size + 1, *full])
    assert [type(outcome) for outcome in outcomes[:2]] == [MemoryError, MemoryError]
    assert type(outcomes[-1]) is Declined


@pytest.mark.parametrize("size", [10, LONG])
def test_a_body_that_comes_after_the_writer_has_closed_is_told_so(harness: IngestHarness, size: int) -> None:
    async def late() -> None:
        ingest = harness.ingest
        ingest.group_commit.close()
        reader = ColumnarReader(ingest.table_cache, ingest.group_commit, ingest.check_room)
        bridge = LoopBridge(asyncio.get_running_loop(), reader.submit)
        waiter: LoopFuture[list[Receipt]] = LoopFuture(bridge)
        body = json.dumps([arcion("tpch.t", None, {"id": "1", "name": "a", "note": "n" * size})]).encode()
        bridge.send(UnreadBody(reader, Asked(ArcionJson(body), ADMIN), waiter))
        with pytest.raises(TemporarilyUnavailable, match=Code.SHUTTING_DOWN):
            await waiter.result()
        reader.close()

    harness.put("tpch.t", TABLE)
    harness.ingest.table_cache.route(SourceName.parse("tpch.t"))
    asyncio.run(asyncio.wait_for(late(), WAIT_SECONDS))


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that knows how often another thread woke it."""

    woken = 0

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, **others: Any) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, **others)


def woken(loop: asyncio.AbstractEventLoop) -> int:
    assert isinstance(loop, CountingLoop)
    return loop.woken


def bridge_to(sent: list[Sequence[int]]) -> LoopBridge[int]:
    """Return a bridge of the running loop that notes what it hands over."""
    return LoopBridge(asyncio.get_running_loop(), sent.append)


def test_requests_of_one_turn_are_handed_over_together() -> None:
    async def send() -> list[Sequence[int]]:
        sent: list[Sequence[int]] = []
        bridge = bridge_to(sent)
        for number in range(3):
            bridge.send(number)
        assert not sent
        await asyncio.sleep(0)
        bridge.send(3)
        await asyncio.sleep(0)
        return sent

    assert asyncio.run(send()) == [[0, 1, 2], [3]]


def test_results_of_another_thread_all_arrive() -> None:
    async def one_by_one() -> list[int]:
        bridge = bridge_to([])
        waiters: list[LoopFuture[int]] = [LoopFuture(bridge) for _ in range(1_000)]

        def finish() -> None:
            for number, waiter in enumerate(waiters):
                waiter.set_result(number)

        waiting = [bridge.loop.create_task(waiter.result()) for waiter in waiters]
        await asyncio.to_thread(finish)
        return await asyncio.gather(*waiting)

    assert asyncio.run(one_by_one()) == list(range(1_000))


def test_a_result_for_a_loop_that_is_closed_is_ignored() -> None:
    async def leave() -> LoopFuture[int]:
        return LoopFuture(bridge_to([]))

    waiter = asyncio.run(leave())
    waiter.set_result(1)
    assert waiter.done()


def test_results_that_arrive_together_wake_the_loop_once() -> None:
    async def all_of() -> list[int | BaseException]:
        loop = asyncio.get_running_loop()
        bridge = bridge_to([])
        waiters: list[LoopFuture[int]] = [LoopFuture(bridge) for _ in range(3)]
        waiting = [loop.create_task(waiter.result()) for waiter in waiters]
        await asyncio.sleep(0)
        before = woken(loop)
        assert all(waiter.set_running_or_notify_cancel() and not waiter.done() for waiter in waiters)
        waiters[0].set_result(1)
        waiters[1].set_exception(ValueError("this one"))
        waiters[2].set_result(3)
        assert all(waiter.done() for waiter in waiters)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert woken(loop) == before + 1
        return results

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        first, error, last = runner.run(all_of())
    assert (first, str(error), last) == (1, "this one", 3)


def test_a_result_for_a_cancelled_caller_is_dropped() -> None:
    async def one_goes() -> None:
        loop = asyncio.get_running_loop()
        waiter: LoopFuture[int] = LoopFuture(bridge_to([]))
        task = loop.create_task(waiter.result())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not waiter.set_running_or_notify_cancel()
        waiter.set_exception(ValueError("too late"))
        await asyncio.sleep(0)

    asyncio.run(one_goes())


def test_a_thread_that_passes_the_turns_of_the_loop_finds_what_the_answered_callers_sent_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.ingest.reader_thread._MAX_TURNS_SECONDS", 30.0)

    async def found() -> list[int]:
        sent: list[Sequence[int]] = []
        bridge = bridge_to(sent)
        waiters: list[LoopFuture[int]] = [LoopFuture(bridge) for _ in range(3)]

        async def call_again(waiter: LoopFuture[int]) -> None:
            bridge.send(await waiter.result())

        def answer() -> list[int]:
            for number, waiter in enumerate(waiters):
                waiter.set_result(number)
            bridge.pass_turns()
            return [number for group in sent for number in group]

        callers = [bridge.loop.create_task(call_again(waiter)) for waiter in waiters]
        handed_over = await asyncio.to_thread(answer)
        await asyncio.gather(*callers)
        return handed_over

    assert asyncio.run(found()) == [0, 1, 2]


def test_the_turns_of_a_closed_loop_are_passed_at_once() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    LoopBridge[int](loop, lambda _: None).pass_turns()
