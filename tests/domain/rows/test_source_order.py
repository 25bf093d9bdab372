"""Changes by change sequence: new ones are accepted once, the others are counted or rejected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Change, Operation
from app.domain.rows.source_order import in_source_order, order_key
from app.errors import Code
from tests.support.rejections import rejected


def sequence(number: int) -> str:
    return f"{number:035d}"


def changes(*numbers: int | str | None) -> list[Change]:
    """Return one insert per number, a snapshot for None."""
    return [
        Change(
            index,
            Operation.SNAPSHOT if number is None else Operation.INSERT,
            None,
            {},
            "",
            "",
            sequence(number) if isinstance(number, int) else number,
            position_at="/headers/changeSequence",
        )
        for index, number in enumerate(numbers)
    ]


@pytest.mark.parametrize(
    ("numbers", "last", "accepted", "duplicates", "then"),
    [
        ([], None, [], 0, None),
        ([], 4, [], 0, 4),
        ([1, 2, 3], None, [0, 1, 2], 0, 3),
        ([3, 4, 5], 4, [2], 2, 5),
        ([3, 4], 4, [], 2, 4),
        ([5, 5, 6, 6], 4, [0, 2], 2, 6),
        ([None, 5, None], 4, [0, 1, 2], 0, 5),
        ([None], None, [0], 0, None),
    ],
)
def test_each_sequence_is_accepted_once(
    numbers: list[int | str | None], last: int | None, accepted: list[int], duplicates: int, then: int | None
) -> None:
    ordered = in_source_order(changes(*numbers), None if last is None else sequence(last))
    assert [change.index for change in ordered.accepted] == accepted
    assert ordered.duplicates == duplicates
    assert ordered.last == (None if then is None else sequence(then))


@pytest.mark.parametrize("last", [None, 1, 9])
def test_a_request_out_of_order_is_rejected_whole_whatever_was_accepted_before(last: int | None) -> None:
    with rejected() as rejection:
        in_source_order(changes(5, 7, 6, 8, 4), None if last is None else sequence(last))
    assert rejection.places == [(Code.OUT_OF_ORDER, at, "/headers/changeSequence", None) for at in (2, 4)]
    assert rejection.details == ["the change sequence is below that of an earlier change of the request"] * 2


@pytest.mark.parametrize("wrong", ["", "7", "x" * 35, "1" * 36, "٣" * 35])
def test_a_change_of_the_log_needs_its_sequence(wrong: str) -> None:
    with rejected() as rejection:
        in_source_order(changes(1, wrong), None)
    assert rejection.places == [(Code.BAD_SEQUENCE, 1, "/headers/changeSequence", None)]
    assert rejection.details == ["changeSequence must be 35 digits"]


def test_a_change_of_the_log_without_a_sequence_hides_no_later_problem() -> None:
    unnamed = Change(1, Operation.INSERT, None, {}, "", "", position_at="/headers/changeSequence")
    with rejected() as rejection:
        in_source_order([*changes(5), unnamed, *changes(None, None, 4)[2:]], None)
    assert [place[:2] for place in rejection.places] == [(Code.BAD_SEQUENCE, 1), (Code.OUT_OF_ORDER, 2)]


@given(st.lists(st.integers(1, 60), unique=True).map(sorted), st.data())
def test_posting_overlapping_pieces_accepts_every_change_once(numbers: list[int], data: st.DataObject) -> None:
    accepted: list[str | None] = []
    last, end = None, 0
    while end < len(numbers):
        start = data.draw(st.integers(0, end))
        end = data.draw(st.integers(max(end, start + 1), len(numbers)))
        ordered = in_source_order(changes(*numbers[start:end]), last)
        last = ordered.last
        accepted += [change.source_position for change in ordered.accepted]
    assert accepted == [sequence(number) for number in numbers]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.data())
def test_partitions_that_arrive_in_any_interleaving_lose_no_change_and_repeat_none(
    owners: list[int], data: st.DataObject
) -> None:
    """Change n of a task is in partition `owners[n]`; each partition is read in order, with repetitions."""
    queues = {owner: [number for number, of in enumerate(owners) if of == owner] for owner in set(owners)}
    done = dict.fromkeys(queues, 0)
    positions: dict[str, str | None] = {}
    accepted: list[str | None] = []
    while any(done[owner] < len(queue) for owner, queue in queues.items()):
        owner = data.draw(st.sampled_from(sorted(o for o, queue in queues.items() if done[o] < len(queue))))
        start = data.draw(st.integers(0, done[owner]))
        end = data.draw(st.integers(done[owner] + 1, len(queues[owner])))
        key = order_key("srv/task", str(owner))
        ordered = in_source_order(changes(*queues[owner][start:end]), positions.get(key))
        positions[key], done[owner] = ordered.last, end
        accepted += [change.source_position for change in ordered.accepted]
    assert sorted(map(str, accepted)) == [sequence(number) for number in range(len(owners))]


def test_a_task_is_never_taken_for_the_partition_of_another() -> None:
    tasks = ["a", "a b", "a\x1fb", "b", ""]
    of_partitions = {order_key(task, partition) for task in tasks for partition in ("a", "b")}
    assert of_partitions.isdisjoint({order_key(task, None) for task in tasks})


def test_positions_stay_under_the_keys_that_are_stored() -> None:
    assert order_key("srv/task", None) == "srv/task"
    assert order_key("srv/task", "0") == "srv/task\x1f0"
    assert order_key("srv\x1ftask", None) == "srv task"
