"""Hands results from threads to the event loop, several per wake-up.

Waking the loop costs a system call, and asyncio does it once per future. Here, results that arrive together wake it
once (performance notebook).
"""

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

Result = TypeVar("Result")


class LoopFuture(Generic[Result]):
    """A Future that one caller in the event loop waits for; cheaper than one that a thread can wait for."""

    __slots__ = ("_bridge", "_error", "_is_done", "_result", "_waiting")

    def __init__(self, bridge: "LoopBridge") -> None:
        self._bridge = bridge
        self._result: Result
        self._error: BaseException | None = None
        self._is_done = False
        self._waiting: asyncio.Future[None] = bridge.loop.create_future()

    def set_running_or_notify_cancel(self) -> bool:
        """Tell whether the caller still waits. A cancellation after this call has no effect."""
        return not self._waiting.cancelled()

    def done(self) -> bool:
        """Tell whether a result or an exception is set."""
        return self._is_done

    def set_result(self, result: Result) -> None:
        """Set the result. Exactly one of the two setters is called, once, in any thread."""
        self._result = result
        self._finish()

    def set_exception(self, exception: BaseException) -> None:
        """Set the exception that `result` raises."""
        self._error = exception
        self._finish()

    async def result(self) -> Result:
        """Wait in the event loop, and return the result or raise the exception."""
        await self._waiting
        if self._error is not None:
            raise self._error
        return self._result

    def _finish(self) -> None:
        self._is_done = True
        self._bridge.note(self._waiting)


class LoopBridge:
    """Does what `asyncio.wrap_future` does, with one wake-up of the loop for all results that arrive together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._done: deque[asyncio.Future[None]] = deque()
        self._is_woken = False

    async def result_of(self, future: "Future[Result]") -> Result:
        """Return what the future returns or raises. Cancelling the caller cancels the future."""
        waiter = self.loop.create_future()
        future.add_done_callback(partial(self._note, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            future.cancel()
            raise
        return future.result()

    def _note(self, waiter: "asyncio.Future[None]", _: "Future[Result]") -> None:
        self.note(waiter)

    def note(self, waiter: "asyncio.Future[None]") -> None:
        """Wake this waiter, from any thread.

        The loop resets `_is_woken` before it takes waiters, so it misses none that is added before it looks.
        """
        self._done.append(waiter)
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed, and nothing waits any more
                self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_woken = False
        while self._done:
            waiter = self._done.popleft()
            if not waiter.done():
                waiter.set_result(None)
