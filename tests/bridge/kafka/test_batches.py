"""Batches of a partition's records, and the bodies that they become, without a cluster or gateway."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate_bridge.kafka.buffer import Record, RecordBuffer, line_of, values_as_lines
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
