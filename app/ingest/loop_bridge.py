"""Waiting in an event loop for what other threads finish, many at a time."""

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

Result = TypeVar("Result")


class LoopFuture(Generic[Result]):
    """Takes the place of a Future that one caller in the loop waits for, without what it takes to wait in a thread."""

    __slots__ = ("_bridge", "_error", "_is_done", "_result", "_waiting")

    def __init__(self, bridge: "LoopBridge") -> None:
        self._bridge = bridge
        self._result: Result
        self._error: BaseException | None = None
        self._is_done = False
        self._waiting: asyncio.Future[None] = bridge.loop.create_future()

    def set_running_or_notify_cancel(self) -> bool:
        """Whether the caller waits; from now on it does not matter whether it does."""
        return not self._waiting.cancelled()

    def done(self) -> bool:
        return self._is_done

    def set_result(self, result: Result) -> None:
        """Called once, in any thread, as `set_exception`."""
        self._result = result
        self._finish()

    def set_exception(self, exception: BaseException) -> None:
        self._error = exception
        self._finish()

    async def result(self) -> Result:
        """What was set. Awaited at once, in the loop."""
        await self._waiting
        if self._error is not None:
            raise self._error
        return self._result

    def _finish(self) -> None:
        self._is_done = True
        self._bridge.note(self._waiting)


class LoopBridge:
    """As `asyncio.wrap_future`, but results that come together wake the loop once, and each is handed over once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._done: deque[asyncio.Future[None]] = deque()
        self._is_woken = False

    async def result_of(self, future: "Future[Result]") -> Result:
        """What the future gives or raises. It is cancelled with its waiter."""
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
        """Called in any thread. What is noted before the loop looks, it finds: it takes back `_is_woken` first."""
        self._done.append(waiter)
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_woken = False
        while self._done:
            waiter = self._done.popleft()
            if not waiter.done():
                waiter.set_result(None)
