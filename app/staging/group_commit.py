"""Group commit: requests that arrive while a transaction is in flight share the next one.

One writer thread with a plain connection takes all waiting requests, locks their tables in one order, allots
the sequences, inserts one staged block per table and schema version, and commits once. A request is staged
whole or not at all, and its future resolves only after COMMIT.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa
import structlog

from app.domain.landing_rows import LandingRows
from app.domain.payload import encode_payload
from app.domain.table import BatchSequence, Generation, Table, TableId
from app.domain.table_schema import SchemaVersion
from app.errors import Code, TemporarilyUnavailable
from app.staging.database import unavailable
from app.staging.sequence_lock import Counters, Gate, advance_sequence, lock_counters, read_gates
from app.staging.staged_blocks import BatchBorders, NewBlock, insert_blocks

log = structlog.get_logger()

MAX_GROUP_REQUESTS: Final = 1_000
MAX_GROUP_ROWS: Final = 500_000

BlockKey = tuple[TableId, Generation, SchemaVersion]
Place = tuple[int, int]
"""A batch's request within the group, and its place within the request."""


class TableMoved(Exception):
    """A table's state, generation or schema version changed after the request was typed: type it again."""


@dataclass(frozen=True, slots=True)
class TypedBatch:
    """The typed change batch of one table from one request."""

    table: Table
    rows: LandingRows

    @property
    def block_key(self) -> BlockKey:
        return (self.table.table_id, self.table.generation, self.table.schema_version)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer for one change batch, given only after commit."""

    table: str
    generation: Generation
    sequence: BatchSequence
    changes: int
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    batches: Sequence[TypedBatch]
    future: "Future[list[Receipt]]" = field(default_factory=Future)

    @property
    def rows(self) -> int:
        return sum(batch.rows.rows for batch in self.batches)


class GroupCommit:
    """The writer of one API process. `start` it once; `close` stages what waits, then stops."""

    def __init__(self, engine: sa.Engine, *, staged: threading.Event | None = None) -> None:
        self._engine = engine
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

    def submit(self, batches: Sequence[TypedBatch]) -> "Future[list[Receipt]]":
        """Stage a request's batches; the future gives one receipt per batch, in the order given.

        It raises TableMoved, or TemporarilyUnavailable when nothing (or, for `commit_unknown`, perhaps
        everything) was staged.
        """
        request = _Request(batches)
        with self._condition:
            if self._closing:
                raise TemporarilyUnavailable(Code.SHUTTING_DOWN, "this API process is stopping")
            self._waiting.append(request)
            self._condition.notify()
        return request.future

    def _run(self) -> None:
        while group := self._next_group():
            try:
                self._stage(group)
            except Exception as error:  # noqa: BLE001  # the thread must live; every waiter gets the error
                log.warning("group_commit_failed", error=type(error).__name__, requests=len(group))
                for request in group:
                    if not request.future.done():
                        request.future.set_exception(_for_caller(error))

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
                    if request.future.set_running_or_notify_cancel():
                        group.append(request)
                        rows += request.rows
        return group

    def _stage(self, group: Sequence[_Request]) -> None:
        """One transaction. Dying before COMMIT leaves nothing; dying after it leaves staged, unanswered batches."""
        while group:
            blocks = _assemble(group)
            payloads = {
                key: encode_payload([batch.rows.batch for _, batch in members]) for key, members in blocks.items()
            }
            with self._engine.connect() as connection:
                transaction = connection.begin()
                table_ids = {key[0] for key in blocks}
                counters = lock_counters(connection, table_ids)
                moved = _moved(group, read_gates(connection, table_ids))
                if moved:
                    transaction.rollback()
                    for request in moved:
                        request.future.set_exception(TableMoved())
                    group = [request for request in group if request not in moved]
                    continue
                receipts = _insert(connection, blocks, payloads, counters)
                _commit(transaction)
            self._staged.set()
            for position, request in enumerate(group):
                request.future.set_result([receipts[position, place] for place in range(len(request.batches))])
            return


def _assemble(group: Sequence[_Request]) -> dict[BlockKey, list[tuple[Place, TypedBatch]]]:
    """The batches of a group by the block they go into, each with its place."""
    blocks: dict[BlockKey, list[tuple[Place, TypedBatch]]] = defaultdict(list)
    for position, request in enumerate(group):
        for place, batch in enumerate(request.batches):
            blocks[batch.block_key].append(((position, place), batch))
    return blocks


def _moved(group: Sequence[_Request], gates: Mapping[TableId, Gate]) -> list[_Request]:
    """The requests that were typed for a table state that is no longer the present one."""

    def fits(batch: TypedBatch) -> bool:
        gate = gates.get(batch.table.table_id)
        return (
            gate is not None
            and gate.state.accepts_changes
            and (gate.generation, gate.schema_version) == (batch.table.generation, batch.table.schema_version)
        )

    return [request for request in group if not all(fits(batch) for batch in request.batches)]


def _insert(
    connection: sa.Connection,
    blocks: Mapping[BlockKey, Sequence[tuple[Place, TypedBatch]]],
    payloads: Mapping[BlockKey, bytes],
    counters: Mapping[TableId, Counters],
) -> dict[Place, Receipt]:
    """Insert the blocks under the locks; the receipts by the place of their batch."""
    receipts: dict[Place, Receipt] = {}
    new_blocks = []
    for (table_id, generation, version), members in blocks.items():
        first = BatchSequence(counters[table_id].last_sequence + 1)
        borders = [BatchBorders(batch.rows.changes, batch.rows.rows) for _, batch in members]
        block = NewBlock(table_id, generation, version, first, borders, payloads[table_id, generation, version])
        new_blocks.append(block)
        for offset, (place, batch) in enumerate(members):
            sequence = BatchSequence(first + offset)
            receipts[place] = Receipt(str(batch.table.name), generation, sequence, batch.rows.changes, batch.rows.rows)
        changes, rows = sum(border.changes for border in borders), sum(border.rows for border in borders)
        advance_sequence(connection, table_id, block.last_sequence, changes=changes, rows=rows)
    insert_blocks(connection, new_blocks)
    return receipts


def _commit(transaction: sa.RootTransaction) -> None:
    try:
        transaction.commit()
    except sa.exc.DBAPIError as error:
        raise TemporarilyUnavailable(Code.COMMIT_UNKNOWN, "the connection was lost during COMMIT") from error


def _for_caller(error: Exception) -> Exception:
    """The error to hand to a waiting request; a driver error says what passing condition it is."""
    if isinstance(error, sa.exc.DBAPIError):
        return unavailable(error) or error
    if isinstance(error, sa.exc.TimeoutError):
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "no free database connection")
    return error
