"""Columnar reading of Debezium's envelopes: what is cut out, what is declined, and how columns are read."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

from app.domain.model.change import Operation
from app.domain.model.names import ROW_MARKER
from app.domain.model.table_options import DEFAULT_OPTIONS
from app.domain.model.table_schema import Column, ColumnType
from app.domain.rows.conversion import BadValues, ValueReading, convert
from app.domain.rows.landing_rows import LandingRows, landing_rows, landing_rows_of_shaped
from app.domain.rows.row_rules import RowMarker, RowRules
from app.formats.columnar import NotColumnar
from app.formats.debezium.columnar_events import EventBody, decode_events
from app.formats.debezium.columnar_images import EventReader, reader_of_columns, typing_of_columns
from app.formats.debezium.columnar_schemas import cut_schemas
from app.formats.debezium.connect_schema import ConnectField, read_schema, wanted_schema
from app.formats.debezium.events import EventForm, form_of, may_be_event, unwrap
from app.formats.debezium.messages import RecordReader
from app.formats.debezium.records import decode_debezium, row_schema
from app.formats.debezium.values import DebeziumReading, field_reader
from app.formats.json.texts import is_record
from mirrorgate.errors import RejectedInput
from tests.support.samples.debezium import Field, Message, event, key_with_schema, keyed, with_schema
from tests.support.samples.schemas import active_table, schema_of

ROW = {"id": 1, "note": 'a "schema":{} "payload":'}
COLUMNS = {"id": "int64", "note": "string"}
SEPARATORS = [(",", ":"), (", ", ": ")]


def body(*messages: Any, separators: tuple[str, str] = (",", ":")) -> bytes:
    return json.dumps(messages, separators=separators).encode()


def decoded(*messages: Any, keyed: bool | None = None) -> EventBody:
    return decode_events(body(*messages), keyed)


@pytest.mark.parametrize("separators", SEPARATORS)
def test_schemas_are_cut_out_of_events_and_keys(separators: tuple[str, str]) -> None:
    records = [
        keyed(key_with_schema({"id": at}, {"id": "int64"}), with_schema(event("c", "t", after=ROW), COLUMNS))
        for at in range(3)
    ]
    cut = cut_schemas(body(*records, separators=separators))
    assert [schema.meaning for schema in cut.schemas] == ["srv.Key", "srv.Envelope"]
    assert cut.cuts == 6
    for at, record in enumerate(json.loads(cut.content)):
        key, value = record["key"], record["value"]
        assert (key["payload"], value["payload"]) == ({"id": at}, event("c", "t", after=ROW))
        assert [cut.schema_of(part["schema"]) for part in (key, value)] == cut.schemas


def test_events_of_several_tables_and_schemas_are_told_apart() -> None:
    found = decoded(
        with_schema(event("c", "s.a", after=ROW), COLUMNS),
        with_schema(event("c", "s.b", after=ROW), COLUMNS),
        with_schema(event("u", "s.a", after=ROW, lsn=7), COLUMNS),
        {"schema": None, "payload": None},
        with_schema(event("c", "s.a", after={"id": 1}), {"id": "int64"}),
    )
    assert [str(part.source) for part in found.parts] == ["s.a", "s.b", "s.a"]
    assert [part.columns.operations for part in found.parts] == [
        [Operation.INSERT, Operation.UPDATE],
        [Operation.INSERT],
        [Operation.INSERT],
    ]
    assert [part.columns.position for part in found.parts] == ["lsn=7", "lsn=24023128", "lsn=24023128"]
    assert (found.messages, found.ignored) == (5, 1)


@pytest.mark.parametrize(
    ("tables", "parts"),
    [
        (["s.t", "s.t", "s.t"], ["s.t"]),
        (["s.t1", "s.t2", "s.t1"], ["s.t1", "s.t2"]),
        (["s1.t", "s2.t", "s1.t"], ["s1.t", "s2.t"]),
        (["s.t", "s.t1", "s.t"], ["s.t", "s.t1"]),
    ],
)
def test_names_that_differ_in_digits_are_told_apart(tables: list[str], parts: list[str]) -> None:
    found = decoded(*(event("c", table, after=ROW, lsn=at) for at, table in enumerate(tables, 10)))
    assert [str(part.source) for part in found.parts] == parts
    assert found.parts[0].columns.position == "lsn=12"


def test_flattened_rows_say_their_table_and_operation() -> None:
    told = {"__schema": "s", "__table": "t", "__lsn": 7}
    found = decoded(
        ROW | told | {"__op": "c"},
        ROW | told,
        ROW | told | {"__op": "u", "__deleted": "true", "__lsn": 9},
        ROW | told | {"__table": "t2", "__op": "t"},
    )
    assert [str(part.source) for part in found.parts] == ["s.t", "s.t2"]
    first, second = (part.columns for part in found.parts)
    assert (first.operations, first.position) == ([Operation.INSERT, Operation.MERGE, Operation.DELETE], "lsn=9")
    assert [image is UNSET for image in first.before] == [True, True, False]
    assert second.operations == [None]
    assert (found.parts[0].added, found.marks_deletes) == (("__schema", "__table", "__lsn", "__op"), True)
    assert first.facts().positions == ["lsn=7", "lsn=7", "lsn=9"]


def test_a_time_that_may_be_minus_zero_is_left_to_the_exact_path() -> None:
    times = {"__source_ts_us": 0, "__ts_us": 7, "__source_ts_ms": 1767605400000}
    plain = body(ROW | times | {"__op": "c", "__table": "t"})
    assert decode_events(plain, None).parts[0].columns.facts().times == [0]
    with pytest.raises(NotColumnar):
        decode_events(plain.replace(b'"__source_ts_us":0', b'"__source_ts_us":-0'), None)


@pytest.mark.parametrize("added", [[], [[]], {}, 1.5])
def test_an_added_field_that_is_no_scalar_is_left_to_the_exact_path(added: Any) -> None:
    table = active_table(schema_of(COLUMNS, ("id",)), name="s.t")
    told = {"__op": "c", "__table": "t"}

    def read(value: Any) -> Sequence[Any]:
        [part] = decoded(ROW | told | {"__source_x": value}).parts
        return EventReader(table, None, DebeziumReading(), part.added).read([part.columns])

    assert len(read("x")[0].shapes) == 1
    with pytest.raises(NotColumnar):
        read(added)


TELLING_KEYS = ["op", "before", "source", "ts_ms", "ddl", "databaseName", "status", "id", "type", "aggregate_type"]
OTHER_KEYS = ["specversion", "data", "schema", "payload", "key", "value", "__op", "timestamp", "name"]


@given(st.dictionaries(st.sampled_from(TELLING_KEYS + OTHER_KEYS), st.sampled_from([None, 1, "BEGIN", {}]), min_size=1))
def test_a_row_that_may_be_no_other_event_is_none(row: dict[str, Any]) -> None:
    columns = [name for name in row if not name.startswith("__")]
    if not may_be_event(columns):
        assert form_of(row, None) is EventForm.FLATTENED
        assert unwrap(row) == (row, None, "")
        assert not is_record(row)


PLAIN = with_schema(event("c", "t", after=ROW), COLUMNS)
ODD_BODIES = {
    "a number": body({"schema": 0, "payload": PLAIN["payload"]}),
    "a number beside a schema": body(PLAIN, {"schema": 0, "payload": PLAIN["payload"]}),
    "a schema in a source": body(event("c", "t", after=ROW) | {"source": PLAIN | {"table": "t"}}),
    "a schema in an image, and a number": body({"schema": 0, "payload": event("c", "t", after={"id": 1, **PLAIN})}),
    "a schema behind its payload": json.dumps([PLAIN], sort_keys=True).encode(),
    "a key of a schema twice": body(PLAIN).replace(b'"name":"srv.Envelope"', b'"name":"","name":"srv.Envelope"'),
    "a schema without a type": body({"schema": {"name": "x"}, "payload": PLAIN["payload"]}),
    "a kind that is no text": body({"schema": {"type": {}}, "payload": PLAIN["payload"]}),
    "U+0000 in a schema": body(PLAIN).replace(b"srv.Envelope", b"srv\\u0000"),
    "a heartbeat": body({"schema": PLAIN["schema"] | {"name": "io.debezium.connector.common.Heartbeat"}, "payload": 1}),
    "a key of an event twice": body(PLAIN).replace(b'"op":"c"', b'"op":"u","op":"c"'),
    "an unknown key of a source": body(event("c", "t", after=ROW, unknown=1)),
    "an unknown key of a source that differs in a digit": body(
        *(event("c", "t", after=ROW, **{key: 1}) for key in ("lsn", "lsn1"))
    ),
    "a zero that may be -0": body(event("c", "t", after=ROW, lsn=0)).replace(b'"lsn":0', b'"lsn":-0'),
    "a document": body(event("c", "t", after=ROW, connector="mongodb")),
    "a document behind a row": body(*(event("c", "t", after=ROW, connector=of) for of in ("mongodb1", "mongodb"))),
    "a document with an escape": body(event("c", "t", after=ROW, connector="mongodb")).replace(
        b"mongo", b"\\u006dongo"
    ),
    "keys and none": body(PLAIN, keyed({"id": 1}, PLAIN)),
    "nothing": body(None),
}


@pytest.mark.parametrize("odd", ODD_BODIES.values(), ids=ODD_BODIES)
def test_an_unusual_body_is_declined(odd: bytes) -> None:
    with pytest.raises(NotColumnar):
        decode_events(odd, None)


NUMBER = json.loads(cut_schemas(body(PLAIN)).content)[0]["schema"]
ROW_WITH_SCHEMA = {"id": 2, "schema": {"type": "string"}, "payload": "b"}


@pytest.mark.parametrize("number", [0, 1, NUMBER - 1, NUMBER, NUMBER + 1, -NUMBER])
def test_no_written_number_makes_up_for_a_schema_in_an_image(number: int) -> None:
    changed = event("c", "t", after=ROW_WITH_SCHEMA)
    for written in (
        body({"schema": number, "payload": changed}),
        body(keyed({"schema": number, "payload": {"id": 2}}, {"schema": None, "payload": changed})),
        body(keyed({"schema": number, "payload": {"id": 2}}, changed)),
        body({"schema": number, "payload": ROW_WITH_SCHEMA | {"__table": "t"}}),
        body({"schema": number, "payload": None}, {"schema": None, "payload": changed}),
    ):
        with pytest.raises(NotColumnar):
            decode_events(written, None)


@pytest.mark.parametrize("is_keyed", [True, False])
def test_the_parameter_keyed_settles_what_an_element_is(*, is_keyed: bool) -> None:
    element = keyed({"id": 1}, PLAIN) if is_keyed else PLAIN
    assert decoded(element).parts
    assert decoded(element, keyed=is_keyed).parts
    with pytest.raises(NotColumnar):
        decoded(element, keyed=not is_keyed)


def test_a_schema_with_an_exponent_in_a_default_is_read() -> None:
    written = {"type": "double", "default": 0.5}
    assert decoded(with_schema(event("c", "t", after=ROW), COLUMNS | {"x": written})).parts
    assert read_schema(json.loads('{"type":"double","default":1e-7}')).kind == "double"


INSTANTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), timezones=st.just(UTC))
NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**70), 2**70) | st.integers(-3, 3)
ODD_TEXTS = st.sampled_from(["", "AA", "é", 1, "1", None])
BASE64 = ODD_TEXTS | st.binary(max_size=12).map(lambda content: b64encode(content).decode())


TYPED_AT_ONCE = {"date", "timestamp", "decimal(12,2)", "decimal(20,4)", "decimal(12,9)"}


def _field(meaning: str, kind: str, **parameters: str) -> ConnectField:
    return ConnectField("x", kind, meaning, True, parameters=parameters)


@pytest.mark.parametrize(
    ("field", "declared"),
    [
        (_field("io.debezium.time.Date", "int32"), "date"),
        (_field("io.debezium.time.Timestamp", "int64"), "timestamp"),
        (_field("io.debezium.time.MicroTimestamp", "int64"), "timestamp"),
        (_field("io.debezium.time.NanoTimestamp", "int64"), "timestamp"),
        (_field("io.debezium.time.MicroTime", "int64"), "string"),
        (_field("org.apache.kafka.connect.data.Decimal", "bytes", scale="2"), "decimal(12,2)"),
        (_field("org.apache.kafka.connect.data.Decimal", "bytes", scale="2"), "decimal(20,4)"),
        (_field("org.apache.kafka.connect.data.Decimal", "bytes", scale="2"), "decimal(12,1)"),
        (_field("org.apache.kafka.connect.data.Decimal", "bytes", scale="9"), "decimal(12,9)"),
        (_field("org.apache.kafka.connect.data.Decimal", "bytes", scale="-2"), "decimal(12,0)"),
        (_field("", "bytes"), "binary"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@given(data=st.data())
def test_a_column_is_read_as_its_values_are(field: ConnectField, declared: str, data: st.DataObject) -> None:
    column = Column("x", ColumnType.parse(declared), True)
    read = field_reader(field, column, DEFAULT_OPTIONS)
    moments = INSTANTS.map(lambda moment: round(moment.timestamp() * 1_000) * data.draw(st.sampled_from([1, 1_000])))
    value = NUMBERS | moments if field.kind != "bytes" else BASE64
    values: Sequence[Any] = data.draw(st.lists(value, max_size=4))
    one_by_one = _answer(lambda: [None if value is None else read(value) for value in values])
    assert _answer(lambda: reader_of_columns(field, read)(values)) == one_by_one
    reading = ValueReading(data.draw(st.sampled_from(["UTC", "Europe/Berlin"])), saturates=data.draw(st.booleans()))
    type_column = typing_of_columns(field, column, read, reading)
    assert (type_column is not None) is (declared in TYPED_AT_ONCE)
    if type_column is not None:
        rejected = one_by_one == "rejected"
        typed = "rejected" if rejected else _answer(lambda: convert(one_by_one, column.type, reading))
        assert _answer(lambda: type_column(values)) == typed


@pytest.mark.parametrize(("size", "expected"), [(1_024, ["0.00", None]), (1_025, "rejected")])
def test_a_decimal_has_as_many_bytes_as_values_alone_may_have(size: int, expected: Any) -> None:
    field = _field("org.apache.kafka.connect.data.Decimal", "bytes", scale="2")
    column = Column("x", ColumnType.parse("decimal(12,2)"), True)
    read = field_reader(field, column, DEFAULT_OPTIONS)
    type_column = typing_of_columns(field, column, read, ValueReading("UTC"))
    values = [b64encode(bytes(size)).decode(), None]
    assert _answer(lambda: reader_of_columns(field, read)(values)) == expected
    typed = _answer(lambda: type_column(values).cast("string").to_pylist())
    assert typed == expected


def _answer(call: Any) -> Any:
    try:
        return [*call()]
    except (ValueError, BadValues):
        return "rejected"


KEYED_COLUMNS: Final[Mapping[str, Field]] = {
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
KEYED_ROW: Final = row_schema(read_schema(with_schema(None, KEYED_COLUMNS)["schema"]))


TABLE: Final = active_table(replace(wanted_schema(KEYED_ROW.fields, ("id",), None), bare=False), name="s.t")
READER: Final = EventReader(TABLE, KEYED_ROW, READING)
Event = tuple[str, Message | None, Message | None]


def row(key: int, cents: int = 0, micros: int = 0, day: int = 0) -> Message:
    return {"id": key, "amount": b64encode(cents.to_bytes(2, "big")).decode(), "at": micros, "on": day}


def body_of_moves(events: Sequence[Event]) -> bytes:
    return json.dumps([with_schema(event(op, "s.t", old, new), KEYED_COLUMNS) for op, old, new in events]).encode()


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
    contents = [*map(body_of_moves, requests)]
    found = columnar(*contents)
    assert found is None or [rows.batch for rows in found] == [rows and rows.batch for rows in map(exact, contents)]


def test_a_row_that_moves_alone_is_read_at_once() -> None:
    found = columnar(body_of_moves([("c", None, row(9, 9_000)), ("u", row(1, 1_000), row(2, 1_000))]))
    assert _landed(found[0]) == [(9, RowMarker.INSERT), (1, RowMarker.DELETE), (2, RowMarker.INSERT)]


def test_two_rows_that_moved_at_once_both_land() -> None:
    rows = exact(body_of_moves(TWO_ROWS_MOVED_AT_ONCE))
    deletes, inserts = [(1, RowMarker.DELETE), (2, RowMarker.DELETE)], [2, 9, 3]
    assert _landed(rows) == [*deletes, *((key, RowMarker.INSERT) for key in inserts)]


def _landed(rows: LandingRows) -> list[tuple[Any, Any]]:
    return [(each["id"], each[ROW_MARKER]) for each in rows.batch.to_pylist()]
