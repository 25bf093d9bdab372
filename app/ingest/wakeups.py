"""Waiting in an event loop for what other threads finish, many at a time."""

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")


class Wakeups:
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
