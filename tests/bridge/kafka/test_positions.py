"""Where a partition is read next: the log must continue the position, else the operator chooses."""

from typing import Any

import pytest

from mirrorgate.errors import Code, RejectedInput
from mirrorgate_bridge.kafka.buffer import (
    MAX_POSITION_CHARACTERS,
    CannotContinue,
    Choices,
    Log,
    Position,
    next_offset,
    producer_name,
)


def decide(position: Position, log: Log, accepted: int | None = None) -> int:
    return next_offset(position, log, accepted_partitions=accepted, needs_order=True)


@pytest.mark.parametrize(("low", "high"), [(0, 10), (10, 10), (10, 12)])
def test_a_log_that_has_the_next_offset_continues(low: int, high: int) -> None:
    assert decide(Position(9, "id", 2), Log(low, high, "id", 2)) == 10


@pytest.mark.parametrize(
    ("log", "code", "said"),
    [
        (Log(0, 9, None, 1), Code.SOURCE_POSITION_LOST, "ends at offset 9"),
        (Log(0, 0, "id", 1), Code.SOURCE_POSITION_LOST, "ends at offset 0"),
        (Log(15, 20, "id", 1), Code.SOURCE_POSITION_LOST, "5 offsets from 10 on are deleted"),
        (Log(0, 50, "other", 1), Code.SOURCE_POSITION_LOST, "deleted and created again"),
        (Log(0, 50, "id", 3), Code.SOURCE_ORDER_UNSAFE, "has 3 partitions now and had 1"),
    ],
)
def test_a_log_that_does_not_continue_stops_with_the_choice(log: Log, code: Code, said: str) -> None:
    with pytest.raises(CannotContinue) as caught:
        decide(Position(9, "id", 1), log)
    assert caught.value.code == code
    assert said in caught.value.detail
    assert "--from" in caught.value.remedy or "partitions: 3" in caught.value.remedy


def test_an_accepted_number_of_partitions_continues() -> None:
    assert decide(Position(9, "id", 1), Log(0, 50, "id", 3), accepted=3) == 10


def test_a_position_fits_its_column_and_survives() -> None:
    position = Position(2**62, "A" * 22, 100_000)
    assert len(position.text()) <= MAX_POSITION_CHARACTERS
    assert Position.parse(position.text()) == position
    with pytest.raises(CannotContinue):
        Position.parse("line 7")


def test_a_producers_name_is_short_enough_and_differs_by_topic() -> None:
    assert producer_name("prod", "g", "orders", 3) == "kafka:prod/g/orders/3"
    names = {producer_name("c" * 100, "g" * 100, letter * 249, 10**5) for letter in "ab"}
    assert len(names) == 2
    assert max(map(len, names)) <= 255


def test_choices_name_partitions_and_answer_by_the_log() -> None:
    choices = Choices.parse(["a/0@5"], ["a/1@7", "a/*@latest", "b/0@earliest"])
    log = Log(3, 9, None, 2)
    found: list[Any] = [choices.start(*one, log) for one in (("a", 1), ("a", 0), ("b", 0), ("c", 0))]
    assert found == [7, 9, 3, None]
    assert choices.skips == {("a", 0, 5)}
    for bad in (["a"], ["a/0"], ["a/0@x"]):
        with pytest.raises(RejectedInput):
            Choices.parse(bad, [])
