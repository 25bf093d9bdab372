"""What the drain does next: its plans, backlogs, and pauses after failures."""

import errno
import itertools
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.table import BatchSequence
from app.domain.model.table_schema import SchemaVersion
from app.domain.publication import (
    MAX_WAIT_SECONDS,
    MIN_FILE_BYTES,
    Amount,
    Backlog,
    BacklogLimit,
    Failure,
    FileLimits,
    PendingBlock,
    Rate,
    described,
    plan_files,
    plan_files_for,
    range_of,
)
from app.landing.zone import ScratchRevoked
from mirrorgate.errors import Code, InvariantBroken, StorageError, TemporarilyUnavailable

LIMITS = st.builds(
    FileLimits,
    payload_bytes=st.integers(1, 50),
    landed_bytes=st.integers(1, 100),
    rows=st.integers(1, 50),
    max_delay_seconds=st.floats(0, 10),
)


@st.composite
def backlogs(draw: st.DrawFn, *, within_transactions: bool = True) -> list[PendingBlock]:
    """Consecutive blocks in sequence order, the oldest first; blocks may end amid a transaction."""
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
                landed_bytes=draw(st.integers(0, 60)),
                digest=b"",
                age_seconds=age,
                ends_transaction=draw(st.booleans()) if within_transactions else True,
            )
        )
        sequence = last + 1
    return blocks


def left_of(group: Sequence[PendingBlock], limits: FileLimits) -> tuple[int, int, int]:
    """Return how many bytes, rows and bytes of the file are left up to each limit; negative beyond it."""
    return (
        limits.payload_bytes - sum(block.payload_bytes for block in group),
        limits.rows - sum(block.rows for block in group),
        limits.landed_bytes - sum(block.landed_bytes for block in group),
    )


def is_full(group: Sequence[PendingBlock], limits: FileLimits) -> bool:
    return min(left_of(group, limits)) <= 0


def is_beyond(group: Sequence[PendingBlock], limits: FileLimits) -> bool:
    return min(left_of(group, limits)) < 0


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
        assert len(group) == 1 or not is_beyond(group, limits)


@given(blocks=backlogs(), limits=LIMITS)
def test_only_a_last_group_that_is_neither_full_nor_old_waits(blocks: list[PendingBlock], limits: FileLimits) -> None:
    planned = sum(map(len, plan_files(blocks, limits)))
    everything = replace(limits, max_delay_seconds=0)
    groups = list(plan_files(blocks, everything))
    assert sum(map(len, groups)) == len(blocks)
    if blocks:
        waiting = tuple(blocks[planned:])
        assert not is_full(waiting, limits)
        assert all(block.age_seconds < limits.max_delay_seconds for block in waiting[:1])
        assert len({block.schema_version for block in waiting}) <= 1


@given(blocks=backlogs(), limits=LIMITS)
def test_a_file_is_cut_within_a_transaction_only_where_no_earlier_end_is_in_it_or_the_schema_changes(
    blocks: list[PendingBlock], limits: FileLimits
) -> None:
    planned = 0
    for group in plan_files(blocks, limits):
        planned += len(group)
        if group[-1].ends_transaction or planned == len(blocks):
            continue
        changes = blocks[planned].schema_version != group[0].schema_version
        assert changes or not any(block.ends_transaction for block in group)


@given(blocks=backlogs(), limits=LIMITS)
def test_the_same_backlog_is_planned_alike_when_its_end_comes_later(
    blocks: list[PendingBlock], limits: FileLimits
) -> None:
    whole = list(plan_files(blocks, replace(limits, max_delay_seconds=99)))
    for end in range(len(blocks)):
        part = list(plan_files(blocks[:end], replace(limits, max_delay_seconds=99)))
        assert part == whole[: len(part)]


@given(blocks=backlogs(within_transactions=False), limits=LIMITS)
def test_a_file_is_closed_only_when_the_next_block_does_not_fit(blocks: list[PendingBlock], limits: FileLimits) -> None:
    groups = list(plan_files(blocks, replace(limits, max_delay_seconds=0)))
    for group, after in itertools.pairwise(groups):
        assert after[0].schema_version != group[0].schema_version or is_beyond((*group, after[0]), limits)


def block(sequence: int, age_seconds: float = 0, *, ends: bool = True) -> PendingBlock:
    number = BatchSequence(sequence)
    return PendingBlock(number, number, SchemaVersion(1), 1, 1, 1, b"", age_seconds, ends)


def test_the_oldest_block_of_a_file_decides_whether_it_waits() -> None:
    limits = FileLimits(payload_bytes=100, rows=100, max_delay_seconds=5)
    assert [len(group) for group in plan_files([block(1, 5.0), block(2, 0.1)], limits)] == [2]
    assert list(plan_files([block(1, 4.9), block(2, 0.1)], limits)) == []


@pytest.mark.parametrize(
    ("ends", "rows", "sizes"),
    [
        ("yyyyy", 2, [2, 2]),
        ("ynyyy", 2, [1, 2, 2]),
        ("nnyyy", 2, [2, 2]),
        ("yynny", 3, [2, 3]),
        ("nnnnn", 2, [2, 2]),
        ("ynnnn", 3, [1, 3]),
    ],
)
def test_a_full_file_ends_with_the_last_transaction_that_it_holds_whole(ends: str, rows: int, sizes: list[int]) -> None:
    blocks = [block(number, ends=end == "y") for number, end in enumerate(ends, 1)]
    limits = FileLimits(payload_bytes=100, rows=rows, max_delay_seconds=99)
    assert [len(group) for group in plan_files(blocks, limits)] == sizes


def test_an_old_file_leaves_an_unfinished_transaction_to_the_next_until_that_is_old_too() -> None:
    limits = FileLimits(payload_bytes=100, rows=100, max_delay_seconds=5)
    young = [block(1, 6), block(2, 4, ends=False), block(3, 3, ends=False)]
    assert [len(group) for group in plan_files(young, limits)] == [1]
    old = [block(1, 9), block(2, 6, ends=False), block(3, 3, ends=False)]
    assert [len(group) for group in plan_files(old, limits)] == [3]


MEGABYTE = 2**20


@st.composite
def large_backlogs(draw: st.DrawFn) -> list[PendingBlock]:
    """Old blocks of up to a few megabytes."""
    return [
        replace(block, payload_bytes=block.payload_bytes * draw(st.integers(1, 60_000)), age_seconds=9)
        for block in draw(backlogs())
    ]


LARGE_LIMITS = st.builds(
    FileLimits,
    payload_bytes=st.integers(1, 64 * MEGABYTE),
    rows=st.integers(1, 2_000),
    max_delay_seconds=st.just(5.0),
)


@given(blocks=large_backlogs(), limits=LARGE_LIMITS, slots=st.integers(1, 9))
def test_cutting_for_more_tasks_changes_only_where_files_end(
    blocks: list[PendingBlock], limits: FileLimits, slots: int
) -> None:
    as_ever, finer = list(plan_files(blocks, limits)), list(plan_files_for(blocks, limits, slots=slots))
    assert [block for group in finer for block in group] == [block for group in as_ever for block in group]
    assert all(len({block.schema_version for block in group}) == 1 for group in finer)
    assert not any(is_beyond(group, limits) for group in finer if len(group) > 1)


@given(blocks=backlogs(), limits=LIMITS, slots=st.integers(1, 9))
def test_a_small_backlog_is_never_cut_for_more_tasks(
    blocks: list[PendingBlock], limits: FileLimits, slots: int
) -> None:
    assert sum(block.payload_bytes for block in blocks) < 2 * MIN_FILE_BYTES
    assert list(plan_files_for(blocks, limits, slots=slots)) == list(plan_files(blocks, limits))


@pytest.mark.parametrize(
    ("megabytes", "slots", "files"),
    [(15, 2, 1), (16, 2, 2), (40, 2, 2), (40, 1, 1), (40, 4, 4), (40, 8, 5), (150, 2, 4), (200, 2, 4), (330, 2, 6)],
)
def test_each_task_gets_as_many_files_of_about_one_size(megabytes: int, slots: int, files: int) -> None:
    blocks = [replace(block(number, 9), payload_bytes=MEGABYTE // 4) for number in range(1, 4 * megabytes + 1)]
    limits = FileLimits(payload_bytes=64 * MEGABYTE, rows=10_000, max_delay_seconds=5)
    sizes = [len(group) for group in plan_files_for(blocks, limits, slots=slots)]
    assert len(sizes) == files
    assert max(sizes) - min(sizes) <= len(sizes) * files
    if files > 1:
        assert min(sizes) * MEGABYTE // 4 >= MIN_FILE_BYTES - MEGABYTE


def wait_of(limit: BacklogLimit, backlog: Backlog) -> int | None:
    """Return the seconds of Retry-After; None if the producer may continue."""
    try:
        limit.check("t has", backlog)
    except TemporarilyUnavailable as error:
        assert error.code is Code.BACKLOG_FULL
        return error.retry_after
    return None


@pytest.mark.parametrize(
    ("limit", "backlog", "full"),
    [
        (BacklogLimit(), Backlog(Amount(2**60, 2**60), 1e9), False),
        (BacklogLimit(bytes=100), Backlog(Amount(99, 10**9), 1e9), False),
        (BacklogLimit(bytes=100), Backlog(Amount(100, 0)), True),
        (BacklogLimit(rows=5), Backlog(Amount(10**9, 4)), False),
        (BacklogLimit(rows=5), Backlog(Amount(0, 5)), True),
        (BacklogLimit(seconds=60), Backlog(Amount(1, 1), 59.9), False),
        (BacklogLimit(seconds=60), Backlog(Amount(1, 1), 60), True),
    ],
)
def test_a_backlog_is_full_once_one_of_its_limits_is_reached(limit: BacklogLimit, backlog: Backlog, full: bool) -> None:
    assert (wait_of(limit, backlog) is not None) == full


@pytest.mark.parametrize(
    ("pending", "rate", "wait"),
    [(100, 50, 1), (150, 50, 1), (200, 50, 2), (210, 50, 3), (100, 0, MAX_WAIT_SECONDS), (10**9, 1, MAX_WAIT_SECONDS)],
)
def test_the_wait_is_what_publishing_the_excess_takes_within_bounds(pending: int, rate: float, wait: int) -> None:
    assert wait_of(BacklogLimit(bytes=100), Backlog(Amount(pending, 0), 0.0, Rate(rate, 0))) == wait


def test_of_several_limits_the_longest_wait_counts_and_all_reasons_are_told() -> None:
    backlog = Backlog(Amount(300, 30), 10.0, Rate(100, 1))
    with pytest.raises(TemporarilyUnavailable) as raised:
        BacklogLimit(bytes=100, rows=10, seconds=5).check("table t has", backlog)
    assert raised.value.retry_after == 20
    assert raised.value.detail == "table t has 300 bytes and 30 rows and a batch of 10 s not yet published"


def test_the_rate_comes_near_what_is_published_and_forgets_when_nothing_is() -> None:
    rate = Rate()
    for _ in range(300):
        rate = rate.after(Amount(1_000, 10), 1.0)
    assert (rate.bytes, rate.rows) == (pytest.approx(1_000, rel=0.01), pytest.approx(10, rel=0.01))
    for _ in range(300):
        rate = rate.after(Amount(), 1.0)
    assert rate.bytes == pytest.approx(0, abs=1)


def test_readings_at_any_pace_give_the_same_rate() -> None:
    in_one, in_many = Rate().after(Amount(6_000, 60), 6.0), Rate()
    for _ in range(6):
        in_many = in_many.after(Amount(1_000, 10), 1.0)
    assert (in_many.bytes, in_many.rows) == (pytest.approx(in_one.bytes), pytest.approx(in_one.rows))


def test_amounts_are_added_and_subtracted_part_by_part() -> None:
    assert Amount(5, 7) + Amount(1, 2) == Amount(6, 9)
    assert Amount(5, 7) - Amount(1, 2) == Amount(4, 5)


def test_the_share_is_that_of_the_nearest_limit() -> None:
    backlog = Backlog(Amount(50, 30), 6.0)
    assert BacklogLimit(100, 100, 10.0).share(backlog) == 0.6
    assert BacklogLimit(bytes=100).share(backlog) == 0.5
    assert BacklogLimit(rows=60).share(backlog) == 0.5
    assert BacklogLimit().share(backlog) == 0.0


def test_after_the_memory_has_passed_the_new_rate_counts_for_most() -> None:
    rate = Rate().after(Amount(300, 30), 30.0)
    assert (round(rate.bytes, 2), round(rate.rows, 3)) == (6.32, 0.632)


SECRET = "a row value"


def raised(error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_an_error_of_our_own_is_described_by_itself() -> None:
    error = InvariantBroken(Code.BROKEN_CHAIN, "block 3 is missing", remedy="Restore it.")
    assert described(error) == Failure(Code.BROKEN_CHAIN, "block 3 is missing", "Restore it.")
    assert described(TemporarilyUnavailable(Code.TABLE_BUSY, "locked")).detail == "locked"
    assert described(StorageError("PUT x: 503 ServerBusy")).detail == "PUT x: 503 ServerBusy"
    assert described(ScratchRevoked("_scratchPad/1/2")).code is Code.STALE_EPOCH


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "Free space or inodes on that disk"),
        (errno.EDQUOT, "Raise the quota"),
        (errno.EROFS, "Mount the file system writable again"),
        (errno.EACCES, "Give the drain's account the right"),
        (errno.EMFILE, "Raise the limit of open files of the drain's process"),
        (errno.ENFILE, "Raise the machine's limit"),
        (errno.EIO, "Check the health"),
        (errno.ESTALE, "Mount the file system again"),
        (errno.ENOENT, "Check that the landing zone is mounted"),
        (errno.EPERM, "Give the drain's account the right"),
    ],
)
def test_a_fault_of_the_file_system_has_its_name_place_and_remedy(number: int, remedy: str) -> None:
    failure = described(OSError(number, "said by the system", "/zone/t"))
    assert failure.code is Code.STORAGE_FAILED
    assert failure.detail == f"{errno.errorcode[number]} (said by the system) at /zone/t"
    assert failure.remedy.startswith(remedy)


def test_a_fault_that_nobody_foresaw_has_the_remedy_of_its_code() -> None:
    failure = described(OSError(errno.EXDEV, ""))
    assert failure.detail == "EXDEV (Invalid cross-device link)"
    assert failure.remedy == InvariantBroken(Code.STORAGE_FAILED, "").remedy


def test_a_fault_without_a_number_has_its_text_or_its_type() -> None:
    moved = IsADirectoryError(errno.EISDIR, "Is a directory", "/zone/a", None, "/zone/b")
    assert described(moved).detail == "EISDIR (Is a directory) at /zone/a to /zone/b"
    assert described(OSError("the mount is gone")).detail == "the mount is gone"
    assert described(TimeoutError()).detail == "TimeoutError"
    assert described(OSError(99_999, None)).detail.startswith("99999 (")


@pytest.mark.parametrize("error", [ValueError(SECRET), KeyError(SECRET), ConnectionResetError(104, SECRET)])
def test_any_other_error_is_described_by_its_type_and_line_alone(error: Exception) -> None:
    failure = described(raised(error))
    assert failure.code is Code.INTERNAL
    assert failure.detail.startswith(f"{type(error).__name__} in raised (test_drain_plan.py:")
    assert failure.remedy.startswith("Report it with this line")
    assert SECRET not in failure.detail + failure.remedy


def outer() -> None:
    raised_inside()


def raised_inside() -> None:
    json.loads("{")


def test_the_line_that_raised_the_error_is_shown_and_not_one_that_called_it() -> None:
    with pytest.raises(ValueError, match="Expecting") as caught:
        outer()
    assert described(caught.value).detail.startswith("JSONDecodeError in raw_decode (decoder.py:")


def test_an_error_that_was_never_raised_has_no_line() -> None:
    assert described(ValueError(SECRET)).detail == "ValueError"
