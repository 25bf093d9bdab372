"""The writers of the client library with the real gateway: each row lands once and in order, whatever fails."""

import asyncio
import inspect
import json
import multiprocessing
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mirrorgate import (
    Accepted,
    AsyncChangeWriter,
    AsyncGatewayClient,
    BufferLimits,
    ChangeWriter,
    GatewayClient,
    ProducerConflict,
    RejectedByGateway,
    RejectedRow,
    RowsRejected,
)
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable
from tests.api.calls import ADMIN_KEY, Gateway, insert
from tests.api.commands import keys
from tests.support.http.faulty_proxy import Fault, FaultyProxy, Held, faulty_proxy
from tests.support.waiting import wait_until

SMALL: Final = BufferLimits(request_bytes=120, request_rows=5, max_age=0.01, buffer_bytes=2_000)

both = pytest.mark.parametrize("kind", ["sync", "async"])


class InLoop:
    """Looks like a ChangeWriter and runs an AsyncChangeWriter, in an event loop that runs during the calls only."""

    def __init__(self, runner: asyncio.Runner, writer: AsyncChangeWriter[Any]) -> None:
        self._runner = runner
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._writer, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *given, **options: self._runner.run(found(*given, **options))


@contextmanager
def writing(kind: str, url: str, *, limits: BufferLimits = SMALL, **options: Any) -> Iterator[ChangeWriter[Any]]:
    """Yield a writer of a kind, `sync` or `async`, with an end as a `with` statement gives it."""
    if kind == "sync":
        with GatewayClient(url, ADMIN_KEY) as client, ChangeWriter[Any](client, limits=limits, **options) as writer:
            yield writer
        return
    with asyncio.Runner() as runner, ExitStack() as end:
        entered = AsyncExitStack()
        end.push(lambda *error: runner.run(entered.__aexit__(*error)))
        client_of_loop = runner.run(entered.enter_async_context(AsyncGatewayClient(url, ADMIN_KEY)))
        opened = AsyncChangeWriter[Any](client_of_loop, limits=limits, **options)
        yield cast("ChangeWriter[Any]", InLoop(runner, runner.run(entered.enter_async_context(opened))))


@dataclass(frozen=True)
class Writers:
    """Opens writers of one kind, `sync` or `async`."""

    kind: str
    address: str
    engine: sa.Engine

    def open(self, table: str | None = "t", **options: Any) -> AbstractContextManager[ChangeWriter[Any]]:
        return writing(self.kind, self.address, table=table, **options)


@pytest.fixture(params=["sync", "async"])
def writers(request: pytest.FixtureRequest, gateway: Gateway, table: str) -> Writers:
    return Writers(request.param, gateway.address, gateway.engine)


FAULTS = st.lists(st.sampled_from([Fault.NONE, Fault.LOST, Fault.DROPPED, Fault.BUSY, Fault.FAILED]), max_size=4)


@dataclass(frozen=True)
class Case:
    """What fails while 20 rows are written, of which some are wrong."""

    faults: list[Fault]
    wrong: set[int]
    is_numbered: bool
    flush_at: int


CASES = st.builds(Case, FAULTS, st.sets(st.integers(0, 19), max_size=3), st.booleans(), st.integers(0, 19))


@dataclass
class Scenery:
    """A gateway with a table for each case, behind a proxy that spoils requests."""

    gateway: Gateway
    proxy: FaultyProxy
    engine: sa.Engine
    cases: Iterator[int]

    def check(self, kind: str, case: Case) -> None:
        """Write rows: rejected ones are handed over with their handles, and all others land once and in order."""
        name = f"w{next(self.cases)}"
        self.gateway.register(name, {"id": "int64"}, ["id"]).raise_for_status()
        self.proxy.faults[:] = case.faults
        rejected: list[RejectedRow] = []
        accepted: list[Accepted] = []
        options = {"producer": f"w/{name}"} if case.is_numbered else {}
        with writing(
            kind, self.proxy.url, table=name, on_accepted=accepted.append, on_rejected=rejected.append, **options
        ) as writer:
            for number in range(20):
                position = {"position": f"at {number}"} if case.is_numbered else {}
                writer.write({"id": "x" if number in case.wrong else number}, handle=number, **position)
                if number == case.flush_at:
                    writer.flush()
                    settled = [one.number for one in rejected] + [n for one in accepted for n in one.handles]
                    assert sorted(settled) == list(range(number + 1))
        right = [number for number in range(20) if number not in case.wrong]
        assert keys(self.engine, name) == right
        assert [handle for one in accepted for handle in one.handles] == right
        assert writer.position == (f"at {right[-1]}" if case.is_numbered else None)
        assert [(one.number, one.handle, one.code) for one in rejected] == [
            (number, number, "bad_value") for number in sorted(case.wrong)
        ]


@pytest.fixture
def scenery(gateway: Gateway, proxy: FaultyProxy, numbers: Iterator[int]) -> Scenery:
    return Scenery(gateway, proxy, gateway.engine, numbers)


@both
@given(case=CASES)
@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_row_lands_once_and_in_order_whatever_fails(scenery: Scenery, kind: str, case: Case) -> None:
    scenery.check(kind, case)


@pytest.mark.thorough
@both
@given(case=CASES)
@settings(max_examples=25, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_row_lands_once_and_in_order_in_many_cases(scenery: Scenery, kind: str, case: Case) -> None:
    scenery.check(kind, case)


def test_a_flush_returns_receipts_of_durable_rows(writers: Writers) -> None:
    with writers.open() as writer:
        for number in range(12):
            writer.write({"id": number})
        (receipt,) = writer.flush()
        assert (receipt.table, receipt.changes, receipt.rows) == ("t", 12, 12)
        assert keys(writers.engine) == list(range(12))
        assert writer.flush() == ()
        writer.write({"id": 3}, op="delete")
        (receipt,) = writer.close()
        assert (receipt.changes, writer.close()) == (1, ())
        with pytest.raises(RejectedInput, match="closed"):
            writer.write({"id": 1})


def test_a_row_lands_without_a_flush_after_its_age(writers: Writers) -> None:
    arrived = threading.Event()
    with writers.open(on_accepted=lambda _: arrived.set()) as writer:
        writer.write({"id": 1})
        if writers.kind == "async":
            writer.flush()
        assert arrived.wait(30)


def test_a_rejected_row_stops_the_writer_and_names_its_handle(writers: Writers) -> None:
    with pytest.raises(RowsRejected) as raised, writers.open() as writer:
        writer.write({"id": 1})
        writer.flush()
        writer.write({"id": 2}, handle="order 2")
        writer.write({"id": "x"}, handle="order 3")
        writer.flush()
    error = raised.value
    assert (error.code, error.unsent) == (Code.BAD_VALUE, 2)
    assert [(row.handle, row.number, row.pointer) for row in error.rows] == [("order 3", 2, "/id")]
    assert keys(writers.engine) == [1]


def test_a_rejected_row_that_no_call_waits_for_is_raised_at_the_end(writers: Writers) -> None:
    with pytest.raises(RowsRejected), writers.open() as writer:
        writer.write({"id": "x"})


def test_what_concerns_no_row_is_raised_as_the_gateway_says_it(writers: Writers) -> None:
    with pytest.raises((RejectedByGateway, RowsRejected)) as raised, writers.open("none") as writer:
        writer.write({"id": 1})
    assert raised.value.code is Code.UNKNOWN_TABLE


@both
def test_a_gateway_that_stays_away_is_given_up_and_the_rows_are_counted(table: str, kind: str) -> None:
    with faulty_proxy("http://127.0.0.1:9") as gone:
        url = gone.url
    writers = []
    with pytest.raises(TemporarilyUnavailable), writing(kind, url, table=table, give_up_after=0) as writer:
        writers.append(writer)
        writer.write({"id": 1})
        writer.flush()
    assert writers[0].unsent == 1


@both
def test_a_large_request_is_cut_smaller_than_the_gateway_allows(gateway: Gateway, kind: str) -> None:
    """The gateway of these tests takes bodies of 100 kB."""
    gateway.register("n", {"id": "int64", "note": "string"}, ["id"]).raise_for_status()
    with writing(kind, gateway.address, table="n", limits=BufferLimits(request_bytes=2**19)) as writer:
        for number in range(300):
            writer.write({"id": number, "note": "x" * 1_000})
    assert keys(gateway.engine, "n") == list(range(300))


def test_a_restarted_program_continues_after_the_position(writers: Writers) -> None:
    for _ in range(3):
        with writers.open(producer="shop") as writer:
            first = 0 if writer.position is None else int(writer.position) + 1
            for number in range(first, first + 7):
                writer.write({"id": number}, position=str(number))
            if first == 7:
                writer.flush()
                writer.write({"id": 99})
                writer.abort()
    assert keys(writers.engine) == list(range(21))


def test_a_function_writes_a_row_in_bytes_or_a_string(writers: Writers) -> None:
    for encode in (lambda key: f'{{"id": {key}}}', lambda key: b'{"id":\n%d}' % key):
        with writers.open(encode=encode) as writer:
            writer.write(len(keys(writers.engine)))
    with writers.open(encode=lambda key: None) as writer, pytest.raises(RejectedInput, match="not an object"):
        writer.write(9)
    assert keys(writers.engine) == [0, 1]


def test_two_writers_of_one_producer_are_told_apart(writers: Writers) -> None:
    with (
        writers.open(producer="shop") as other,
        pytest.raises(ProducerConflict),
        writers.open(producer="shop") as writer,
    ):
        other.write({"id": 1})
        other.flush()
        writer.write({"id": 2})


def test_messages_of_a_tool_pass_as_they_were_written(writers: Writers) -> None:
    with writers.open(None, source_format="arcion") as writer:
        writer.write_change(insert("t", id="1"))
        writer.write_change(json.dumps(insert("t", id="2"), indent=2))
        with pytest.raises(RejectedInput, match="not rows"):
            writer.write({"id": 1})
    assert keys(writers.engine) == [1, 2]


def test_what_a_function_of_the_caller_raises_stops_the_writer(writers: Writers) -> None:
    def fails(_: Accepted) -> None:
        raise LookupError("no such row")

    with pytest.raises(LookupError), writers.open(on_accepted=fails) as writer:
        writer.write({"id": 1})
        writer.flush()


def test_an_error_of_the_program_is_not_hidden_and_its_rows_land(writers: Writers) -> None:
    with pytest.raises(LookupError), writers.open() as writer:
        writer.write({"id": 1})
        raise LookupError("in the program")
    assert keys(writers.engine) == [1]


def test_an_interrupted_program_ends_without_sending(writers: Writers) -> None:
    limits = BufferLimits(max_age=3_600)
    with pytest.raises(KeyboardInterrupt), writers.open(limits=limits) as writer:
        writer.write({"id": 1})
        raise KeyboardInterrupt
    assert writer.unsent == 1


@pytest.mark.usefixtures("table")
def test_write_waits_for_room_while_the_gateway_is_busy(gateway: Gateway) -> None:
    limits = BufferLimits(request_rows=2, max_age=0.0, buffer_bytes=2_000)
    written: list[int] = []
    with faulty_proxy(gateway.address, Held.IN_FLIGHT) as slow:

        def write_all() -> None:
            with writing("sync", slow.url, table="t", limits=limits) as writer:
                for number in range(50):
                    writer.write({"id": number})
                    written.append(number)

        program = threading.Thread(target=write_all)
        program.start()
        assert slow.held.wait(30)
        program.join(0.2)
        assert program.is_alive()
        assert len(written) < 2_000 // 200
        slow.release.set()
        program.join(30)
    assert keys(gateway.engine) == list(range(50))


@pytest.mark.parametrize("is_aborted", [False, True])
@pytest.mark.usefixtures("table")
def test_rows_whose_write_was_cancelled_land_in_their_order_or_count(gateway: Gateway, is_aborted: bool) -> None:
    limits = BufferLimits(request_rows=1, max_age=0.0, buffer_bytes=500)

    async def write_all(slow: FaultyProxy) -> None:
        client = AsyncGatewayClient(slow.url, ADMIN_KEY)
        async with client, AsyncChangeWriter[Any](client, table="t", limits=limits) as writer:
            for number in range(9):
                with suppress(TimeoutError):
                    await asyncio.wait_for(writer.write({"id": number}), 0.01)
            assert writer.unsent == 9
            if is_aborted:
                await writer.abort()
            else:
                slow.release.set()
        assert writer.unsent == 9 * is_aborted

    with faulty_proxy(gateway.address, Held.IN_FLIGHT) as slow:
        asyncio.run(write_all(slow))
    assert is_aborted or keys(gateway.engine) == list(range(9))


@pytest.mark.usefixtures("table")
def test_rows_of_several_threads_land_once_each_thread_in_its_order(gateway: Gateway) -> None:
    with writing("sync", gateway.address, table="t") as writer:
        threads = [
            threading.Thread(target=lambda of=of: [writer.write({"id": of * 100 + n}) for n in range(20)])  # type: ignore[misc]  # the default binds the loop's variable
            for of in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    landed = keys(gateway.engine)
    for of in range(3):
        assert [key for key in landed if key // 100 == of] == list(range(of * 100, of * 100 + 20))


@pytest.mark.usefixtures("table")
def test_a_rejected_row_can_be_written_again_corrected(gateway: Gateway) -> None:
    def correct(row: RejectedRow) -> None:
        writer.write({"id": row.handle})

    with writing("sync", gateway.address, table="t", on_rejected=correct) as writer:
        writer.write({"id": "one"}, handle=1)
        writer.write({"id": 2})
    assert sorted(keys(gateway.engine)) == [1, 2]


@pytest.mark.usefixtures("table")
def test_a_row_that_is_written_during_the_end_is_rejected_or_lands(gateway: Gateway) -> None:
    written: list[int] = []

    def write_until_the_end() -> None:
        with suppress(RejectedInput):
            while True:
                writer.write({"id": len(written)})
                written.append(len(written))

    with writing("sync", gateway.address, table="t", limits=BufferLimits()) as writer:
        other = threading.Thread(target=write_until_the_end)
        other.start()
        wait_until(lambda: len(written) > 10, within=30, what="rows are written")
    other.join(30)
    assert keys(gateway.engine) == written


@pytest.mark.usefixtures("table")
def test_a_forked_process_is_told_to_open_its_own_writer(gateway: Gateway) -> None:
    with writing("sync", gateway.address, table="t") as writer:

        def child() -> None:
            try:
                writer.write({"id": 1})
            except RejectedInput as error:
                os._exit(7 if "fork" in error.detail else 1)
            os._exit(1)

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(30)
        assert process.exitcode == 7


@pytest.mark.usefixtures("table")
def test_the_requests_of_a_forked_process_do_not_mix_with_those_of_its_parent(gateway: Gateway) -> None:
    fork = multiprocessing.get_context("fork")
    both_run = fork.Barrier(2)
    with GatewayClient(gateway.address, ADMIN_KEY) as client:

        def post(numbers: range) -> None:
            both_run.wait(30)
            for number in numbers:
                client.post_changes("rows", b'{"id": %d}' % number, table="t")

        client.post_changes("rows", b'{"id": 0}', table="t")
        process = fork.Process(target=post, args=[range(1, 100)])
        process.start()
        post(range(100, 200))
        process.join(30)
        assert process.exitcode == 0
    assert sorted(keys(gateway.engine)) == list(range(200))


def test_a_writer_of_rows_needs_a_table(api_address: str) -> None:
    with pytest.raises(RejectedInput, match="needs a table"), writing("sync", api_address):
        pass


def test_a_writer_that_was_never_opened_can_be_ended_and_takes_no_row(api_address: str) -> None:
    async def end() -> None:
        async with AsyncGatewayClient(api_address, ADMIN_KEY) as client:
            writer = AsyncChangeWriter[Any](client, table="t")
            with pytest.raises(RejectedInput, match="the writer is not open"):
                await writer.write({"id": 1})
            await writer.abort()
            assert await writer.close() == ()

    asyncio.run(end())
