"""What a writer decides: each row leaves the queue once and in order, and as one line of JSON that has all of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from math import inf, nan
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate.errors import Code, RejectedInput
from mirrorgate.http import RejectedByGateway
from mirrorgate.producer import ChangeRequest, Patience
from mirrorgate.writer.change_writer import as_row, encode_change, encode_row
from mirrorgate.writer.core import ROW_OVERHEAD_BYTES, Accepted, BufferLimits, Receipt, RowsRejected, WriterCore


def core(*, hands_over: bool = True, **limits: Any) -> WriterCore:
    return WriterCore("rows", {"table": "t"}, BufferLimits(**limits), hands_over=hands_over)


def add(queue: WriterCore, *bodies: bytes, now: float = 0.0) -> None:
    for body in bodies:
        queue.add(body, None, None, now)


def answered(rows: int = 1, sequence: int = 1, table: str = "t") -> dict[str, Any]:
    receipt = {"table": table, "generation": 1, "sequence": sequence, "changes": rows, "rows": rows}
    return {"receipts": [receipt], "ignored": 0, "duplicates": 0, "dead_letters": 0, "replayed": False}


def land(queue: WriterCore, answer: dict[str, Any] | None = None) -> ChangeRequest:
    """Send the next request, which is accepted; return it."""
    request = queue.next_request()
    queue.accept(answer or answered())
    queue.settle()
    return request


def rejected(code: str, *indexes: int, status: int = 422) -> RejectedByGateway:
    problems = [{"index": index, "code": code, "detail": f"row {index}", "pointer": "/id"} for index in indexes]
    return RejectedByGateway({"code": code, "detail": "a row is wrong", "errors": problems}, status)


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, set[int]]:
    kind = draw(st.sampled_from(["accepted", "accepted", "rejected", "too large"]))
    return kind, draw(st.sets(st.integers(0, 5), min_size=1, max_size=3))


@given(
    sizes=st.lists(st.integers(1, 40), max_size=30),
    outcomes=st.lists(answers(), max_size=20),
    request_bytes=st.integers(1, 90),
    request_rows=st.integers(1, 6),
)
def test_each_row_leaves_once_and_in_order_whatever_is_answered(
    sizes: list[int], outcomes: list[tuple[str, set[int]]], request_bytes: int, request_rows: int
) -> None:
    """The rows that are durable, with those that were handed over as rejected, are all that were written."""
    queue = core(request_bytes=request_bytes, request_rows=request_rows)
    bodies = [b"%04d" % number + b"x" * size for number, size in enumerate(sizes)]
    add(queue, *bodies)
    mark = queue.flush()
    landed: list[bytes] = []
    handed_over: list[int] = []
    while queue.settled < mark:
        assert queue.seconds_until_due(0.0) == 0.0
        rows = queue.next_request().body.split(b"\n")
        assert len(rows) == 1 or (len(rows) <= request_rows and sum(len(row) + 1 for row in rows) <= request_bytes)
        kind, indexes = outcomes.pop() if outcomes else ("accepted", set())
        if kind == "accepted":
            assert isinstance(queue.accept(answered()), Accepted)
            landed += rows
        elif kind == "too large":
            handed_over += [row.number for row in queue.reject(rejected("body_too_large", status=413))]
        else:
            wrong = {index % len(rows) for index in indexes}
            handed_over += [row.number for row in queue.reject(rejected("bad_value", *wrong))]
        queue.settle()
    assert landed == sorted(landed)
    assert sorted([*landed, *(bodies[number] for number in handed_over)]) == bodies
    assert len(set(handed_over)) == len(handed_over)
    assert queue.seconds_until_due(0.0) is None


def test_a_request_is_due_by_bytes_rows_age_or_flush() -> None:
    queue = core(request_bytes=10, request_rows=3, max_age=2.0)
    assert queue.seconds_until_due(0.0) is None
    add(queue, b"1", now=5.0)
    assert queue.seconds_until_due(6.0) == 1.0
    add(queue, b"2", b"3", now=6.0)
    assert (queue.is_full(), queue.seconds_until_due(6.0)) == (True, 0.0)
    assert land(queue).body == b"1\n2\n3"
    add(queue, b"1234567890", now=6.0)
    assert queue.seconds_until_due(6.0) == 0.0
    land(queue)
    add(queue, b"5", now=6.0)
    queue.flush()
    assert queue.seconds_until_due(6.0) == 0.0


def test_a_row_waits_for_room_but_a_first_one_never() -> None:
    queue = core(buffer_bytes=2 * ROW_OVERHEAD_BYTES + 10)
    assert queue.has_room(b"x" * 1_000_000)
    add(queue, b"12345")
    assert queue.has_room(b"12345")
    assert not queue.has_room(b"123456")


def test_a_request_has_the_last_position_of_its_rows() -> None:
    queue = core(request_rows=3)
    for position in ("a", "b", None, "c", None):
        queue.add(b"{}", None, position, 0.0)
    assert land(queue).position == "b"
    assert land(queue).position == "c"


def test_receipts_are_summed_by_table_and_generation_until_they_are_taken() -> None:
    queue = core(request_rows=1)
    add(queue, b"{}", b"{}", b"{}")
    for answer in (answered(2, 7), answered(3, 8), answered(1, 1, "u")):
        land(queue, answer)
    assert queue.take_receipts() == (Receipt("t", 1, 8, 5, 5), Receipt("u", 1, 1, 1, 1))
    assert queue.take_receipts() == ()


@pytest.mark.parametrize(("code", "hands_over"), [("bad_value", False), ("unknown_table", True)])
def test_a_rejection_stops_the_writer_unless_the_caller_takes_rows_and_the_others_can_land(
    code: str, hands_over: bool
) -> None:
    queue = core(hands_over=hands_over)
    queue.add(b"{}", "first", None, 0.0)
    queue.add(b"{}", "second", None, 0.0)
    queue.next_request()
    with pytest.raises(RowsRejected) as stopped:
        queue.reject(rejected(code, 1))
    assert (stopped.value.code, stopped.value.unsent) == (code, 2)
    (row,) = stopped.value.rows
    assert (row.handle, row.number, row.index, row.code, row.pointer) == ("second", 1, 1, code, "/id")
    assert str(stopped.value) == f"{code}: row 1: row 1"


def test_a_rejection_that_names_no_row_is_raised_as_it_is() -> None:
    queue = core()
    add(queue, b"{}")
    queue.next_request()
    error = rejected("forbidden", status=403)
    with pytest.raises(RejectedByGateway) as raised:
        queue.reject(error)
    assert raised.value is error


def test_a_row_that_is_too_large_alone_is_rejected_by_its_handle() -> None:
    queue = core(hands_over=False)
    queue.add(b"{}", "large", None, 0.0)
    queue.next_request()
    with pytest.raises(RowsRejected) as stopped:
        queue.reject(rejected("body_too_large", status=413))
    assert stopped.value.rows[0].handle == "large"


@pytest.mark.parametrize(
    "make",
    [
        lambda: BufferLimits(request_bytes=0),
        lambda: BufferLimits(request_rows=0),
        lambda: BufferLimits(buffer_bytes=0),
        *(partial(BufferLimits, max_age=age) for age in (-1, nan, inf)),
        *(partial(Patience, seconds) for seconds in (-1, nan)),
        lambda: WriterCore("rows", {"table": "t", "dry_run": "true"}, BufferLimits(), hands_over=False),
    ],
)
def test_what_a_writer_cannot_carry_out_is_rejected(make: Callable[[], object]) -> None:
    with pytest.raises(RejectedInput, match=Code.BAD_REQUEST):
        make()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@dataclass
class Order:
    id: int
    total: Decimal


@given(row=st.dictionaries(TEXTS, VALUES.filter(lambda value: value not in (float("inf"), float("-inf")))))
def test_a_row_is_one_line_of_the_same_json(row: dict[str, Any]) -> None:
    body = as_row(encode_row(row), "delete")
    assert b"\n" not in body
    assert json.loads(body) == {"__op__": "delete", **row}


@pytest.mark.parametrize(
    ("row", "body"),
    [
        (Order(1, Decimal("9.90")), b'{"id":1,"total":"9.90"}'),
        ({"at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}, b'{"at":"2026-01-02T03:04:05Z"}'),
        ({"day": date(2026, 1, 2), "raw": b"i\xb7\x1d"}, rb'{"day":"2026-01-02","raw":"\\x69b71d"}'),
        ({"raw": memoryview(b""), "all": [b"ab"]}, rb'{"raw":"\\x","all":["YWI="]}'),
        (Order(1, bytearray(b"\xff")), rb'{"id":1,"total":"\\xff"}'),  # type: ignore[arg-type]  # as a program without types does it
        ({"id": UUID(int=1), "n": None}, b'{"id":"00000000-0000-0000-0000-000000000001","n":null}'),
        ({"n": 2**70}, b'{"n":1180591620717411303424}'),
        (MappingProxyType({"n": 1, "raw": b"i"}), rb'{"n":1,"raw":"\\x69"}'),
    ],
)
def test_values_that_json_lacks_become_texts(row: Any, body: bytes) -> None:
    assert encode_row(row) == body


@pytest.mark.parametrize(
    "row",
    [
        {"x": float("nan")},
        {"x": [1.0, float("inf")], "y": None},
        Order(1, float("nan")),  # type: ignore[arg-type]  # as a program without types does it
        {"x": object()},
        {"x": "\ud800"},
        {"x": CYCLE},
    ],
)
def test_a_value_that_cannot_be_written_is_rejected_and_not_shown(row: Any) -> None:
    with pytest.raises(RejectedInput, match=Code.MALFORMED_MESSAGE) as rejected:
        encode_row(row)
    assert "ud800" not in rejected.value.detail


@pytest.mark.parametrize("body", [b"[1]", b"1", b'"x"', b""])
def test_a_row_is_an_object(body: bytes) -> None:
    with pytest.raises(RejectedInput):
        as_row(body, None)


def test_a_message_stays_as_it_was_written_but_for_line_ends() -> None:
    assert encode_change('{"a": 1.50}') == b'{"a": 1.50}'
    assert encode_change(b'{"a": 1.50,\r\n "b": 123456789012345678901234567890}\n') == (
        b'{"a":1.50,"b":123456789012345678901234567890}'
    )
    assert encode_change({"a": None}) == b'{"a":null}'
    assert encode_change(b' {"a": "\\n"} ') == b'{"a": "\\n"}'


@pytest.mark.parametrize(
    "message", [b"{\n", b"{}{}", b"{} 1", b'{"a": "x\ny"}', b'{"a": "\xff"}', '{"a": "\ud800"}', b"", b"x"]
)
def test_a_message_that_is_not_one_value_is_rejected(message: bytes | str) -> None:
    with pytest.raises(RejectedInput, match=Code.MALFORMED_MESSAGE):
        encode_change(message)
