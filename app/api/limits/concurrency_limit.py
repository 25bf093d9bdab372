"""Limits how many requests at a time do work that takes long and holds a database connection.

The others wait without a thread or a connection, so every other route still has both.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.errors import Code, TemporarilyUnavailable


class ConcurrencyLimit:
    """A number of slots for one kind of work; a request that finds none waits at most `seconds`."""

    def __init__(self, work: str, slots: int, seconds: float) -> None:
        """Create the limit. `work` names the work in the error of a request that gets no slot."""
        self._work = work
        self._free = asyncio.Semaphore(slots)
        self._seconds = seconds

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot for the block. Raises TemporarilyUnavailable `overloaded`."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._free.acquire()
        except TimeoutError:
            detail = f"no slot for {self._work} became free within {self._seconds:.0f} s"
            raise TemporarilyUnavailable(Code.OVERLOADED, detail, retry_after=10) from None
        try:
            yield
        finally:
            self._free.release()
