"""One round of retention: open and drop payload buckets, purge the history that has lost its payloads.

Every step is a transaction of its own and can be repeated; a process that dies between two of them leaves the rest
to the next round, whoever does it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import sqlalchemy as sa
import structlog

from app.staging.access.api_keys import purge_former_secrets
from app.staging.access.audit_events import purge_audit
from app.staging.batches.dead_letters import discard_ended, purge_letters
from app.staging.batches.idempotency import purge_receipts
from app.staging.connection.advisory_locks import AdvisoryLock, try_lock_for_session, unlock_session
from app.staging.connection.database import translated_errors
from app.staging.ledger.leases import forget_dead_workers
from app.staging.retention.history_purge import (
    generations_with_old_blocks,
    generations_with_old_files,
    purge_blocks,
    purge_ended_images,
    purge_ended_positions,
    purge_files,
)
from app.staging.retention.payload_partitions import (
    Bucket,
    Place,
    attach_next_bucket,
    detach,
    drop_detached,
    find_buckets,
    is_empty,
    move_needed,
    needed_bytes,
    open_next_bucket,
)

log = structlog.get_logger()

BUCKETS_PER_PERIOD: Final = 7
"""Buckets opened by age while payloads are kept: a payload is kept at most by this part longer than it must."""

BUCKETS_PER_CAP: Final = 8
"""Buckets opened by size until the byte cap is reached."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How much is kept, and how large the steps are."""

    keep_seconds: float
    """Payloads, and files of the ledger, are kept this long."""
    keep_bytes: int
    """Payloads are dropped earlier, oldest first, once they take more room than this."""
    audit_seconds: float = 90 * 86_400.0
    """Audit events are kept this long."""
    quiet_seconds: float = 60.0
    """A bucket that was closed so recently may still be written to by a transaction that began before."""
    detach_seconds: float = 30.0
    chunk_rows: int = 5_000
    chunk_bytes: int = 64 * 2**20


@dataclass(slots=True)
class RetentionReport:
    """What one round did."""

    opened_buckets: int = 0
    dropped_buckets: int = 0
    freed_bytes: int = 0
    moved_payloads: int = 0
    purged_blocks: int = 0
    purged_files: int = 0
    purged_images: int = 0
    purged_receipts: int = 0
    purged_audit_events: int = 0
    purged_letters: int = 0


def run_retention(engine: sa.Engine, limits: RetentionLimits) -> RetentionReport | None:
    """Do what is due now; None while another process is at it.

    Raises TemporarilyUnavailable when the database does not answer or somebody holds a lock for long.
    """
    with translated_errors(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as alone:
        if not try_lock_for_session(alone, AdvisoryLock.RETENTION):
            return None
        try:
            return _Round(engine, alone, limits).run()
        finally:
            if not alone.invalidated:
                unlock_session(alone, AdvisoryLock.RETENTION)


class _Round:
    def __init__(self, engine: sa.Engine, alone: sa.Connection, limits: RetentionLimits) -> None:
        self._engine = engine
        self._alone = alone
        self._limits = limits
        self._report = RetentionReport()

    def run(self) -> RetentionReport:
        self._open_buckets()
        if self._finish_detached():
            self._expire_buckets()
        self._purge_history()
        return self._report

    def _open_buckets(self) -> None:
        buckets = self._buckets()
        open_bucket = next(bucket for bucket in buckets if bucket.state == "open")
        ahead = [bucket for bucket in buckets if bucket.state == "ahead"]
        if ahead and self._is_full(open_bucket):
            with self._engine.begin() as connection:
                open_next_bucket(connection)
            self._report.opened_buckets += 1
            ahead.pop()
        if not ahead:
            with self._engine.begin() as connection:
                attach_next_bucket(connection)

    def _is_full(self, bucket: Bucket) -> bool:
        if bucket.total_bytes >= self._limits.keep_bytes / BUCKETS_PER_CAP:
            return True
        if bucket.open_seconds < self._limits.keep_seconds / BUCKETS_PER_PERIOD:
            return False
        with self._engine.begin() as connection:
            return not is_empty(connection, bucket)

    def _finish_detached(self) -> bool:
        """Drop what a round that ended early has left; False while that waits for old transactions."""
        return all(self._drop(bucket) for bucket in self._buckets() if bucket.place is not Place.ATTACHED)

    def _expire_buckets(self) -> None:
        buckets = self._buckets()
        total = sum(bucket.total_bytes for bucket in buckets)
        for bucket in buckets:
            if bucket.state != "closed" or bucket.closed_seconds < self._limits.quiet_seconds:
                continue
            too_old = bucket.closed_seconds >= self._limits.keep_seconds
            if too_old or (total > self._limits.keep_bytes and self._frees_more_than_it_moves(bucket)):
                self._empty(bucket)
                if not self._drop(bucket):
                    return
                total -= bucket.total_bytes
        if total > self._limits.keep_bytes:
            log.warning("payload_cap_exceeded", total_bytes=total, keep_bytes=self._limits.keep_bytes)

    def _frees_more_than_it_moves(self, bucket: Bucket) -> bool:
        """Whether dropping the bucket for its size is worth it: moving unpublished payloads frees nothing."""
        with self._engine.begin() as connection:
            return 2 * needed_bytes(connection, bucket) <= bucket.total_bytes

    def _empty(self, bucket: Bucket) -> None:
        """Move what is still needed away, so that neither a paused nor a slow table holds the bucket back."""

        move = partial(move_needed, bucket=bucket, chunk_bytes=self._limits.chunk_bytes)
        self._report.moved_payloads += self._repeat(move)

    def _drop(self, bucket: Bucket) -> bool:
        waits = bucket.place is not Place.DETACHED
        if waits and not detach(self._alone, bucket, seconds=self._limits.detach_seconds):
            log.info("partition_detach_delayed", bucket=bucket.number)
            return False
        with self._engine.begin() as connection:
            self._report.moved_payloads += drop_detached(connection, bucket)
        self._report.dropped_buckets += 1
        self._report.freed_bytes += bucket.total_bytes
        return True

    def _purge_history(self) -> None:
        keep, most = self._limits.keep_seconds, self._limits.chunk_rows
        with self._engine.begin() as connection:
            with_blocks = generations_with_old_blocks(connection)
        for table_id, generation in with_blocks:
            purge = partial(purge_blocks, table_id=table_id, generation=generation, most=most)
            self._report.purged_blocks += self._repeat(purge)
        with self._engine.begin() as connection:
            with_files = generations_with_old_files(connection, keep)
        for table_id, generation in with_files:
            files = partial(purge_files, table_id=table_id, generation=generation, keep_seconds=keep, most=most)
            self._report.purged_files += self._repeat(files)
        self._report.purged_images += self._repeat(partial(purge_ended_images, most=most))
        receipts = partial(purge_receipts, older_than_seconds=keep, most=most)
        self._report.purged_receipts += self._repeat(receipts)
        audit = partial(purge_audit, older_than_seconds=self._limits.audit_seconds, most=most)
        self._report.purged_audit_events += self._repeat(audit)
        letters = partial(purge_letters, settled_before_seconds=keep, most=most)
        self._report.purged_letters += self._repeat(letters)
        with self._engine.begin() as connection:
            discard_ended(connection)
            purge_ended_positions(connection)
            purge_former_secrets(connection)
            forget_dead_workers(connection)

    def _repeat(self, step: Callable[[sa.Connection], int]) -> int:
        """Do a step in transactions of its own until it finds nothing more; the sum of what it did."""
        total = 0
        while True:
            with self._engine.begin() as connection:
                done = step(connection)
            if not done:
                return total
            total += done

    def _buckets(self) -> list[Bucket]:
        with self._engine.begin() as connection:
            return find_buckets(connection)
