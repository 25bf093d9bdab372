"""Group commit: requests that arrive while a transaction runs share the next one (decision 0001).

One thread with its own connection reads the short bodies that wait, takes all waiting requests, locks their tables in
one order, takes the sequences, inserts one staged block per table and commits once. A request is staged as a whole or
not at all, and gets its receipts only after COMMIT. If the answer to COMMIT is lost, the database is asked for the
outcome before any request gets one.

After a group with short bodies the thread lets the event loop answer its callers and hand over what they send next.
Otherwise two halves of the callers would share every second transaction, and most of the cost of a small group is
fixed.

A bad request does not fail the others: a group that fails because of something in it is split and staged in parts. No
request waits forever for Postgres: one that has waited too long for its transaction is rejected, and a transaction that
takes too long is given up together with its connection.

The thread records its state, which metrics and health checks read. A ping on another connection does not tell whether
the process can stage: the thread's own connection may be dead, or lead to a server that has become read-only. So unless
Postgres has answered the thread lately, `WriterProbe` queries Postgres over that connection.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
import structlog

from app.domain.access.mask_secret import HashedTables
from app.observability.api_metrics import (
    DATABASE_CONNECTIONS,
    DATABASE_CONNECTIONS_LIMIT,
    DATABASE_WAITING,
    GROUP_FAILURES,
    GROUP_REQUESTS,
    GROUP_SECONDS,
    LAST_COMMIT,
    OLDEST_WAITING,
    REPEATED_INSERTS,
    WAITING_REQUESTS,
    WRITER_FAILS,
)
from app.observability.tracing import TraceParent, span
from app.staging.access.mask_secrets import hashed_tables
from app.staging.batches.batch import Receipt, StagingRequest
from app.staging.batches.stage_transaction import StagingOutcome, encode_blocks, stage_requests
from app.staging.batches.staged_blocks import TransactionId, current_transaction_id, is_committed, record_trace
from app.staging.connection.database import answer_within, error_for_caller, watched_pool
from app.staging.connection.raw_sql import PersistentConnection, driver_rows
from app.staging.tables.events import record_event
from app.staging.writer.request_queue import Query, RequestQueue, UnreadRequest, WaitingRequest, parts_of
from mirrorgate.errors import Code, MirrorgateError, TemporarilyUnavailable

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class WriterState:
    """The staging thread's recent activity. Ages are in seconds; None if it has not happened or is not so now."""

    waiting_requests: int
    oldest_waiting_seconds: float | None
    last_commit_seconds: float | None
    last_answer_seconds: float | None
    """Since Postgres last answered the staging thread, a COMMIT or a query."""
    last_failure_seconds: float | None
    failure: str | None
    """Reason why the last transaction failed; None once a later one has been committed."""


class WriterRecord:
    """The record that the staging thread writes and other threads read, without a lock: each field is one reference."""

    def __init__(self) -> None:
        self._committed_at: float | None = None
        self._answered_at: float | None = None
        self._failed_at: float | None = None
        self._failure: str | None = None

    def answered(self, now: float) -> None:
        """Record that Postgres has answered a query."""
        self._answered_at = now

    def succeeded(self, now: float) -> None:
        """Record that a transaction was committed."""
        self._committed_at, self._answered_at, self._failure = now, now, None

    def failed(self, now: float, detail: str) -> None:
        """Record that a transaction failed because of the database."""
        self._failed_at, self._failure = now, detail

    def state(self, now: float, waiting: int, oldest: float | None) -> WriterState:
        """Return the state at the monotonic time `now`; `oldest` is when the oldest waiting request was submitted."""
        return WriterState(
            waiting,
            _age(now, oldest),
            _age(now, self._committed_at),
            _age(now, self._answered_at),
            _age(now, self._failed_at),
            self._failure,
        )


def export_writer_state(engine: sa.Engine, state: WriterState) -> None:
    """Set the gauges of this process to the writer's state and to the engine's pool."""
    WAITING_REQUESTS.set(state.waiting_requests)
    OLDEST_WAITING.set(state.oldest_waiting_seconds or 0.0)
    WRITER_FAILS.set(float(state.failure is not None))
    if state.last_commit_seconds is not None:
        LAST_COMMIT.set(time.time() - state.last_commit_seconds)
    pool = watched_pool(engine)
    DATABASE_CONNECTIONS.labels("in_use").set(pool.checkedout())
    DATABASE_CONNECTIONS.labels("idle").set(pool.checkedin())
    DATABASE_CONNECTIONS_LIMIT.set(pool.limit)
    DATABASE_WAITING.set(pool.waiting)


def _age(now: float, moment: float | None) -> float | None:
    return None if moment is None else max(0.0, now - moment)


@dataclass(frozen=True, slots=True)
class GroupTransaction:
    """Transaction of a group over the staging thread's connection; `staged` is set after each COMMIT."""

    engine: sa.Engine
    connection: PersistentConnection
    staged: threading.Event

    def stage(self, group: Sequence[WaitingRequest]) -> bool:
        """Stage a group in one transaction; return true if there was anything to commit.

        Dying before COMMIT leaves nothing. Dying after it leaves staged batches whose clients got no answer; they
        repeat their requests.
        """
        traces = [request.trace for request in group if request.trace]
        if not traces:
            return self._stage(group, None)
        attributes = {"mirrorgate.requests": len(group), "mirrorgate.rows": sum(request.rows for request in group)}
        with span("stage", parent=traces[0], links=traces[1:], attributes=attributes) as trace:
            return self._stage(group, trace)

    def _stage(self, group: Sequence[WaitingRequest], trace: TraceParent | None) -> bool:
        requests = [request.content for request in group]
        payloads = encode_blocks(requests)

        def stage(connection: sa.Connection, transaction: sa.RootTransaction) -> Sequence[StagingOutcome]:
            staged = stage_requests(connection, requests, payloads)
            if any(isinstance(outcome, list) for outcome in staged.outcomes):
                if trace is not None:
                    record_trace(connection, staged.blocks, trace)
                for table, changes, count in staged.missing:
                    details = {"changes": changes, "operation_count": count}
                    record_event(connection, table, "gateway", "changes_missing", details=details)
                    log.warning(
                        "changes_missing", table=str(table.name), changes=changes, remedy="Load the table again."
                    )
                for replay, sequence, table in staged.replayed:
                    details = {"letter": replay.letter_id, "corrected": replay.corrected, "sequence": sequence}
                    record_event(connection, table, replay.principal, "dead letter replayed", details=details)
                known = staged.transaction or current_transaction_id(connection)
                self._commit(transaction, known)
                self.staged.set()
            return staged.outcomes

        outcomes = self.connection.in_transaction(stage)
        staged = [batch for outcome in outcomes if isinstance(outcome, list) for batch in outcome]
        REPEATED_INSERTS.inc(sum([batch.rows.repeated_inserts for batch in staged]))
        for request, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, list):
                request.waiter.set_result([staged.receipt for staged in outcome])
            else:
                request.waiter.set_exception(outcome)
        return any(isinstance(outcome, list) for outcome in outcomes)

    def _commit(self, transaction: sa.RootTransaction, known: TransactionId) -> None:
        """COMMIT; if its answer is lost, find out whether it took effect."""
        try:
            transaction.commit()
        except sa.exc.DBAPIError as error:
            if not is_committed(self.engine, known):
                raise TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "the transaction was rolled back") from error


DEADLINE_SECONDS: Final = 5.0
"""Seconds that a group's transaction may wait for Postgres. A request may wait twice that for its transaction to begin,
which covers the transaction before it."""


class GroupCommit:
    """The staging thread of one API process. Call `start` once; `close` stages what waits, then stops."""

    def __init__(
        self,
        engine: sa.Engine,
        *,
        staged: threading.Event | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
        watch: Callable[[WriterState], None] | None = None,
    ) -> None:
        """Create the thread. `watch` is called with the writer's state several times within each deadline."""
        self._connection = PersistentConnection(engine)
        self._queue = RequestQueue()
        self._transaction = GroupTransaction(engine, self._connection, staged or threading.Event())
        self._deadline = deadline_seconds
        self._watch = watch
        self._record = WriterRecord()
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
        self._ended = threading.Event()
        self._timeouts = threading.Thread(target=self._reject_expired, name="group-commit-timeouts", daemon=True)
        self.gather: Callable[[], None] = lambda: None
        """Called after a group with short bodies; returns once its callers may have sent their next requests."""

    def start(self) -> None:
        """Start the staging thread, and the one that rejects requests that have waited too long."""
        self._thread.start()
        self._timeouts.start()

    def state(self) -> WriterState:
        """Return what the staging thread has done lately, and what waits for it."""
        waiting, oldest = self._queue.waiting()
        return self._record.state(time.monotonic(), waiting, oldest)

    def close(self) -> None:
        """Stage every submitted request, then stop; later requests are rejected."""
        self._queue.close()
        self._thread.join()
        self._ended.set()
        self._timeouts.join()

    def submit(self, content: StagingRequest) -> "Future[list[Receipt]]":
        """Stage a request for a thread; the future returns one receipt per batch that lands, in the order given.

        It raises AlreadyStaged, TableMoved, RejectedInput, or TemporarilyUnavailable if nothing (or, for
        `commit_unknown`, perhaps everything) was staged.
        """
        future: Future[list[Receipt]] = Future()
        self.stage(WaitingRequest(content, future))
        return future

    def stage(self, *requests: WaitingRequest) -> None:
        """Stage requests; their waiters get what the future of `submit` gets, without a Future's cost.

        Raises TemporarilyUnavailable `shutting_down` after `close`; the waiters then get nothing.
        """
        self._queue.put(*requests)

    def read_and_stage(self, requests: Sequence[UnreadRequest]) -> None:
        """Read requests in the staging thread, together with all that wait then, and stage them in the same group.

        Raises TemporarilyUnavailable `shutting_down` after `close`.
        """
        self._queue.put_unread(requests)

    def submit_query(self, query: Query) -> "Future[None]":
        """Run a query on the staging thread's own connection, between two groups.

        The future raises what the query raises, or TemporarilyUnavailable if Postgres does not answer.
        """
        return self._queue.put_query(query)

    def _run(self) -> None:
        while self._queue.wait_for_work():
            self._run_queries()
            has_short = self._queue.read_waiting()
            if group := self._queue.take_group():
                began = time.monotonic()
                self._stage_in_parts(group, began + 2 * self._deadline)
                GROUP_REQUESTS.observe(len(group))
                GROUP_SECONDS.observe(time.monotonic() - began)
                if has_short:
                    self.gather()
        self._connection.close()

    def _run_queries(self) -> None:
        for query, future in self._queue.take_queries():
            try:
                with answer_within(self._deadline):
                    self._connection.in_transaction(query)
                self._record.answered(time.monotonic())
                future.set_result(None)
            except Exception as error:  # noqa: BLE001  # the thread must survive; the caller gets the error
                future.set_exception(error_for_caller(error))

    def _stage_in_parts(self, group: Sequence[WaitingRequest], give_up: float) -> None:
        """Stage a group; if that fails because of something in it, stage its parts, down to single requests."""
        try:
            with answer_within(self._deadline):
                if self._transaction.stage(group):
                    self._record.succeeded(time.monotonic())
            return
        except Exception as error:  # noqa: BLE001  # the thread must survive; every waiting caller gets the error
            cause = error_for_caller(error)
        group = [request for request in group if not request.waiter.done()]
        parts = parts_of(group, cause)
        log.warning("group_commit_failed", error=_name(cause), requests=len(group), parts=len(parts))
        if isinstance(cause, TemporarilyUnavailable) and cause.code is not Code.TABLE_BUSY:
            self._record.failed(time.monotonic(), cause.detail)
            GROUP_FAILURES.inc()
        for part in parts:
            if len(parts) > 1 and time.monotonic() < give_up:
                self._stage_in_parts(part, give_up)
                continue
            for request in part:
                request.waiter.set_exception(cause if len(parts) == 1 else _too_slow())

    def _reject_expired(self) -> None:
        """Reject requests that have waited too long behind a slow transaction; nothing of them is staged."""
        while not self._ended.wait(self._deadline / 5):
            if self._watch is not None:
                self._watch(self.state())
            expired = self._queue.take_submitted_before(time.monotonic() - 2 * self._deadline)
            if expired:
                log.warning("waiting_requests_timed_out", requests=len(expired), seconds=2 * self._deadline)
            for request in expired:
                if request.waiter.set_running_or_notify_cancel():
                    request.waiter.set_exception(_too_slow())


def _too_slow() -> TemporarilyUnavailable:
    return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres was too slow to begin with this request")


def _name(error: Exception) -> str:
    return str(error.code) if isinstance(error, MirrorgateError) else type(error).__name__


SHOW_READ_ONLY: Final = "SHOW transaction_read_only"
"""Find out whether the server takes writes."""

FRESH_SECONDS: Final = 1.0
"""The age up to which an answer of Postgres counts as present."""


class WriterProbe:
    """A health check that concurrent callers share: they wait for the same query."""

    def __init__(self, writer: GroupCommit) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._query: Future[None] | None = None

    def check(self, within: float) -> tuple[WriterState, MirrorgateError | None]:
        """Return the writer's state, and the reason if it cannot write now, after `within` seconds at the latest."""
        state = self._writer.state()
        age = state.last_answer_seconds
        if state.failure is None and age is not None and age < FRESH_SECONDS:
            return state, None
        trouble: MirrorgateError | None = None
        try:
            with self._lock:
                if self._query is None or self._query.done():
                    self._query = self._writer.submit_query(_require_writable)
                query = self._query
            query.result(timeout=within)
        except TimeoutError:
            trouble = TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, f"Postgres has not answered for {within:.0f} s")
        except MirrorgateError as error:
            trouble = error
        return self._writer.state(), trouble

    def hashed_tables(self, within: float) -> HashedTables | None:
        """Return the tables with hashed columns; None if Postgres does not answer within some seconds."""
        found: list[HashedTables] = []
        query = self._writer.submit_query(lambda connection, _: found.append(hashed_tables(connection)))
        try:
            query.result(timeout=within)
        except (TimeoutError, MirrorgateError):
            return None
        return found[0]


def _require_writable(connection: sa.Connection, _: sa.RootTransaction) -> None:
    [(read_only,)] = driver_rows(connection, SHOW_READ_ONLY, {})
    if read_only == "on":
        connection.invalidate()  # a new connection may reach the server that has taken over
        raise TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres accepts no writes: it is read-only")
