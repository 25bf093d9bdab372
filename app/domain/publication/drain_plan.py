"""Which consecutive staged blocks make which landing file. Pure: the same blocks always give the same plan."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.domain.model.landing_file import BatchRange
from app.domain.model.table import BatchSequence
from app.domain.model.table_schema import SchemaVersion

MIN_FILE_BYTES: Final = 8 * 2**20
"""Payload bytes that a file has at least where it is cut only so that more tasks have work."""


@dataclass(frozen=True, slots=True)
class PendingBlock:
    """What the planner needs of a staged block that no file holds yet."""

    first_sequence: BatchSequence
    last_sequence: BatchSequence
    schema_version: SchemaVersion
    changes: int
    rows: int
    payload_bytes: int
    digest: bytes
    age_seconds: float
    ends_transaction: bool = True
    """False where the source's transaction goes on in the next block."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """A file is rolled when the next block would lift it over these payload bytes or rows (a single block may be
    over them alone), and when its oldest block is `max_delay_seconds` old (see `is_due`)."""

    payload_bytes: int
    rows: int
    max_delay_seconds: float


def plan_files(blocks: Iterable[PendingBlock], limits: FileLimits) -> Iterator[tuple[PendingBlock, ...]]:
    """Group blocks, given in sequence order, into files of one schema version each, none empty.

    A file ends with a transaction of the source where it holds the end of one. The last group is left pending
    while it is neither full nor old enough.
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
    """The files of `plan_files`, cut so that each of `slots` tasks gets as many of about one size, as far as there are
    bytes for it. What is planned now and what is left pending stays the same."""
    files = list(plan_files(blocks, limits))
    planned = [block for file in files for block in file]
    size = sum(block.payload_bytes for block in planned)
    wanted = min(-(-len(files) // slots) * slots, size // MIN_FILE_BYTES)
    if slots == 1 or wanted < max(2, len(files)):
        return files
    # A block more than the share, or what the blocks do not fill would make one file more.
    most = -(-size // wanted) + max(block.payload_bytes for block in planned)
    return list(
        plan_files(planned, replace(limits, payload_bytes=min(most, limits.payload_bytes), max_delay_seconds=0))
    )


class _OpenFile:
    """Blocks that may become one file, with their sums."""

    def __init__(self) -> None:
        self.blocks: list[PendingBlock] = []
        self._rows = self._bytes = 0

    def add(self, block: PendingBlock) -> None:
        self.blocks.append(block)
        self._rows, self._bytes = self._rows + block.rows, self._bytes + block.payload_bytes

    def would_exceed(self, block: PendingBlock, limits: FileLimits) -> bool:
        return self._rows + block.rows > limits.rows or self._bytes + block.payload_bytes > limits.payload_bytes

    def is_full(self, limits: FileLimits) -> bool:
        return self._rows >= limits.rows or self._bytes >= limits.payload_bytes

    def end_of_transaction(self) -> int:
        """How many blocks there are up to the last one that ends a transaction; all of them without any."""
        ends = (place for place in range(len(self.blocks), 0, -1) if self.blocks[place - 1].ends_transaction)
        return next(ends, len(self.blocks))

    def take(self, count: int) -> tuple[PendingBlock, ...]:
        """The first blocks as a file; the others stay."""
        taken, rest = self.blocks[:count], self.blocks[count:]
        self.blocks, self._rows, self._bytes = [], 0, 0
        for block in rest:
            self.add(block)
        return tuple(taken)


def _is_old(blocks: Sequence[PendingBlock], limits: FileLimits) -> bool:
    return any(is_due(block.age_seconds, limits.max_delay_seconds) for block in blocks)


def is_due(age_seconds: float, max_delay_seconds: float) -> bool:
    """Whether a batch of this age must be published now.

    A negative age means that the database's clock was set back since the batch was staged: it is due at once, or
    publication would stop for as long as the step.
    """
    return age_seconds >= max_delay_seconds or age_seconds < 0


def range_of(blocks: Sequence[PendingBlock]) -> BatchRange:
    """The change batches that consecutive blocks hold."""
    return BatchRange(blocks[0].first_sequence, blocks[-1].last_sequence)
