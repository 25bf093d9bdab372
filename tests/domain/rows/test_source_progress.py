"""What changes say of how far their source is."""

import pytest

from app.domain.model.change import PROVEN_CHANGES, Counted, OperationCounts, SourceTime, progress, seconds_of
from app.domain.rows.row_facts import source_times


@pytest.mark.parametrize(
    "time",
    [
        1_767_323_045,
        1_767_323_045_678,
        1_767_323_045_678_901,
        1_767_323_045_678_901_234,
        "1767323045678",
        "2026-01-02T03:04:05.678",
        "2026-01-02 03:04:05",
        "2026-01-02T03:04:05.678+02:00",
        "2026-01-02T03:04:05Z",
        0,
        None,
        "",
        "soon",
        "--5",
        10**400,
    ],
)
def test_a_time_is_the_one_of_the_audit_column(time: SourceTime) -> None:
    [expected] = source_times([time]).to_pylist()
    seconds = seconds_of(time)
    assert (seconds is None) == (expected is None)
    if seconds is not None:
        assert seconds == pytest.approx(expected.timestamp(), abs=1e-4)


def test_the_difference_between_query_and_extraction_timestamp_is_a_lag() -> None:
    """arcion-17: "You can consider the difference between the query timestamp and the extraction timestamp as a lag."""
    assert progress(1_657_516_903_000, 1_657_516_904_088).extraction_seconds == pytest.approx(1.088)
    assert progress(1_657_516_903_000, None).extraction_seconds is None
    assert progress(None, 1_657_516_904_088).extraction_seconds is None


PROVEN = Counted(1_000, PROVEN_CHANGES)


def then(counted: Counted, *requests: tuple[int, int, int]) -> Counted:
    for first, last, messages in requests:
        counted = counted.then(OperationCounts(first, last, messages))
    return counted


def test_operationcount_counts_the_events_that_replicant_has_processed() -> None:
    """A jump by more than the messages received means that messages are missing."""
    assert then(PROVEN, (1_001, 1_010, 10)) == Counted(1_010, PROVEN_CHANGES)
    assert then(PROVEN, (1_004, 1_010, 7)) == Counted(1_010, 7, 3)
    assert then(PROVEN, (1_001, 1_010, 8)) == Counted(1_010, 0, 2)


def test_a_jump_counts_only_once_the_counts_are_proven_to_be_those_of_the_table() -> None:
    assert then(Counted(), (31, 31, 1), (35, 36, 2)) == Counted(36, 2)
    assert then(Counted(), (1, PROVEN_CHANGES, PROVEN_CHANGES), (200, 200, 1)).missing == 199 - PROVEN_CHANGES
    assert then(Counted(500, PROVEN_CHANGES - 1), (502, 502, 1)).missing == 0


def test_what_was_counted_before_is_a_repeat() -> None:
    assert then(PROVEN, (900, 950, 51)) == PROVEN
    assert then(PROVEN, (990, 1_005, 16)) == Counted(1_005, PROVEN_CHANGES)


def test_a_count_of_one_begins_again() -> None:
    assert then(PROVEN, (1, 3, 3), (4, 4, 1)) == Counted(4, 4)


def test_counts_that_do_not_grow_with_the_messages_prove_nothing() -> None:
    assert then(PROVEN, (1_001, 1_001, 3)) == Counted(1_001, 0)
    assert then(PROVEN, (1_010, 1_003, 3)) == Counted(1_003, 0)
