"""Updates that change keys: both paths land the same rows in the same order, also of values that kernels type."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.model.names import ROW_MARKER
from app.domain.rows.landing_rows import LandingRows, landing_rows, landing_rows_of_shaped
from app.domain.rows.row_rules import RowMarker, RowRules
from app.formats.debezium.columnar_events import decode_events
from app.formats.debezium.columnar_images import EventReader
from app.formats.debezium.connect_schema import read_schema, wanted_schema
from app.formats.debezium.messages import RecordReader
from app.formats.debezium.records import decode_debezium, row_schema
from app.formats.debezium.values import DebeziumReading
from mirrorgate.errors import RejectedInput
from tests.support.samples.debezium import Field, Message, event, with_schema
from tests.support.samples.schemas import active_table

COLUMNS: Final[Mapping[str, Field]] = {
    "id": {"type": "int64", "optional": False},
    "amount": {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "9"},
    },
    "at": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    "on": {"type": "int32", "name": "io.debezium.time.Date"},
}
READING: Final = DebeziumReading()
ROW: Final = row_schema(read_schema(with_schema(None, COLUMNS)["schema"]))


TABLE: Final = active_table(replace(wanted_schema(ROW.fields, ("id",), None), bare=False), name="s.t")
READER: Final = EventReader(TABLE, ROW, READING)
Event = tuple[str, Message | None, Message | None]


def row(key: int, cents: int = 0, micros: int = 0, day: int = 0) -> Message:
    return {"id": key, "amount": b64encode(cents.to_bytes(2, "big")).decode(), "at": micros, "on": day}


def body(events: Sequence[Event]) -> bytes:
    return json.dumps([with_schema(event(op, "s.t", old, new), COLUMNS) for op, old, new in events]).encode()


def exact(content: bytes) -> LandingRows | None:
    reader = RecordReader(TABLE, READING)
    try:
        changes = [reader.change(record) for record in decode_debezium(content, READING).records]
        return landing_rows(changes, RowRules.of(TABLE))
    except RejectedInput:
        return None


def columnar(*contents: bytes) -> Sequence[LandingRows] | None:
    parts = [part.columns for content in contents for part in decode_events(content, None).parts]
    return landing_rows_of_shaped(READER.read(parts), RowRules.of(TABLE))


ROWS: Final = st.builds(row, st.integers(1, 4), st.integers(0, 2), st.integers(0, 1), st.integers(0, 1))
MOVES: Final = st.tuples(st.integers(1, 4), st.integers(1, 4), ROWS).map(
    lambda drawn: ("u", {**drawn[2], "id": drawn[0]}, {**drawn[2], "id": drawn[1]})
)
EVENTS: Final[st.SearchStrategy[Event]] = st.one_of(
    MOVES,
    st.tuples(st.just("u"), ROWS, ROWS),
    st.tuples(st.just("c"), st.none(), ROWS),
    st.tuples(st.just("d"), ROWS, st.none()),
)
TWO_ROWS_MOVED_AT_ONCE: Final[list[Event]] = [
    ("u", row(1, 1_000), row(2, 1_000)),
    ("c", None, row(9, 9_000)),
    ("u", row(2, 2_000), row(3, 2_000)),
]


@given(st.lists(st.lists(EVENTS, min_size=1, max_size=6), min_size=1, max_size=2))
@example([TWO_ROWS_MOVED_AT_ONCE])
@example([TWO_ROWS_MOVED_AT_ONCE[:2], TWO_ROWS_MOVED_AT_ONCE[2:]])
def test_events_that_change_keys_land_as_on_the_exact_path_or_are_declined(requests: list[list[Event]]) -> None:
    contents = [*map(body, requests)]
    found = columnar(*contents)
    assert found is None or [rows.batch for rows in found] == [rows and rows.batch for rows in map(exact, contents)]


def test_a_row_that_moves_alone_is_read_at_once() -> None:
    found = columnar(body([("c", None, row(9, 9_000)), ("u", row(1, 1_000), row(2, 1_000))]))
    assert _landed(found[0]) == [(9, RowMarker.INSERT), (1, RowMarker.DELETE), (2, RowMarker.INSERT)]


def test_two_rows_that_moved_at_once_both_land() -> None:
    rows = exact(body(TWO_ROWS_MOVED_AT_ONCE))
    deletes, inserts = [(1, RowMarker.DELETE), (2, RowMarker.DELETE)], [2, 9, 3]
    assert _landed(rows) == [*deletes, *((key, RowMarker.INSERT) for key in inserts)]


def _landed(rows: LandingRows) -> list[tuple[Any, Any]]:
    return [(each["id"], each[ROW_MARKER]) for each in rows.batch.to_pylist()]
