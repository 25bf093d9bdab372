"""Plans landing files: which consecutive staged blocks make which file. The same blocks always give the same plan."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.domain.model.landing_file import BatchRange
from app.domain.model.table import BatchSequence
from app.domain.model.table_schema import SchemaVersion

MIN_FILE_BYTES: Final = 8 * 2**20
"""Payload bytes of a file that is cut only to give more tasks work, at least."""


MAX_LANDED_BYTES: Final = 2**30
"""Bytes of the rows of a file once they are decoded: payloads of rows that repeat each other take a 200th of them."""


@dataclass(frozen=True, slots=True)
class PendingBlock:
    """What the plan needs to know of a staged block that is in no file yet."""

    first_sequence: BatchSequence
    last_sequence: BatchSequence
    schema_version: SchemaVersion
    changes: int
    rows: int
    payload_bytes: int
    digest: bytes
    age_seconds: float
    ends_transaction: bool = True
    """False if the source's transaction continues in the next block."""
    landed_bytes: int = 0
    """Bytes of its rows once they are decoded."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """When a file is full or due.

    It ends before a block that would exceed these payload bytes, rows or decoded bytes (a single block may), or when
    its oldest block is `max_delay_seconds` old, see `is_due`.
    """

    payload_bytes: int
    rows: int
    max_delay_seconds: float
    landed_bytes: int = MAX_LANDED_BYTES


def plan_files(blocks: Iterable[PendingBlock], limits: FileLimits) -> Iterator[tuple[PendingBlock, ...]]:
    """Yield blocks, given in sequence order, as files of one schema version each.

    A file ends at the end of a source transaction if it has one. The last group stays pending while it is neither full
    nor old enough.
    """
    file = _OpenFile()
    for block in blocks:
        if file.blocks and block.schema_version != file.blocks[0].schema_version:
            yield file.take(len(file.blocks))
        while file.blocks and file.would_exceed(block, limits):
            yield file.take(file.end_of_transaction())
        file.add(block)
    while file.is_full(limits) or _is_old(file.blocks[:1], limits):
        end = file.end_of_transaction()
        yield file.take(len(file.blocks) if _is_old(file.blocks[end : end + 1], limits) else end)


def plan_files_for(
    blocks: Sequence[PendingBlock], limits: FileLimits, *, slots: int
) -> Sequence[tuple[PendingBlock, ...]]:
    """Return the files of `plan_files`, cut so that each of `slots` tasks gets the same number of similar files.

    Files get no smaller than MIN_FILE_BYTES for this. The same blocks are planned, and the same stay pending.
    """
    files = list(plan_files(blocks, limits))
    planned = [block for file in files for block in file]
    size = sum(block.payload_bytes for block in planned)
    wanted = min(-(-len(files) // slots) * slots, size // MIN_FILE_BYTES)
    if slots == 1 or wanted < max(2, len(files)):
        return files
    # One block more than the share: otherwise what blocks do not fill would make one file more.
    max_bytes = -(-size // wanted) + max(block.payload_bytes for block in planned)
    return list(
        plan_files(planned, replace(limits, payload_bytes=min(max_bytes, limits.payload_bytes), max_delay_seconds=0))
    )


class _OpenFile:
    """Blocks that may become one file, with their sums."""

    def __init__(self) -> None:
        self.blocks: list[PendingBlock] = []
        self._rows = self._bytes = self._landed = 0

    def add(self, block: PendingBlock) -> None:
        """Add the next block."""
        self.blocks.append(block)
        self._rows, self._bytes = self._rows + block.rows, self._bytes + block.payload_bytes
        self._landed += block.landed_bytes

    def would_exceed(self, block: PendingBlock, limits: FileLimits) -> bool:
        """Tell whether the file would exceed a limit with this block."""
        return (
            self._rows + block.rows > limits.rows
            or self._bytes + block.payload_bytes > limits.payload_bytes
            or self._landed + block.landed_bytes > limits.landed_bytes
        )

    def is_full(self, limits: FileLimits) -> bool:
        """Tell whether the file has reached a limit."""
        is_large = self._bytes >= limits.payload_bytes or self._landed >= limits.landed_bytes
        return is_large or self._rows >= limits.rows

    def end_of_transaction(self) -> int:
        """Return the number of blocks up to the last end of a transaction, or of all blocks if there is none."""
        ends = (count for count in range(len(self.blocks), 0, -1) if self.blocks[count - 1].ends_transaction)
        return next(ends, len(self.blocks))

    def take(self, count: int) -> tuple[PendingBlock, ...]:
        """Remove and return the first blocks."""
        taken, rest = self.blocks[:count], self.blocks[count:]
        self.blocks, self._rows, self._bytes, self._landed = [], 0, 0, 0
        for block in rest:
            self.add(block)
        return tuple(taken)


def _is_old(blocks: Sequence[PendingBlock], limits: FileLimits) -> bool:
    return any(is_due(block.age_seconds, limits.max_delay_seconds) for block in blocks)


def is_due(age_seconds: float, max_delay_seconds: float) -> bool:
    """Tell whether a batch of this age must be published now.

    A negative age means that the database's clock was set back after the batch was staged. Such a batch is due at
    once; otherwise publication would stop until the clock catches up.
    """
    return age_seconds >= max_delay_seconds or age_seconds < 0


def range_of(blocks: Sequence[PendingBlock]) -> BatchRange:
    """Return the batches that consecutive blocks contain."""
    return BatchRange(blocks[0].first_sequence, blocks[-1].last_sequence)
