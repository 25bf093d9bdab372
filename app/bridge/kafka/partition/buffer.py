"""The records of one partition between Kafka and the gateway, bounded by bytes; records leave when they are durable.

Records remain in the runs in which the consumer handed them over. The buffer cuts batches from runs, so
no Python code runs for a single record (performance notebook).
"""

import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from app.bridge.kafka.partition.elements import Record
from app.bridge.kafka.settings import BatchSettings

_OVERHEAD: Final = 200
"""Bytes that a record takes beside its value, about."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Records with ascending offsets, at least one. `size` is the bytes of their values."""

    records: Sequence[Record]
    size: int

    @classmethod
    def of(cls, records: Sequence[Record]) -> "_Run":
        return cls(records, sum(map(len, records)))

    @property
    def bytes(self) -> int:
        return self.size + _OVERHEAD * len(self.records)


class RecordBuffer:
    """One thread puts records in, another one takes batches. A batch remains in the buffer until `drop_through`."""

    def __init__(self, settings: BatchSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._runs: deque[_Run] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._since = 0.0
        self.next_offset: int | None = None
        """The first offset that is accepted; None while the partition is not positioned, then none is."""
        self.bytes = 0
        self.records = 0
        self.room = 2 * settings.max_bytes
        """Bytes from which on the consumer waits. A batch is taken at half of them, so that a full buffer never waits
        for the age of a batch."""

    def begin(self, offset: int) -> None:
        """Forget all records and accept those from `offset` on."""
        with self._changed:
            self._clear()
            self.next_offset = offset

    def forget(self) -> None:
        """Forget all records and accept none until `begin`."""
        with self._changed:
            self._clear()
            self.next_offset = None

    def put(self, records: Sequence[Record]) -> None:
        """Add records in their order; those before `next_offset` are dropped."""
        with self._changed:
            if self.next_offset is None or self._is_closed:
                return
            if _offset(records[0]) < self.next_offset:
                records = [record for record in records if _offset(record) >= self.next_offset]
                if not records:
                    return
            if not self._runs:
                self._since = self._clock()
            self._add(_Run.of(records), self._runs.append)
            self.next_offset = _offset(records[-1]) + 1
            self._changed.notify()

    def take(self) -> list[Record]:
        """Wait until a batch is large or old enough and return it; an empty one after `close`."""
        limit = self._settings
        with self._changed:
            while not self._is_closed:
                if not self._runs:
                    self._changed.wait()
                    continue
                age = self._clock() - self._since
                if self.bytes >= self._max_bytes or self.records >= limit.max_messages or age >= limit.max_age:
                    self._since = self._clock()
                    return self._first()
                self._changed.wait(limit.max_age - age)
        return []

    def drop_through(self, offset: int) -> None:
        """Remove the records up to `offset`, which are durable or need no request."""
        with self._changed:
            while self._runs and _offset(self._runs[0].records[0]) <= offset:
                run = self._runs.popleft()
                self.bytes -= run.bytes
                self.records -= len(run.records)
                dropped = bisect_right(run.records, offset, key=_offset)
                if dropped < len(run.records):
                    self._add(_Run.of(run.records[dropped:]), self._runs.appendleft)
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

    def _add(self, run: _Run, add: Callable[[_Run], None]) -> None:
        add(run)
        self.bytes += run.bytes
        self.records += len(run.records)

    def _clear(self) -> None:
        self._runs.clear()
        self.bytes = self.records = 0

    def _first(self) -> list[Record]:
        """Return records from the start up to the limits, at least one."""
        batch: list[Record] = []
        room, places = self._max_bytes, self._settings.max_messages
        for run in self._runs:
            if run.size > room or len(run.records) > places:
                fitting = min(bisect_right([*accumulate(map(len, run.records))], room), places)
                batch += run.records[: fitting if batch else max(fitting, 1)]
                break
            batch += run.records
            room -= run.size
            places -= len(run.records)
        return batch


def _offset(record: Record) -> int:
    return record.offset() or 0
