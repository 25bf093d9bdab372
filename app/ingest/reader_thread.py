"""Read bodies on the columnar path: short ones in the staging thread, long ones in the reader thread beside it.

`ColumnarReader` leaves short bodies unread until their transaction, and those that wait together are read together. A
long one is read while another transaction runs. Two bodies that share an interpreter take longer in parallel than in
sequence, and more memory (docs/contribute/decisions/0035). Invariant: nothing here waits for Postgres, so no body holds
up the others.

`LoopBridge` hands requests from the event loop to threads, and results back, several at a time.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

from app.domain.loads import LoadStep
from app.domain.model.request_identity import RequestIdentity
from app.domain.model.table import Table
from app.ingest.columnar import Asked, ColumnarBody, ReadOutcome, read_together
from app.ingest.table_cache import TableCache
from app.observability.tracing import TraceParent, current_trace
from app.staging.batches.batch import Receipt, StagingRequest
from app.staging.writer.group_commit import GroupCommit
from app.staging.writer.request_queue import MAX_BYTES_TOGETHER, WaitingRequest
from mirrorgate.errors import TemporarilyUnavailable

_TURNS: Final = 4
"""Turns of the loop from a result to the next request: wake its caller, send the answer, begin with what has arrived,
hand it over."""

_MAX_TURNS_SECONDS: Final = 0.005

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
        """Return True if the caller still waits. A cancellation after this call has no effect."""
        return not self._waiting.cancelled()

    def done(self) -> bool:
        """Return True if a result or an exception is set."""
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
    """Bridge from threads to the loop, which it wakes once for all results that arrive together, and back.

    Waking the loop costs a system call, and asyncio does it once per future (performance notebook).
    """

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

    def pass_turns(self) -> None:
        """Wait, in a thread, until the loop has handed over what callers sent whose results were noted before.

        Requests that arrive later, or after _MAX_TURNS_SECONDS, wait for the next group.
        """
        passed = threading.Event()
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._pass, _TURNS, passed)
            passed.wait(_MAX_TURNS_SECONDS)

    def _pass(self, turns: int, passed: threading.Event) -> None:
        if turns:
            self.loop.call_soon(self._pass, turns - 1, passed)
        else:
            passed.set()

    def _send_all(self) -> None:
        requests, self._requests = self._requests, []
        self._hand_over(requests)

    def _wake(self) -> None:
        self._is_woken = False
        while self._done:
            waiter = self._done.popleft()
            if not waiter.done():
                waiter.set_result(None)


MAX_SHORT_BYTES: Final = 2**16
"""Bytes of a body that waits for its transaction unread. A longer one is better read beside a transaction."""


@dataclass(slots=True, eq=False)
class UnreadBody:
    """A request that is read with others. Its waiter gets the receipts, or Declined, NotCached or an error."""

    reader: "ColumnarReader"
    request: Asked[ColumnarBody]
    waiter: LoopFuture[list[Receipt]]
    identity: RequestIdentity | None = None
    load: LoadStep | None = None
    submitted_at: float = field(default_factory=time.monotonic)
    trace: TraceParent | None = field(default_factory=current_trace)
    ignored: int = 0
    """Messages that change no row; known before the receipts."""

    @property
    def size(self) -> int:
        """Return the bytes of the body."""
        return len(self.request.body.body)

    def read(self, together: "Sequence[UnreadBody]", /) -> list[WaitingRequest]:
        """Return the requests to stage from these bodies and this one. Waiters of rejected bodies get the rejection."""
        return self.reader.read(together)


class ColumnarReader:
    """Reader of bodies of all formats, those that wait together at once, up to MAX_BYTES_TOGETHER."""

    def __init__(self, table_cache: TableCache, group_commit: GroupCommit, check_room: Callable[[Table], None]) -> None:
        """Start the thread. `check_room` raises TemporarilyUnavailable for a table that can take no more changes."""
        self._table_cache = table_cache
        self._group_commit = group_commit
        self._check_room = check_room
        self._queue: SimpleQueue[UnreadBody | None] = SimpleQueue()
        self._next: UnreadBody | None = None
        """A body that no longer fitted into the last group."""
        self._thread = threading.Thread(target=self._run, name="columnar-reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read what was submitted, then stop the thread."""
        self._queue.put(None)
        self._thread.join()

    def submit(self, bodies: Sequence[UnreadBody]) -> None:
        """Read bodies and stage them; their waiters get what `GroupCommit.submit` gives, also where it raises."""
        short = [body for body in bodies if body.size <= MAX_SHORT_BYTES]
        try:
            self._group_commit.read_and_stage(short)
        except TemporarilyUnavailable as error:
            for body in short:
                body.waiter.set_exception(error)
        for body in bodies:
            if body.size > MAX_SHORT_BYTES:
                self._queue.put(body)

    def read(self, bodies: Sequence[UnreadBody]) -> list[WaitingRequest]:
        """Return the requests to stage from these bodies. Waiters of rejected bodies get the rejection."""
        waiting = [body for body in bodies if body.waiter.set_running_or_notify_cancel()]
        if not waiting:
            return []
        try:
            outcomes: Sequence[ReadOutcome | BaseException] = read_together(
                [body.request for body in waiting], self._table_cache
            )
        except Exception as error:  # noqa: BLE001  # any error must reach the waiting callers
            outcomes = [error] * len(waiting)
        read: list[WaitingRequest] = []
        checked: Table | None = None
        for body, outcome in zip(waiting, outcomes, strict=True):
            try:
                if isinstance(outcome, BaseException):
                    raise outcome
                for batch in outcome:
                    if batch.table is not checked:  # most bodies that are read together are of one table
                        self._check_room(batch.table)
                        checked = batch.table
            except Exception as error:  # noqa: BLE001  # an error of one body must not fail the others
                body.waiter.set_exception(error)
            else:
                body.ignored = outcome.ignored
                content = StagingRequest(outcome, body.identity, outcome.ignored, load=body.load)
                read.append(WaitingRequest(content, body.waiter, trace=body.trace))
        return read

    def _run(self) -> None:
        while (first := self._next or self._queue.get()) is not None:
            self._next = None
            read = self.read(self._group(first))
            try:
                self._group_commit.stage(*read)
            except TemporarilyUnavailable as error:
                for request in read:
                    request.waiter.set_exception(error)

    def _group(self, first: UnreadBody) -> list[UnreadBody]:
        """Return a body and those that wait behind it, up to MAX_BYTES_TOGETHER."""
        group, size = [first], first.size
        while size < MAX_BYTES_TOGETHER:
            try:
                following = self._queue.get_nowait()
            except Empty:
                break
            if following is None:  # `close` was called, and nothing is submitted after it
                self._queue.put(None)
                break
            size += following.size
            if size > MAX_BYTES_TOGETHER:
                self._next = following
                break
            group.append(following)
        return group
