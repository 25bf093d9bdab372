"""The writer of asyncio programs: a task posts what other tasks write."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from app.client.async_sender import AsyncGatewayClient, AsyncRequestSender
from app.client.http import RejectedByGateway
from app.client.request_names import ChangeRequest, NumberedRequests, RequestNames
from app.client.retrying import is_final
from app.client.writer.base import Row, WriterBase, closed, keyed_requests
from app.client.writer.outcome import Receipt
from app.errors import Code, RejectedInput


class AsyncChangeWriter(WriterBase[AsyncGatewayClient, Row]):
    """Writes rows of one table, or messages of a tool, as ChangeWriter does; for one event loop.

    Use it as `async with`, which starts its task. Rows land in the order of the calls of `write`. The functions that it
    calls must not block.
    """

    def _start(self) -> None:
        """Begin without a task: there may be no event loop yet."""
        self._names: RequestNames = keyed_requests()
        self._task: asyncio.Task[None] | None = None
        self._is_aborted = False
        self._work = asyncio.Event()
        self._progress = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Ask the gateway how far the producer is, and start the task. Raises what the client raises."""
        if self._producer is not None:
            self._names = await self._client.producer(self._producer, self._give_up_after, self._on_wait)
        sender = AsyncRequestSender(self._client, self._names, self._give_up_after, self._on_wait)
        self._task = asyncio.create_task(self._run(sender), name="change-writer")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send what was written. After a cancellation and the like, end without sending."""
        if error is not None and not isinstance(error, Exception):
            await self.abort()
            return
        try:
            await self.close()
        except Exception as failure:
            if error is None:
                raise
            if failure is not error:
                error.add_note(f"The writer also failed: {failure}")

    @property
    def position(self) -> str | None:
        """The last durable position; None before the first one, and without a producer."""
        return self._names.position if isinstance(self._names, NumberedRequests) else None

    async def write(self, row: Row, *, op: str | None = None, handle: Any = None, position: str | None = None) -> None:
        """Write a row, as `ChangeWriter.write` does."""
        await self._put(self._row_text(row, op), handle, position)

    async def delete(self, row: Row, *, handle: Any = None, position: str | None = None) -> None:
        """Delete the row with these key values."""
        await self.write(row, op="delete", handle=handle, position=position)

    async def write_change(
        self, message: Mapping[str, Any] | bytes | str, *, handle: Any = None, position: str | None = None
    ) -> None:
        """Write one message as the tool wrote it: text stays as it is, a mapping becomes JSON."""
        await self._put(self._message_text(message), handle, position)

    async def flush(self) -> tuple[Receipt, ...]:
        """Return after everything that was written is durable: what each table accepted since the last flush."""
        self._check_usable()
        return await self._receipts_of_all()

    async def close(self) -> tuple[Receipt, ...]:
        """Flush and end; nothing more can be written. Returns what `flush` returns. Safe to repeat."""
        self._check_works()
        if self._is_closed:
            return ()
        self._is_closed = True  # before the wait: a row that another task writes now would not be sent
        try:
            return await self._receipts_of_all()
        finally:
            await self.abort()

    async def abort(self) -> None:
        """End without sending what waits, which `unsent` counts. A request that is open may still become durable."""
        self._is_closed = self._is_aborted = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._note_progress()

    async def _receipts_of_all(self) -> tuple[Receipt, ...]:
        """Wait until all rows are settled that were written by now."""
        mark = self._core.flush()
        self._work.set()
        while self._core.settled < mark:
            self._check_works()
            if self._is_aborted:
                raise closed()
            await self._progress.wait()
        return self._core.take_receipts()

    async def _put(self, body: bytes, handle: Any, position: str | None) -> None:
        self._check_usable()
        if self._task is None:
            raise RejectedInput(Code.BAD_REQUEST, "the writer is not open", remedy="Use it as `async with`.")
        while not self._core.has_room(body):
            self._core.flush()
            self._work.set()
            await self._progress.wait()
            self._check_usable()
        if self._core.add(body, handle, position, asyncio.get_running_loop().time()):
            self._work.set()
            await asyncio.sleep(0)  # without it, a loop that only writes would keep the task from starting

    async def _run(self, sender: AsyncRequestSender) -> None:
        """Send requests until the cancellation; keep what fails for the next caller."""
        try:
            while True:
                await self._send(sender, await self._next_request())
        except Exception as error:  # noqa: BLE001  # every later call raises it
            self._failure = error
            self._note_progress()

    async def _next_request(self) -> ChangeRequest:
        while True:
            seconds = self._core.seconds_until_due(asyncio.get_running_loop().time())
            if seconds is not None and seconds <= 0:
                return self._core.next_request()
            self._work.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._work.wait()

    async def _send(self, sender: AsyncRequestSender, request: ChangeRequest) -> None:
        try:
            answer: Mapping[str, Any] | RejectedByGateway = await sender.send(request)
        except RejectedByGateway as error:
            if not is_final(error):
                raise
            answer = error
        self._report(self._meaning_of(answer))
        self._core.settle()
        self._note_progress()

    def _note_progress(self) -> None:
        """Wake all who wait; those who still have to wait get a new event."""
        self._progress.set()
        self._progress = asyncio.Event()
