"""Lets a few requests at a time do what takes long and holds a database connection.

The others wait without a thread or a connection, so every other route still has both.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.errors import Code, TemporarilyUnavailable


class Places:
    """A number of places; a request that finds none waits at most `seconds`."""

    def __init__(self, number: int, seconds: float) -> None:
        self._free = asyncio.Semaphore(number)
        self._seconds = seconds

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold a place for the block. Raises TemporarilyUnavailable `overloaded`."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._free.acquire()
        except TimeoutError:
            detail = f"requests of this kind take turns, and it was not this one's within {self._seconds:.0f} s"
            raise TemporarilyUnavailable(Code.OVERLOADED, detail, retry_after=10) from None
        try:
            yield
        finally:
            self._free.release()
