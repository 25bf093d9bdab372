"""Records become batches, and positions tell where to continue."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate.errors import Code, RejectedInput
from mirrorgate_bridge.kafka.buffer import (
    MAX_POSITION_CHARACTERS,
    CannotContinue,
    Choices,
    Log,
    Position,
    Record,
    RecordBuffer,
    line_of,
    next_offset,
    producer_name,
    values_as_lines,
)
from mirrorgate_bridge.kafka.settings import BatchSettings, JsonDecoder, RecordRejected, TopicRule

LIMITS = BatchSettings(max_bytes=40, max_messages=5, max_age=0)


def record(offset: int, value: bytes) -> Record:
    return Message(topic="t", partition=0, offset=offset, value=value)


def offsets(records: Sequence[Record]) -> list[int | None]:
    return [one.offset() for one in records]


@given(
    runs=st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 60)), min_size=1), min_size=1),
    kept=st.integers(0, 2),
)
def test_every_record_is_in_one_batch_within_the_limits_however_runs_are_cut(
    runs: list[list[tuple[int, int]]], kept: int
) -> None:
    buffer, added = RecordBuffer(LIMITS), []
    buffer.begin(0)
    for run in runs:
        for gap, size in run:
            added.append(record((added[-1].offset() or 0) + gap if added else gap, b"x" * size))
        buffer.put(added[-len(run) :])
    taken: list[Record] = []
    while buffer.records:
        batch = buffer.take()
        assert batch
        assert len(batch) == 1 or (len(batch) <= 5 and sum(map(len, batch)) <= 40)
        durable = batch[: max(1, len(batch) - kept)]  # the rest is taken again, as after a rejected record
        taken += durable
        buffer.drop_through(durable[-1].offset() or 0)
    assert offsets(taken) == offsets(added)
    assert buffer.bytes == 0
    assert all((one.offset() or 0) < (other.offset() or 0) for one, other in pairwise(taken))


def test_records_before_the_wanted_offset_are_dropped() -> None:
    buffer = RecordBuffer(LIMITS)
    buffer.put([record(1, b"{}")])
    assert buffer.records == 0  # no offset is wanted yet
    buffer.begin(2)
    buffer.put([record(offset, b"{}") for offset in range(4)])
    buffer.put([record(offset, b"{}") for offset in range(5)])
    assert offsets(buffer.take()) == [2, 3, 4]


@pytest.mark.parametrize("source_format", ["arcion", "rows", "replicate"])
@pytest.mark.parametrize("odd", [b'{"n": 2}', b'{"n":\n2}', b'{"n":\r2}', b"", b" ", b'{"operation":"DELETE"}'])
def test_values_pass_unread_only_where_their_lines_would_be_the_same(source_format: str, odd: bytes) -> None:
    rule = TopicRule(topic="t", format=source_format, table="t")
    values = [b'{"n":1}'] * 300 + [odd]
    records = [record(offset, value) for offset, value in enumerate(values)]
    elements = values_as_lines(rule, records)
    declines = not odd.strip() or b"\n" in odd or b"\r" in odd or (source_format == "replicate" and b"DELETE" in odd)
    assert (elements is None) == declines
    if elements is not None:
        assert elements.body == b"\n".join(line_of(rule, JsonDecoder(), "t", one) or b"" for one in records)


@pytest.mark.parametrize("parameters", [{}, {"tombstones": "ignore"}])
def test_a_tombstone_whose_key_is_not_read_is_no_line_and_needs_a_meaning(parameters: dict[str, str]) -> None:
    rule = TopicRule(topic="t", format="debezium", parameters=parameters, key="none")
    tombstone = Message(topic="t", partition=0, offset=0, key=b"5", value=None)
    assert line_of(rule, JsonDecoder("none"), "t", record(1, b"{}")) == b"{}"
    if parameters:
        assert line_of(rule, JsonDecoder("none"), "t", tombstone) is None
        return
    with pytest.raises(RecordRejected, match="may delete a row"):
        line_of(rule, JsonDecoder("none"), "t", tombstone)


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
