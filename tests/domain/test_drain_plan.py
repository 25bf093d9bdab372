"""Which blocks make which file, for any backlog."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from app.domain.drain_plan import FileLimits, PendingBlock, plan_files, range_of
from app.domain.table import BatchSequence
from app.domain.table_schema import SchemaVersion

LIMITS = st.builds(
    FileLimits,
    payload_bytes=st.integers(1, 50),
    rows=st.integers(1, 50),
    max_delay_seconds=st.floats(0, 10),
)


@st.composite
def backlogs(draw: st.DrawFn) -> list[PendingBlock]:
    """Consecutive blocks in sequence order, the oldest first."""
    blocks: list[PendingBlock] = []
    sequence, version, age = draw(st.integers(1, 5)), 1, draw(st.floats(0, 20))
    for _ in range(draw(st.integers(0, 12))):
        last = sequence + draw(st.integers(0, 3))
        version += draw(st.integers(0, 1))
        age = draw(st.floats(0, age))
        blocks.append(
            PendingBlock(
                BatchSequence(sequence),
                BatchSequence(last),
                SchemaVersion(version),
                changes=last - sequence + 1,
                rows=draw(st.integers(1, 60)),
                payload_bytes=draw(st.integers(1, 60)),
                digest=b"",
                age_seconds=age,
            )
        )
        sequence = last + 1
    return blocks


def is_full(group: tuple[PendingBlock, ...], limits: FileLimits) -> bool:
    size, rows = sum(block.payload_bytes for block in group), sum(block.rows for block in group)
    return size >= limits.payload_bytes or rows >= limits.rows


@given(blocks=backlogs(), limits=LIMITS)
def test_files_hold_the_oldest_blocks_in_order_without_a_gap(blocks: list[PendingBlock], limits: FileLimits) -> None:
    files = list(plan_files(blocks, limits))
    planned = [block for group in files for block in group]
    assert planned == blocks[: len(planned)]
    assert all(files)
    ranges = [range_of(group) for group in files]
    assert all(one.last + 1 == two.first for one, two in itertools.pairwise(ranges))


@given(blocks=backlogs(), limits=LIMITS)
def test_a_file_has_one_schema_version_and_keeps_the_limits_unless_one_block_breaks_them(
    blocks: list[PendingBlock], limits: FileLimits
) -> None:
    for group in plan_files(blocks, limits):
        assert len({block.schema_version for block in group}) == 1
        if len(group) > 1:
            assert sum(block.rows for block in group) <= limits.rows
            assert sum(block.payload_bytes for block in group) <= limits.payload_bytes


@given(blocks=backlogs(), limits=LIMITS)
def test_only_a_last_group_that_is_neither_full_nor_old_waits(blocks: list[PendingBlock], limits: FileLimits) -> None:
    planned = sum(map(len, plan_files(blocks, limits)))
    everything = FileLimits(limits.payload_bytes, limits.rows, max_delay_seconds=0)
    groups = list(plan_files(blocks, everything))
    assert sum(map(len, groups)) == len(blocks)
    if blocks:
        waits = not is_full(groups[-1], limits) and groups[-1][0].age_seconds < limits.max_delay_seconds
        assert len(blocks) - planned == (len(groups[-1]) if waits else 0)


@given(blocks=backlogs(), limits=LIMITS)
def test_a_file_is_closed_only_when_the_next_block_does_not_fit(blocks: list[PendingBlock], limits: FileLimits) -> None:
    groups = list(plan_files(blocks, FileLimits(limits.payload_bytes, limits.rows, max_delay_seconds=0)))
    for group, after in itertools.pairwise(groups):
        larger = (*group, after[0])
        assert (
            after[0].schema_version != group[0].schema_version
            or sum(block.rows for block in larger) > limits.rows
            or sum(block.payload_bytes for block in larger) > limits.payload_bytes
        )


def block(sequence: int, age_seconds: float) -> PendingBlock:
    number = BatchSequence(sequence)
    return PendingBlock(number, number, SchemaVersion(1), 1, 1, 1, b"", age_seconds)


def test_the_oldest_block_of_a_file_decides_whether_it_waits() -> None:
    limits = FileLimits(payload_bytes=100, rows=100, max_delay_seconds=5)
    assert [len(group) for group in plan_files([block(1, 5.0), block(2, 0.1)], limits)] == [2]
    assert list(plan_files([block(1, 4.9), block(2, 0.1)], limits)) == []
