"""Which consecutive staged blocks make which landing file. Pure: the same blocks always give the same plan."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.domain.landing_file import BatchRange
from app.domain.table import BatchSequence
from app.domain.table_schema import SchemaVersion


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


@dataclass(frozen=True, slots=True)
class FileLimits:
    """A file is rolled when the next block would lift it over these payload bytes or rows (a single block may be
    over them alone), and when its oldest block is `max_delay_seconds` old."""

    payload_bytes: int
    rows: int
    max_delay_seconds: float


def plan_files(blocks: Iterable[PendingBlock], limits: FileLimits) -> Iterator[tuple[PendingBlock, ...]]:
    """Group blocks, given in sequence order, into files of one schema version each, none empty.

    The last group is left pending while it is neither full nor old enough.
    """
    members: list[PendingBlock] = []
    rows = size = 0
    for block in blocks:
        full = rows + block.rows > limits.rows or size + block.payload_bytes > limits.payload_bytes
        if members and (full or block.schema_version != members[0].schema_version):
            yield tuple(members)
            members, rows, size = [], 0, 0
        members.append(block)
        rows, size = rows + block.rows, size + block.payload_bytes
    if members and (
        rows >= limits.rows or size >= limits.payload_bytes or members[0].age_seconds >= limits.max_delay_seconds
    ):
        yield tuple(members)


def range_of(blocks: Sequence[PendingBlock]) -> BatchRange:
    """The change batches that consecutive blocks hold."""
    return BatchRange(blocks[0].first_sequence, blocks[-1].last_sequence)
