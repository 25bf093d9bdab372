"""The records of one partition between Kafka and the gateway, bounded by bytes; records leave when they are durable."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from app.bridge.kafka.partition.elements import Record
from app.bridge.kafka.settings import BatchSettings

_OVERHEAD: Final = 200
"""Bytes that a record takes beside its value, about."""


class RecordBuffer:
    """One thread puts records in, another one takes batches. A batch stays in the buffer until `drop_through`."""

    def __init__(self, settings: BatchSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._records: deque[Record] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._since = 0.0
        self.next_offset: int | None = None
        """The first offset that is accepted; None while the partition is not positioned, then none is."""
        self.bytes = 0
        self.room = 2 * settings.max_bytes
        """Bytes from which on the consumer waits. A batch is taken at half of them, so that a full buffer never waits
        for the age of a batch."""

    def begin(self, offset: int) -> None:
        """Forget all records and accept those from `offset` on."""
        with self._changed:
            self._records.clear()
            self.bytes = 0
            self.next_offset = offset

    def forget(self) -> None:
        """Forget all records and accept none until `begin`."""
        with self._changed:
            self._records.clear()
            self.bytes = 0
            self.next_offset = None

    def put(self, records: Sequence[Record]) -> None:
        """Add records in their order; those before `next_offset` are dropped."""
        with self._changed:
            if self.next_offset is None or self._is_closed:
                return
            first = records[0].offset()
            if first is None or first < self.next_offset:
                records = [record for record in records if (record.offset() or 0) >= self.next_offset]
                if not records:
                    return
            if not self._records:
                self._since = self._clock()
            self._records.extend(records)
            self.bytes += sum(map(len, records)) + _OVERHEAD * len(records)
            self.next_offset = (records[-1].offset() or 0) + 1
            self._changed.notify()

    def take(self) -> list[Record]:
        """Wait until a batch is large or old enough and return it; an empty one after `close`."""
        limit = self._settings
        with self._changed:
            while not self._is_closed:
                if not self._records:
                    self._changed.wait()
                    continue
                age = self._clock() - self._since
                if self.bytes >= self._max_bytes or len(self._records) >= limit.max_messages or age >= limit.max_age:
                    self._since = self._clock()
                    return self._first()
                self._changed.wait(limit.max_age - age)
        return []

    def drop_through(self, offset: int) -> None:
        """Remove the records up to `offset`, which are durable or need no request."""
        with self._changed:
            while self._records and (self._records[0].offset() or 0) <= offset:
                self.bytes -= len(self._records.popleft()) + _OVERHEAD
            self._changed.notify_all()

    @property
    def is_full(self) -> bool:
        """Return True if the consumer has to wait."""
        return self.bytes >= self.room

    def wait_for_room(self, seconds: float) -> bool:
        """Wait until the buffer is not full, for `seconds` at most; return True if it is not."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.is_full or self._is_closed, seconds)

    def close(self) -> None:
        """Let `take` return, and accept no more records."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @property
    def _max_bytes(self) -> int:
        """Return the bytes of a batch."""
        return min(self._settings.max_bytes, self.room // 2)

    def _first(self) -> list[Record]:
        """Return records from the start up to the limits, at least one."""
        batch: list[Record] = []
        size, max_bytes, max_messages = 0, self._max_bytes, self._settings.max_messages
        for record in self._records:
            size += len(record)
            if batch and (size > max_bytes or len(batch) >= max_messages):
                break
            batch.append(record)
        return batch
