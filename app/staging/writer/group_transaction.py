"""One transaction of the staging thread: stage a group of requests, COMMIT, and give each request its outcome.

A request gets its receipts only after COMMIT. If the answer to COMMIT is lost, the database is asked for the outcome
before any request gets one.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from app.errors import Code, TemporarilyUnavailable
from app.observability.api_metrics import REPEATED_INSERTS
from app.observability.tracing import TraceParent, span
from app.staging.batches.block_traces import record_trace
from app.staging.batches.commit_verification import TransactionId, current_transaction_id, is_committed
from app.staging.batches.stage_transaction import Outcome, encode_blocks, stage_requests
from app.staging.connection.persistent_connection import PersistentConnection
from app.staging.writer.waiting_request import WaitingRequest


@dataclass(frozen=True, slots=True)
class GroupTransaction:
    """Stages groups over the staging thread's connection, and sets `staged` after each COMMIT."""

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

        def stage(connection: sa.Connection, transaction: sa.RootTransaction) -> Sequence[Outcome]:
            staged = stage_requests(connection, requests, payloads)
            if any(isinstance(outcome, list) for outcome in staged.outcomes):
                if trace is not None:
                    record_trace(connection, staged.blocks, trace)
                self._commit(transaction, staged.transaction or current_transaction_id(connection))
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
