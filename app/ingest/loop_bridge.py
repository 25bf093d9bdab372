"""Hands requests from the event loop to threads, and results back, several at a time.

Waking the loop costs a system call, and asyncio does it once per future. Here, results that arrive together wake it
once (performance notebook).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

Request = TypeVar("Request")
Result = TypeVar("Result")


class LoopFuture(Generic[Result]):
    """A result that one caller in the event loop waits for; cheaper than a Future that a thread can wait for."""

    __slots__ = ("_bridge", "_error", "_is_done", "_result", "_waiting")

    def __init__(self, bridge: "LoopBridge[Any]") -> None:
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


class LoopBridge(Generic[Request]):
    """Wakes the loop once for all results that arrive together, and a thread once for all requests of a loop's turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, hand_over: Callable[[Sequence[Request]], None]) -> None:
        """Prepare. `hand_over` gives requests to a thread."""
        self.loop = loop
        self._hand_over = hand_over
        self._requests: list[Request] = []
        self._done: deque[asyncio.Future[None]] = deque()
        self._is_woken = False

    def send(self, request: Request) -> None:
        """Hand a request over at the end of this turn of the loop, in which it is called."""
        if not self._requests:
            self.loop.call_soon(self._send_all)
        self._requests.append(request)

    def note(self, waiter: "asyncio.Future[None]") -> None:
        """Wake this waiter, from any thread.

        The loop resets `_is_woken` before it takes waiters, so it misses none that is added before it looks.
        """
        self._done.append(waiter)
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed, and nothing waits any more
                self.loop.call_soon_threadsafe(self._wake)

    def _send_all(self) -> None:
        requests, self._requests = self._requests, []
        self._hand_over(requests)

    def _wake(self) -> None:
        self._is_woken = False
        while self._done:
            waiter = self._done.popleft()
            if not waiter.done():
                waiter.set_result(None)
