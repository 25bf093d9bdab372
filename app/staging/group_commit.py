"""Group commit: requests that arrive while a transaction is in flight share the next one.

One writer thread with a plain connection takes all waiting requests, locks their tables in one order, allots
the sequences, inserts one staged block per table and schema version, and commits once. A request is staged
whole or not at all, and its future resolves only after COMMIT.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol

import sqlalchemy as sa
import structlog

from app.domain.request_identity import RequestIdentity
from app.errors import Code, TemporarilyUnavailable
from app.staging.commit_outcome import OpenTransaction, committed, open_transaction
from app.staging.database import unavailable
from app.staging.dead_letters import Settlement, TableLetters
from app.staging.kept_connection import KeptConnection
from app.staging.stage_requests import Outcome, encode_blocks, stage_requests
from app.staging.typed_batch import Receipt, StagingRequest, TypedBatch
from app.staging.untyped_request import UntypedRequest, typed_together

log = structlog.get_logger()

MAX_GROUP_REQUESTS: Final = 1_000
MAX_GROUP_ROWS: Final = 500_000
MANY: Final = 8
"""Requests of a group after which the next one is not begun at once."""

PAUSE_SECONDS: Final = 0.0005
MOST_PAUSES: Final = 6
"""In which callers that were answered together come back, to share the next group with those that wait. Without them
two halves take turns: a group of half the size costs nearly as much, and the thread that reads requests and this one
are in each other's way."""

MOST_ROWS_OF_CHANGE: Final = 2
"""An update that changes the key deletes one row and inserts another."""


class Waiter(Protocol):
    """Where the outcome of a request goes: a Future, or what takes its place."""

    def set_running_or_notify_cancel(self) -> bool: ...

    def done(self) -> bool: ...

    def set_result(self, result: list[Receipt], /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    content: StagingRequest | UntypedRequest
    waiter: Waiter

    @property
    def rows(self) -> int:
        if isinstance(self.content, UntypedRequest):
            return MOST_ROWS_OF_CHANGE * len(self.content.changes)
        return sum(batch.rows.rows for batch in self.content.batches)


class GroupCommit:
    """The writer of one API process. `start` it once; `close` stages what waits, then stops."""

    def __init__(
        self,
        engine: sa.Engine,
        *,
        staged: threading.Event | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._engine = engine
        self._connection = KeptConnection(engine)
        self._pause = pause
        self._staged = staged or threading.Event()
        self._waiting: deque[_Request] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stage every request that was submitted, then stop; later ones are refused."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        self._thread.join()

    def submit(
        self,
        batches: Sequence[TypedBatch],
        identity: RequestIdentity | None = None,
        *,
        ignored: int = 0,
        duplicates: int = 0,
        letters: Sequence[TableLetters] = (),
        settles: Settlement | None = None,
    ) -> "Future[list[Receipt]]":
        """Stage a request; the future gives one receipt per batch, in the order given. See StagingRequest.

        It raises AlreadyStaged, TableMoved, RejectedInput, or TemporarilyUnavailable when nothing (or, for
        `commit_unknown`, perhaps everything) was staged.
        """
        future: Future[list[Receipt]] = Future()
        self._submit(_Request(StagingRequest(batches, identity, ignored, duplicates, letters, settles), future))
        return future

    def submit_untyped(self, request: UntypedRequest, waiter: Waiter) -> None:
        """Type a small request together with those it shares a transaction with, and stage it.

        The waiter gets what the future of `submit` does, or TypeAlone for a request that must be typed before it is
        submitted.
        """
        self._submit(_Request(request, waiter))

    def _submit(self, request: _Request) -> None:
        with self._condition:
            if self._closing:
                raise TemporarilyUnavailable(Code.SHUTTING_DOWN, "this API process is stopping")
            self._waiting.append(request)
            self._condition.notify()

    def _run(self) -> None:
        while group := self._next_group():
            try:
                self._stage(group)
            except Exception as error:  # noqa: BLE001  # the thread must live; every waiter gets the error
                log.warning("group_commit_failed", error=type(error).__name__, requests=len(group))
                for request in group:
                    if not request.waiter.done():
                        request.waiter.set_exception(_for_caller(error))
            if len(group) >= MANY:
                self._await_return(len(group))
        self._connection.close()

    def _await_return(self, answered: int) -> None:
        """Pause until as many have come as were answered, a few times at most."""
        expected = len(self._waiting) + answered
        for _ in range(MOST_PAUSES):
            if self._closing or len(self._waiting) >= expected:
                return
            self._pause(PAUSE_SECONDS)

    def _next_group(self) -> list[_Request]:
        """The requests that wait, up to the caps; empty only after `close`.

        A request whose caller has gone is left out; from here on its future can no longer be cancelled.
        """
        group: list[_Request] = []
        rows = 0
        with self._condition:
            while not group and (self._waiting or not self._closing):
                self._condition.wait_for(lambda: self._waiting or self._closing)
                while self._waiting and len(group) < MAX_GROUP_REQUESTS:
                    request = self._waiting[0]
                    if group and rows + request.rows > MAX_GROUP_ROWS:
                        break
                    self._waiting.popleft()
                    if request.waiter.set_running_or_notify_cancel():
                        group.append(request)
                        rows += request.rows
        return group

    def _stage(self, group: Sequence[_Request]) -> None:
        """One transaction. Dying before COMMIT leaves nothing; dying after it leaves staged, unanswered batches."""
        typed = _typed(group)
        if not typed:
            return
        group, requests = [request for request, _ in typed], [content for _, content in typed]
        payloads = encode_blocks(requests)

        def stage(connection: sa.Connection, transaction: sa.RootTransaction) -> Sequence[Outcome]:
            staged = stage_requests(connection, requests, payloads)
            if any(isinstance(outcome, list) for outcome in staged.outcomes):
                self._commit(transaction, staged.transaction or open_transaction(connection))
                self._staged.set()
            return staged.outcomes

        outcomes = self._connection.in_transaction(stage)
        for request, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, list):
                request.waiter.set_result([staged.receipt for staged in outcome])
            else:
                request.waiter.set_exception(outcome)

    def _commit(self, transaction: sa.RootTransaction, known: OpenTransaction) -> None:
        """COMMIT; where its answer is lost, ask the database what became of it before anybody is told."""
        try:
            transaction.commit()
        except sa.exc.DBAPIError as error:
            if not committed(self._engine, known):
                raise TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "the transaction was rolled back") from error


def _typed(group: Sequence[_Request]) -> list[tuple[_Request, StagingRequest]]:
    """The group with its untyped requests typed, without those whose callers must type them alone."""
    together = typed_together([r.content for r in group if isinstance(r.content, UntypedRequest)])
    typed = []
    for request in group:
        content = together[request.content] if isinstance(request.content, UntypedRequest) else request.content
        if isinstance(content, StagingRequest):
            typed.append((request, content))
        else:
            request.waiter.set_exception(content)
    return typed


def _for_caller(error: Exception) -> Exception:
    """The error to hand to a waiting request; a driver error says what passing condition it is."""
    if isinstance(error, sa.exc.DBAPIError):
        return unavailable(error) or error
    if isinstance(error, sa.exc.TimeoutError):
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "no free database connection")
    return error
