"""The writer of asyncio programs: ChangeWriter and its thread, behind coroutines."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypedDict, TypeVar, Unpack

from mirrorgate.errors import Code, RejectedInput
from mirrorgate.http import GatewayClient
from mirrorgate.producer import ChangeRequest
from mirrorgate.retrying import OnWait
from mirrorgate.writer.change_writer import ChangeWriter, Row, check_table, encode_change
from mirrorgate.writer.core import Accepted, BufferLimits, Receipt, RejectedRow

Result = TypeVar("Result")


class AsyncGatewayClient:
    """HTTP client of one gateway with one key. Raises what GatewayClient raises."""

    def __init__(self, url: str, key: str, certificate: Path | None = None) -> None:
        """Open a client. `certificate`, if given, is the only one accepted, whatever host name it contains."""
        self.url = url
        self.blocking = GatewayClient(url, key, certificate)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.blocking.__exit__(kind, error, traceback)

    async def post_changes(self, request: ChangeRequest, headers: Mapping[str, str]) -> Mapping[str, Any]:
        """Post a request; return the answer with its receipts, after the commit."""
        answer: Mapping[str, Any] = await asyncio.to_thread(
            self.blocking.post_changes,
            request.source_format,
            request.body,
            content_type=request.content_type,
            parameters=request.parameters,
            headers=headers,
        )
        return answer


class WriterOptions(TypedDict, total=False):
    """The options of ChangeWriter."""

    table: str | None
    source_format: str
    parameters: Mapping[str, str] | None
    producer: str | None
    limits: BufferLimits | None
    give_up_after: float | None
    encode: Callable[[Any], bytes | str]
    on_accepted: Callable[[Accepted], None] | None
    on_rejected: Callable[[RejectedRow], None] | None
    on_wait: OnWait | None


class AsyncChangeWriter(Generic[Row]):
    """Writer of rows of one table, or of a tool's messages, like ChangeWriter; for one event loop.

    Use it as `async with`, which starts it. Rows land in the order of the calls of `write`. The functions that it calls
    run in the event loop and must not block. A cancelled call leaves its rows to the writer.

    For example:

        async with AsyncGatewayClient(url, key) as gateway, AsyncChangeWriter(gateway, table="shop.orders") as orders:
            await orders.write({"id": 1})
            await orders.flush()  # returns when it is durable, as the end of the block does
    """

    def __init__(self, client: AsyncGatewayClient, **options: Unpack[WriterOptions]) -> None:
        """Take the options of ChangeWriter. Raises RejectedInput `bad_request` for rows without a table."""
        check_table(options.get("source_format", "rows"), options.get("table"))
        self._client, self._options = client, options
        self._writer: ChangeWriter[Row] | None = None
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Task[None]] = set()
        """Rows that wait for room, also those whose call was cancelled. No later row overtakes them."""
        self._lost = 0
        """Rows whose call was cancelled, and that found no room before the end."""

    async def __aenter__(self) -> Self:
        """Ask the gateway how far the producer is, and start to send. Raises what the client raises."""
        options, loop = self._options, asyncio.get_running_loop()

        def in_loop(function: Callable[..., None] | None) -> Callable[..., None] | None:
            """Return a function that the writer's thread calls, and that runs in the event loop."""

            async def run(*arguments: Any) -> None:
                assert function is not None
                function(*arguments)

            def call(*arguments: Any) -> None:
                asyncio.run_coroutine_threadsafe(run(*arguments), loop).result()

            return None if function is None else call

        given: dict[str, Any] = {**options}
        for name in ("on_accepted", "on_rejected", "on_wait"):
            given[name] = in_loop(given.get(name))
        self._writer = await asyncio.to_thread(lambda: ChangeWriter[Row](self._client.blocking, **given))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send what was written. After a cancellation and the like, end without sending."""
        if error is None or isinstance(error, Exception):
            await self._run_out()
        await self._run(lambda writer: writer.__exit__(kind, error, traceback))

    @property
    def position(self) -> str | None:
        """The last durable position; None before the first one, and without a producer."""
        return None if self._writer is None else self._writer.position

    @property
    def unsent(self) -> int:
        """Number of rows that were written and are not known to be durable; rows that were handed over do not count."""
        return 0 if self._writer is None else self._writer.unsent + len(self._waiting) + self._lost

    async def write(self, row: Row, *, op: str | None = None, handle: Any = None, position: str | None = None) -> None:
        """Write a row, as `ChangeWriter.write` does."""
        await self._put(self._opened.row_text(row, op), handle, position)

    async def delete(self, row: Row, *, handle: Any = None, position: str | None = None) -> None:
        """Delete the row with these key values."""
        await self.write(row, op="delete", handle=handle, position=position)

    async def write_change(
        self, message: Mapping[str, Any] | bytes | str, *, handle: Any = None, position: str | None = None
    ) -> None:
        """Write one message as the tool wrote it: text remains as it is, a mapping becomes JSON."""
        await self._put(encode_change(message), handle, position)

    async def flush(self) -> tuple[Receipt, ...]:
        """Return after everything that was written is durable: what each table accepted since the last flush."""
        writer = self._opened
        if self._waiting:
            await asyncio.wait(self._waiting)
        return await asyncio.to_thread(writer.flush)

    async def close(self) -> tuple[Receipt, ...]:
        """Flush and end; nothing more can be written. Returns what `flush` returns. Safe to repeat."""
        if self._writer is None:
            return ()
        await self._run_out()
        return await self._run(ChangeWriter.close)

    async def abort(self) -> None:
        """End without sending what waits, which `unsent` counts. A request that is open may still become durable."""
        if self._writer is not None:
            self._writer.abort()

    @property
    def _opened(self) -> ChangeWriter[Row]:
        if self._writer is None:
            raise RejectedInput(Code.BAD_REQUEST, "the writer is not open", remedy="Use it as `async with`.")
        return self._writer

    async def _run_out(self) -> None:
        """Wait until no row waits for room; a cancellation ends the writer without sending."""
        try:
            while self._waiting:
                await asyncio.wait(self._waiting)
        except asyncio.CancelledError:
            self._opened.abort()
            raise

    async def _run(self, act: Callable[[ChangeWriter[Row]], Result]) -> Result:
        """Run the end of the writer in a thread; a cancellation ends it without sending."""
        try:
            return await asyncio.to_thread(partial(act, self._opened))
        except asyncio.CancelledError:
            self._opened.abort()
            raise

    async def _put(self, body: bytes, handle: Any, position: str | None) -> None:
        writer = self._opened
        if not self._waiting and writer.put(body, handle, position, waits=False):
            return
        task = asyncio.create_task(self._put_in_turn(writer, body, handle, position))
        self._waiting.add(task)
        task.add_done_callback(self._has_room)
        try:
            await asyncio.wait([task])  # a cancelled call does not end the task
        except asyncio.CancelledError:
            task.add_done_callback(self._count_lost)
            raise
        task.result()

    async def _put_in_turn(self, writer: ChangeWriter[Row], body: bytes, handle: Any, position: str | None) -> None:
        async with self._turn:
            await asyncio.to_thread(writer.put, body, handle, position)

    def _has_room(self, task: "asyncio.Task[None]") -> None:
        self._waiting.discard(task)
        if not task.cancelled():
            task.exception()  # the call of the row raises it, and the end of the writer

    def _count_lost(self, task: "asyncio.Task[None]") -> None:
        self._lost += task.cancelled() or task.exception() is not None
