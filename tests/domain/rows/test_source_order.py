"""Changes by change sequence: new ones are accepted once, the others are counted or rejected."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Change, LogPosition, Operation, log_position, sortable, sortable_file
from app.domain.rows.row_facts import source_times, time_of_number
from app.domain.rows.source_order import OrderedChanges, Reached, in_source_order, order_key
from app.formats.replicate.messages import log_position_of
from mirrorgate.errors import Code
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
            log_position=log_position_of(sequence(number) if isinstance(number, int) else number),
        )
        for index, number in enumerate(numbers)
    ]


def ordered_after(given: list[Change], last: Reached | None, key: str = "") -> OrderedChanges:
    """Order changes of rows that are all alike after those up to `last`."""
    return in_source_order([(key, change) for change in given], {} if last is None else {key: last}, alike)


def alike(given: Sequence[Change]) -> list[str]:
    return ["row"] * len(given)


def reached(number: int | None) -> Reached | None:
    return None if number is None else Reached(sequence(number))


def then(ordered: OrderedChanges, last: Reached | None, key: str = "") -> Reached | None:
    """Return how far the log is accepted afterwards."""
    for advance in ordered.advances({} if last is None else {key: last}, alike):
        assert advance.key == key
        assert advance.follows(last)
        return advance.to if last is None else last.then(advance.to)
    return last


@pytest.mark.parametrize(
    ("numbers", "last", "accepted", "duplicates", "afterwards"),
    [
        ([], None, [], 0, None),
        ([], 4, [], 0, 4),
        ([1, 2, 3], None, [0, 1, 2], 0, 3),
        ([3, 4, 5], 4, [2], 2, 5),
        ([3, 4], 4, [], 2, 4),
        ([5, 5, 6, 6], 4, [0, 2], 2, 6),
        ([None, 5, None], 4, [0, 1, 2], 0, 5),
        ([None], None, [0], 0, None),
        ([5, 7, 6, 8, 4], 9, [], 5, 9),
        ([1, 2, 3, 2, 3, 4], None, [0, 1, 2, 5], 2, 4),
    ],
)
def test_each_sequence_is_accepted_once(
    numbers: list[int | str | None], last: int | None, accepted: list[int], duplicates: int, afterwards: int | None
) -> None:
    ordered = ordered_after(changes(*numbers), reached(last))
    assert [change.index for change in ordered.accepted] == accepted
    assert ordered.duplicates == duplicates
    assert then(ordered, reached(last)) == reached(afterwards)


@pytest.mark.parametrize("last", [None, 1, 3])
def test_a_request_out_of_order_is_rejected_whole_unless_it_repeats(last: int | None) -> None:
    with rejected(places=[(Code.OUT_OF_ORDER, at, "/headers/changeSequence", None) for at in (2, 4)]) as rejection:
        ordered_after(changes(5, 7, 6, 8, 4), reached(last))
    assert rejection.details == ["the position of the change is below that of an earlier change of the request"] * 2


@pytest.mark.parametrize("wrong", ["", "7", "x" * 35, "1" * 36, "٣" * 35])
def test_a_change_of_the_log_needs_its_sequence(wrong: str) -> None:
    with rejected(places=[(Code.BAD_SEQUENCE, 1, "/headers/changeSequence", None)]) as rejection:
        ordered_after(changes(1, wrong), None)
    assert rejection.details == ["the change has no position that can be compared with others of its source"]


def test_a_change_of_the_log_without_a_sequence_hides_no_later_problem() -> None:
    unnamed = Change(1, Operation.INSERT, None, {}, "", "", position_at="/headers/changeSequence")
    with rejected() as rejection:
        ordered_after([*changes(5), unnamed, *changes(None, None, 4)[2:]], None)
    assert [place[:2] for place in rejection.places] == [(Code.BAD_SEQUENCE, 1), (Code.OUT_OF_ORDER, 2)]


@given(st.lists(st.integers(1, 60), unique=True).map(sorted), st.data())
def test_posting_overlapping_pieces_accepts_every_change_once(numbers: list[int], data: st.DataObject) -> None:
    accepted: list[str | None] = []
    last: Reached | None = None
    end = 0
    while end < len(numbers):
        start = data.draw(st.integers(0, end))
        end = data.draw(st.integers(max(end, start + 1), len(numbers)))
        ordered = ordered_after(changes(*numbers[start:end]), last)
        last = then(ordered, last)
        accepted += [change.source_position for change in ordered.accepted]
    assert accepted == [sequence(number) for number in numbers]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.data())
def test_partitions_that_arrive_in_any_interleaving_lose_no_change_and_repeat_none(
    owners: list[int], data: st.DataObject
) -> None:
    """Change n of a task is in partition `owners[n]`; each partition is read in order, with repetitions."""
    queues = {owner: [number for number, of in enumerate(owners) if of == owner] for owner in set(owners)}
    done = dict.fromkeys(queues, 0)
    positions: dict[str, Reached | None] = {}
    accepted: list[str | None] = []
    while any(done[owner] < len(queue) for owner, queue in queues.items()):
        owner = data.draw(st.sampled_from(sorted(o for o, queue in queues.items() if done[o] < len(queue))))
        start = data.draw(st.integers(0, done[owner]))
        end = data.draw(st.integers(done[owner] + 1, len(queues[owner])))
        key = order_key("srv/task", str(owner))
        ordered = ordered_after(changes(*queues[owner][start:end]), positions.get(key), key)
        positions[key], done[owner] = then(ordered, positions.get(key), key), end
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


def at(position: str, row: int, *, unclear: int = 0, time: int | None = None) -> Change:
    """Return a change of a row at a position of a log."""
    where = LogPosition("log", position, shared=True, unclear=unclear)
    return Change(row, Operation.INSERT, None, {"id": row}, "", "", log_position=where, source_time=time)


def by_row(given: Sequence[Change]) -> list[str]:
    return [str(change.index) for change in given]


def lands(given: list[Change], last: Reached | None) -> tuple[list[int], Reached | None]:
    """Return the accepted rows, and how far the log is accepted then."""
    before = {} if last is None else {"log": last}
    ordered = in_source_order([("", change) for change in given], before, by_row)
    for advance in ordered.advances(before, by_row):
        last = advance.to if last is None else last.then(advance.to)
    return [change.index for change in ordered.accepted], last


def test_changes_that_share_a_position_are_told_apart_by_their_rows() -> None:
    """The rows of one COPY have one LSN; a request can end among them."""
    accepted, last = lands([at("1", 0), at("2", 1), at("2", 2)], None)
    assert accepted == [0, 1, 2]
    assert lands([at("2", 2), at("2", 3), at("3", 4)], last)[0] == [3, 4]
    assert lands([at("2", 1), at("2", 2)], last)[0] == []


def test_rows_at_the_last_position_stay_known_while_it_is_the_last() -> None:
    _, last = lands([at("1", 0)], None)
    _, last = lands([at("1", 1)], last)
    assert lands([at("1", 0), at("1", 1), at("1", 2)], last)[0] == [2]


def test_a_log_that_begins_again_is_told_and_not_taken_for_a_repeat() -> None:
    _, last = lands([at("7", 0, time=1_700_000_000)], None)
    assert last == Reached("7", frozenset({"0"}), datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))
    with rejected() as rejection:
        lands([at("1", 1, time=1_700_000_001)], last)
    assert [place[0] for place in rejection.places] == [Code.POSITION_RESTARTED]
    assert lands([at("1", 1, time=1_700_000_000)], last)[0] == []


def test_where_the_order_is_unclear_a_change_lands_again_rather_than_never() -> None:
    """Two transactions of Oracle can have one commit SCN, and the second one lower SCNs."""
    _, last = lands([at("30:20", 0, unclear=2)], None)
    assert lands([at("30:05", 1, unclear=2)], last)[0] == [1]
    assert lands([at("29:99", 2, unclear=2)], last)[0] == []


def test_a_batch_follows_only_positions_below_its_own_or_those_it_was_compared_with() -> None:
    _, seen = lands([at("2", 0)], None)
    assert seen is not None
    [advance] = in_source_order([("", at("2", 1))], {"log": seen}, by_row).advances({"log": seen}, by_row)
    assert [advance.follows(one) for one in (None, Reached("1"), seen, Reached("2"), Reached("3"))] == [
        *(True, True, True, False, False)
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7".zfill(20)),
        ("0012", "12".zfill(20)),
        ("16/B374D848", f"{0x16:020}{0xB374D848:020}"),
        ("0000002a:00000d30:0001", f"{0x2A:020}{0xD30:020}{1:020}"),
        (True, None),
        (-1, None),
        (1.5, None),
        ("x", None),
        ("1" * 21, None),
        (None, None),
    ],
)
def test_numbers_of_logs_become_texts_that_sort(value: object, text: str | None) -> None:
    assert sortable(value) == text


def test_a_log_file_sorts_by_its_number() -> None:
    assert sortable_file("log-bin.000010") == ("log-bin", "10".zfill(20))
    assert [sortable_file(name) for name in ("log-bin", ".5", None)] == [None, None, None]


def test_the_name_of_a_log_is_bounded_and_has_no_separator() -> None:
    [one, other] = [log_position(("x" * 1_000, end), "1") for end in "ab"]
    assert one is not None
    assert other is not None
    assert one.log != other.log
    assert len(one.log.encode()) < 512
    assert log_position(("a\x1fb", None), "1") == LogPosition("a b ", "1", shared=True)
    assert log_position(("a",), "1", None) is None


@given(st.integers(-(10**18) + 1, 10**18 - 1))
def test_one_number_is_read_as_the_time_that_it_is_among_others(number: int) -> None:
    assert time_of_number(number) == source_times([number])[0].as_py()
