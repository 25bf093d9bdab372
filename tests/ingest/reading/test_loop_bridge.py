"""Requests leave the event loop, and results reach it, in batches, each once, with their errors and cancellations."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from app.ingest.reader_thread import LoopBridge, LoopFuture


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
