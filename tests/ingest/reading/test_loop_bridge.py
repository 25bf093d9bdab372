"""Results of other threads reach the event loop in batches, each once, with their errors and cancellations."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from app.ingest.loop_bridge import LoopBridge, LoopFuture


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that knows how often another thread woke it."""

    woken = 0

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, **others: Any) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, **others)


def woken(loop: asyncio.AbstractEventLoop) -> int:
    assert isinstance(loop, CountingLoop)
    return loop.woken


def test_results_that_come_together_wake_the_loop_once() -> None:
    futures: list[Future[int]] = [Future() for _ in range(5)]

    async def all_of() -> list[int]:
        loop = asyncio.get_running_loop()
        bridge = LoopBridge(loop)
        waiting = [loop.create_task(bridge.result_of(future)) for future in futures]
        await asyncio.sleep(0)
        before = woken(loop)
        for number, future in enumerate(futures):
            future.set_result(number)
        results = await asyncio.gather(*waiting)
        assert woken(loop) == before + 1
        return results

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        assert runner.run(all_of()) == [0, 1, 2, 3, 4]


def test_results_of_another_thread_all_arrive() -> None:
    async def one_by_one() -> list[int]:
        loop = asyncio.get_running_loop()
        bridge = LoopBridge(loop)
        futures: list[Future[int]] = [Future() for _ in range(1_000)]

        def finish() -> None:
            for number, future in enumerate(futures):
                future.set_result(number)

        waiting = [loop.create_task(bridge.result_of(future)) for future in futures]
        await asyncio.to_thread(finish)
        return await asyncio.gather(*waiting)

    assert asyncio.run(one_by_one()) == list(range(1_000))


def test_a_future_that_was_done_before_is_waited_for_as_well() -> None:
    future: Future[str] = Future()
    future.set_result("done")

    async def result() -> str:
        return await LoopBridge(asyncio.get_running_loop()).result_of(future)

    assert asyncio.run(result()) == "done"


def test_an_error_is_raised_where_it_is_waited_for() -> None:
    future: Future[str] = Future()
    future.set_exception(ValueError("this one"))

    async def result() -> str:
        return await LoopBridge(asyncio.get_running_loop()).result_of(future)

    with pytest.raises(ValueError, match="this one"):
        asyncio.run(result())


def test_a_waiter_that_goes_takes_its_future_back_and_leaves_the_others() -> None:
    gone: Future[int] = Future()
    stays: Future[int] = Future()

    async def one_goes() -> int:
        loop = asyncio.get_running_loop()
        bridge = LoopBridge(loop)
        tasks = [loop.create_task(bridge.result_of(future)) for future in (gone, stays)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        stays.set_result(2)
        return await tasks[1]

    assert asyncio.run(one_goes()) == 2
    assert gone.cancelled()


def test_a_result_for_a_loop_that_is_closed_is_ignored() -> None:
    future: Future[int] = Future()

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        loop.create_task(LoopBridge(loop).result_of(future)).add_done_callback(lambda _: None)
        future.set_running_or_notify_cancel()
        await asyncio.sleep(0)

    asyncio.run(leave())
    future.set_result(1)
    assert future.result() == 1


def test_results_that_arrive_together_wake_the_loop_once() -> None:
    async def all_of() -> list[int | BaseException]:
        loop = asyncio.get_running_loop()
        bridge = LoopBridge(loop)
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
        waiter: LoopFuture[int] = LoopFuture(LoopBridge(loop))
        task = loop.create_task(waiter.result())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not waiter.set_running_or_notify_cancel()
        waiter.set_exception(ValueError("too late"))
        await asyncio.sleep(0)

    asyncio.run(one_goes())
