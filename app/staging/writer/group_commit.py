"""Group commit: requests that arrive while a transaction is in flight share the next one.

One writer thread with a plain connection takes all waiting requests, locks their tables in one order, allots
the sequences, inserts one staged block per table and schema version, and commits once. A request is staged
whole or not at all, and its future resolves only after COMMIT.

One request never fails another's: a group that fails by something that a request of it holds is divided and staged in
parts. No request waits for Postgres without end: one that has waited too long to be begun is rejected, and a
transaction that has taken too long is given up with its connection.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, TypeAlias

import sqlalchemy as sa
import structlog

from app.domain.model.request_identity import RequestIdentity
from app.errors import Code, MirrorgateError, TemporarilyUnavailable
from app.observability.telemetry import REPEATED_INSERTS
from app.staging.batches.batch import Batch, Receipt, StagingRequest
from app.staging.batches.commit_verification import TransactionId, current_transaction_id, is_committed
from app.staging.batches.dead_letters import LetterReplay, TableLetters
from app.staging.batches.pending_request import PendingRequest
from app.staging.batches.stage_transaction import Outcome, encode_blocks, stage_requests
from app.staging.connection.bounded_connection import answer_within
from app.staging.connection.database_errors import error_for_caller
from app.staging.connection.persistent_connection import PersistentConnection
from app.staging.writer.state import WriterRecord, WriterState
from app.staging.writer.waiting_request import Waiter, WaitingRequest, parts_of, typed_requests

log = structlog.get_logger()

MAX_GROUP_REQUESTS: Final = 1_000
MAX_GROUP_ROWS: Final = 500_000
MIN_GROUP_FOR_PAUSE: Final = 8
"""Requests of a group after which the next one is not begun at once."""

PAUSE_SECONDS: Final = 0.0005
MAX_PAUSES: Final = 6
"""In which callers that were answered together come back, to share the next group with those that wait. Without them
two halves take turns: a group of half the size costs nearly as much, and the thread that reads requests and this one
are in each other's way."""

DEADLINE_SECONDS: Final = 5.0
"""How long a group's transaction may wait for Postgres. A request may wait twice as long before it is in one: the group
before it and its own together keep within that."""


Question: TypeAlias = Callable[[sa.Connection, sa.RootTransaction], None]


class GroupCommit:
    """The writer of one API process. `start` it once; `close` stages what waits, then stops."""

    def __init__(
        self,
        engine: sa.Engine,
        *,
        staged: threading.Event | None = None,
        pause: Callable[[float], None] = time.sleep,
        deadline_seconds: float = DEADLINE_SECONDS,
        watch: Callable[[WriterState], None] | None = None,
    ) -> None:
        """`watch` is given the writer's state a few times in each deadline."""
        self._engine = engine
        self._connection = PersistentConnection(engine)
        self._pause = pause
        self._staged = staged or threading.Event()
        self._waiting: deque[WaitingRequest] = deque()
        self._condition = threading.Condition()
        self._questions: list[tuple[Question, Future[None]]] = []
        self._closing = False
        self._deadline = deadline_seconds
        self._watch = watch
        self._record = WriterRecord()
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
        self._ended = threading.Event()
        self._patience = threading.Thread(target=self._reject_forgotten, name="group-commit-timeouts", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._patience.start()

    def state(self) -> WriterState:
        """What the writer has done lately, and what waits for it."""
        with self._condition:
            waiting = len(self._waiting)
            oldest = self._waiting[0].submitted_at if self._waiting else None
        return self._record.state(time.monotonic(), waiting, oldest)

    def close(self) -> None:
        """Stage every request that was submitted, then stop; later ones are rejected."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        self._thread.join()
        self._ended.set()
        self._patience.join()

    def submit(
        self,
        batches: Sequence[Batch],
        identity: RequestIdentity | None = None,
        *,
        ignored: int = 0,
        duplicates: int = 0,
        letters: Sequence[TableLetters] = (),
        replay: LetterReplay | None = None,
    ) -> "Future[list[Receipt]]":
        """Stage a request; the future gives one receipt per batch, in the order given. See StagingRequest.

        It raises AlreadyStaged, TableMoved, RejectedInput, or TemporarilyUnavailable when nothing (or, for
        `commit_unknown`, perhaps everything) was staged.
        """
        future: Future[list[Receipt]] = Future()
        content = StagingRequest(batches, identity, ignored, duplicates, letters, replay)
        self._submit(WaitingRequest(content, future, time.monotonic()))
        return future

    def submit_pending(self, request: PendingRequest, waiter: Waiter) -> None:
        """Type a small request together with those it shares a transaction with, and stage it.

        The waiter gets what the future of `submit` does, or FallBack for a request that must be typed before it is
        submitted.
        """
        self._submit(WaitingRequest(request, waiter, time.monotonic()))

    def ask(self, question: Question) -> "Future[None]":
        """Let the writer ask Postgres something on its own connection, between two groups.

        The future raises TemporarilyUnavailable where the writer gets no answer.
        """
        future: Future[None] = Future()
        with self._condition:
            if self._closing:
                raise TemporarilyUnavailable(Code.SHUTTING_DOWN, "this API process is stopping")
            self._questions.append((question, future))
            self._condition.notify()
        return future

    def _submit(self, request: WaitingRequest) -> None:
        with self._condition:
            if self._closing:
                raise TemporarilyUnavailable(Code.SHUTTING_DOWN, "this API process is stopping")
            self._waiting.append(request)
            self._condition.notify()

    def _run(self) -> None:
        while self._await_work():
            self._answer_questions()
            if not (group := self._next_group()):
                continue
            self._record.begin(time.monotonic())
            self._stage_in_parts(group, time.monotonic() + 2 * self._deadline)
            self._record.end()
            if len(group) >= MIN_GROUP_FOR_PAUSE:
                self._await_return(len(group))
        self._connection.close()

    def _await_work(self) -> bool:
        """Whether there is something to do; false only after `close`, when everything is done."""
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._questions or self._closing)
            return bool(self._waiting or self._questions)

    def _answer_questions(self) -> None:
        with self._condition:
            questions, self._questions = self._questions, []
        for question, future in questions:
            try:
                with answer_within(self._deadline):
                    self._connection.in_transaction(question)
                self._record.answered(time.monotonic())
                future.set_result(None)
            except Exception as error:  # noqa: BLE001  # the thread must live; whoever asked gets the error
                future.set_exception(error_for_caller(error))

    def _stage_in_parts(self, group: Sequence[WaitingRequest], give_up: float) -> None:
        """Stage a group; where that fails by what some request holds, its parts, down to the single request."""
        try:
            with answer_within(self._deadline):
                if self._stage(group):
                    self._record.succeeded(time.monotonic())
            return
        except Exception as error:  # noqa: BLE001  # the thread must live; every waiter gets the error
            cause = error_for_caller(error)
        group = [request for request in group if not request.waiter.done()]
        parts = parts_of(group, cause)
        log.warning("group_commit_failed", error=_name(cause), requests=len(group), parts=len(parts))
        if isinstance(cause, TemporarilyUnavailable) and cause.code is not Code.TABLE_BUSY:
            self._record.failed(time.monotonic(), cause.detail)
        for part in parts:
            if len(parts) > 1 and time.monotonic() < give_up:
                self._stage_in_parts(part, give_up)
                continue
            for request in part:
                request.waiter.set_exception(cause if len(parts) == 1 else _too_slow())

    def _reject_forgotten(self) -> None:
        """Reject what has waited too long while a transaction takes its time; nothing of it is staged."""
        while not self._ended.wait(self._deadline / 5):
            if self._watch is not None:
                self._watch(self.state())
            forgotten: list[WaitingRequest] = []
            with self._condition:
                too_old = time.monotonic() - 2 * self._deadline
                while self._waiting and self._waiting[0].submitted_at < too_old:
                    forgotten.append(self._waiting.popleft())
            if forgotten:
                log.warning("waiting_requests_timed_out", requests=len(forgotten), seconds=2 * self._deadline)
            for request in forgotten:
                if request.waiter.set_running_or_notify_cancel():
                    request.waiter.set_exception(_too_slow())

    def _await_return(self, answered: int) -> None:
        """Pause until as many have come as were answered, a few times at most."""
        expected = len(self._waiting) + answered
        for _ in range(MAX_PAUSES):
            if self._closing or len(self._waiting) >= expected:
                return
            self._pause(PAUSE_SECONDS)

    def _next_group(self) -> list[WaitingRequest]:
        """The requests that wait, up to the caps.

        A request whose caller has gone is left out; from here on its future can no longer be cancelled.
        """
        group: list[WaitingRequest] = []
        rows = 0
        with self._condition:
            while self._waiting and len(group) < MAX_GROUP_REQUESTS:
                request = self._waiting[0]
                if group and rows + request.rows > MAX_GROUP_ROWS:
                    break
                self._waiting.popleft()
                if request.waiter.set_running_or_notify_cancel():
                    group.append(request)
                    rows += request.rows
        return group

    def _stage(self, group: Sequence[WaitingRequest]) -> bool:
        """Stage in one transaction; whether there was anything to commit.

        Dying before COMMIT leaves nothing; dying after it leaves staged, unanswered batches.
        """
        typed = typed_requests(group)
        if not typed:
            return False
        group, requests = [request for request, _ in typed], [content for _, content in typed]
        payloads = encode_blocks(requests)

        def stage(connection: sa.Connection, transaction: sa.RootTransaction) -> Sequence[Outcome]:
            staged = stage_requests(connection, requests, payloads)
            if any(isinstance(outcome, list) for outcome in staged.outcomes):
                self._commit(transaction, staged.transaction or current_transaction_id(connection))
                self._staged.set()
            return staged.outcomes

        outcomes = self._connection.in_transaction(stage)
        for request, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, list):
                REPEATED_INSERTS.inc(sum(staged.rows.repeated_inserts for staged in outcome))
                request.waiter.set_result([staged.receipt for staged in outcome])
            else:
                request.waiter.set_exception(outcome)
        return any(isinstance(outcome, list) for outcome in outcomes)

    def _commit(self, transaction: sa.RootTransaction, known: TransactionId) -> None:
        """COMMIT; where its answer is lost, ask the database what became of it before anybody is told."""
        try:
            transaction.commit()
        except sa.exc.DBAPIError as error:
            if not is_committed(self._engine, known):
                raise TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "the transaction was rolled back") from error


def _too_slow() -> TemporarilyUnavailable:
    return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres was too slow to begin with this request")


def _name(error: Exception) -> str:
    return str(error.code) if isinstance(error, MirrorgateError) else type(error).__name__
