"""Columnar reading of Replicate bodies gives the changes of the exact path, and accepts nothing that it rejects."""

import json
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.model.table_options import PartialUpdates, TableOptions
from app.domain.rows.row_layout import RowRules
from app.formats.replicate.columnar import decode_data_messages
from app.formats.replicate.columnar_images import ImageReader
from app.formats.replicate.history import SourceVersion
from app.formats.replicate.messages import decode_replicate
from tests.support.columnar_replicate import check_agreement, read_columnar, read_or_none
from tests.support.samples.messages import Message, metadata

COLUMNS = {
    "id": "INT8",
    "tiny": "INT1",
    "name": "WSTRING",
    "é": "NCLOB",
    "real": "REAL8",
    "big": "UINT8",
    "on": "BOOLEAN",
}
ENTRY = decode_replicate(json.dumps(metadata("s.t", COLUMNS, schema_id="f1")).encode()).metadata[0]
VERSION = SourceVersion.of(ENTRY)
RULES = RowRules(ENTRY.schema)
COMPLETING = RowRules(ENTRY.schema, TableOptions(partial_updates=PartialUpdates.COMPLETE))
EXCLUDING = RowRules(ENTRY.schema, TableOptions(exclude=("tiny", "gone")))
ROW = {"id": 1, "tiny": 2, "name": "a", "é": None, "real": 0.5, "big": "3", "on": True}
FULL_MASK = "7F"

TEXTS = st.sampled_from(["", "a", "null", 'a " : {', "\\", '\\"', "ä", "\u2028", "\U0001f600", '","id":"3', "null}"])
VALUES = {
    "id": st.integers(-(2**63), 2**63 - 1) | st.sampled_from(["1", True, 1.0, 2**70, None]),
    "tiny": st.integers(-130, 130) | st.sampled_from(["7", "300", None]),
    "name": TEXTS | st.sampled_from([None, 5, 1e30, False]),
    "é": TEXTS | st.none(),
    "real": st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([-0.0, 0, "1.5", None]),
    "big": st.sampled_from(["0", "18446744073709551615", "18446744073709551616", 5, None, "x"]),
    "on": st.booleans() | st.sampled_from([0, "1", None]),
}
MASKS = st.sampled_from([None, None, "", FULL_MASK, "007f", "01", "04", "FE", "7E", "FF", "100", "x"])
SCALARS = st.sampled_from([None, 1, "x", "", True, False, "false", 'quo"ted'])


@st.composite
def images(draw: st.DrawFn) -> Any:
    """Draw an image that is mostly whole."""
    image = {name: draw(values) for name, values in VALUES.items()} if draw(st.booleans()) else dict(ROW)
    for name in draw(st.sets(st.sampled_from(sorted(ROW)), max_size=2)) if draw(st.integers(0, 4)) == 0 else ():
        del image[name]
    extra = draw(st.sampled_from([None] * 20 + ["other", "gone"]))
    if extra:
        image[extra] = draw(TEXTS)
    return draw(st.sampled_from([image] * 20 + [None, {}, [image]]))


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Draw a data message in one of the forms that are accepted, or nearly so."""
    operation = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE", "REFRESH", "read", "Insert", "update"]))
    headers: Message = {"operation": operation}
    for name, values in (
        ("changeSequence", st.sampled_from([None, "", "1" * 35])),
        ("timestamp", SCALARS),
        ("columnMask", MASKS),
        ("changeMask", MASKS),
        ("transactionLastEvent", SCALARS),
        ("externalSchemaId", st.sampled_from([None, "", 0])),
        ("transactionId", SCALARS),
    ):
        if draw(st.booleans()):
            headers[name] = draw(values)
    body: Message = {"headers": headers, "data": draw(images())}
    row, before = body["data"], draw(images())
    body["beforeData"] = draw(st.sampled_from([None, None, before, row]))
    if operation == "DELETE" and draw(st.booleans()):
        body["data"], body["beforeData"] = body["beforeData"], body["data"]
    if draw(st.integers(0, 3)) == 0:
        body["table"] = "t"
    form = draw(st.sampled_from(["atMSG"] * 4 + ["message", "bare"]))
    if form == "bare":
        return body
    if form == "message":
        return {"message": body}
    schema_id = draw(st.sampled_from(["f1", "f1", None, "", "f2"]))
    return {"magic": "atMSG", "type": "DT", "headers": None, "messageSchemaId": schema_id, "message": body}


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw a body; its messages have one form more often than not."""
    sent = draw(st.lists(messages(), min_size=1, max_size=5))
    escaped, lines = draw(st.booleans()), draw(st.booleans())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    texts = [json.dumps(message, ensure_ascii=escaped, separators=separators) for message in sent]
    return ("\n".join(texts) if lines else f"[{','.join(texts)}]").encode()


def body_of(*sent: Message) -> bytes:
    return json.dumps(sent).encode()


def usual(operation: str = "INSERT", **changes: Any) -> Message:
    headers = {"operation": operation, "changeSequence": "9" * 35, "timestamp": "2026-01-05T09:30:00.000"}
    body = {"data": ROW, "beforeData": None, "headers": headers | changes.pop("headers", {})} | changes
    return {"magic": "atMSG", "type": "DT", "headers": None, "messageSchemaId": "f1", "message": body}


@given(bodies(), st.sampled_from([VERSION, None]), st.sampled_from([RULES, COMPLETING, EXCLUDING]))
def test_a_body_is_read_as_on_the_exact_path_or_not_at_all(
    body: bytes, version: SourceVersion | None, rules: RowRules
) -> None:
    check_agreement(body, version, rules)


@given(bodies() | st.deferred(lambda: st.sampled_from([body_of(*sent) for sent in USUAL.values()])), st.data())
def test_a_damaged_body_is_read_as_on_the_exact_path_or_not_at_all(body: bytes, data: st.DataObject) -> None:
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged)))
        end = at + data.draw(st.integers(0, 3))
        damaged[at:end] = data.draw(
            st.sampled_from(
                [b"", b'"', b"\\", b",", b":", b"0", b"-0", b"null", b"{}", b"\xff", b"\\u0000", b"\\ud800"]
            )
            | st.binary(max_size=2)
            | st.just(bytes(damaged[at : at + 12]))
        )
    check_agreement(bytes(damaged), VERSION, RULES)


@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_a_key_that_is_written_twice_is_never_read(sent: list[Message], data: st.DataObject) -> None:
    objects: list[tuple[str, str]] = []
    for message in sent:
        body = message.get("message", message)
        for holder in (message, body, body["headers"], body["data"], body["beforeData"]):
            if isinstance(holder, dict):
                objects += [(json.dumps(name), json.dumps(value)) for name, value in holder.items()]
    name, value = data.draw(st.sampled_from(objects))
    text = json.dumps(sent)
    doubled = text.replace(f"{name}: {value}", f"{name}: {value}, {name}: {value}", 1)
    assert doubled != text
    assert read_columnar(doubled.encode(), VERSION, RULES) is None


USUAL: dict[str, list[Message]] = {
    "inserts": [usual(), usual()],
    "a refresh": [usual("REFRESH", headers={"changeSequence": ""}), usual("READ")],
    "a full update": [usual("UPDATE", beforeData=ROW)],
    "an update of the key": [usual("UPDATE", beforeData=ROW | {"id": 2}), usual("DELETE")],
    "a delete": [usual("DELETE"), usual("delete", data=None, beforeData=ROW), usual("DELETE", beforeData=ROW)],
    "masks": [usual(headers={"columnMask": FULL_MASK}), usual("UPDATE", headers={"changeMask": "06"})],
    "an update of some columns": [
        usual("UPDATE", data={"id": 1, "name": "b"}, beforeData=ROW, headers={"columnMask": "05"})
    ],
    "columns that are left out": [usual("UPDATE", data={"id": 1, "name": "b"}), usual()],
    "escapes": [usual(data=ROW | {"name": 'a "quoted" \\ \n text\\'})],
    "an address": [usual(table="t", schema="s"), usual()],
    "a bare message": [usual()["message"], usual()["message"]],
    "a message without an envelope": [{"message": usual()["message"]}],
    "messages with their keys": [{"key": {"id": 1}, "value": usual()}, {"key": 'a "text"', "value": usual("DELETE")}],
    "a bare message with its key": [{"key": None, "value": usual()["message"]}],
    "fractions": [usual(data=ROW | {"real": 1e-7, "name": 1.10})],
}


@pytest.mark.parametrize("sent", USUAL.values(), ids=USUAL)
@pytest.mark.parametrize("framed", [b"[%s]", b"%s"], ids=["array", "lines"])
def test_the_usual_forms_are_read(sent: list[Message], framed: bytes) -> None:
    texts = [json.dumps(message, ensure_ascii=False).encode() for message in sent]
    assert check_agreement(framed % (b"," if framed != b"%s" else b"\n").join(texts), VERSION, RULES)


UNUSUAL: dict[str, bytes] = {
    "metadata": body_of(metadata("s.t", COLUMNS), usual()),
    "a null message": b"[null]",
    "no message": b"[]",
    "flattened headers": body_of({"headers_operation": "INSERT", "data": ROW}),
    "an unknown key": body_of(usual(more=1)),
    "an unknown header": body_of(usual(headers={"more": 1})),
    "an unknown column": body_of(usual(data=ROW | {"more": 1})),
    "an opaque header that is no scalar": body_of(usual(headers={"timestamp": {}})),
    "another schema id": body_of(usual() | {"messageSchemaId": "f0"}),
    "another type": body_of(usual() | {"type": "XX"}),
    "no operation": body_of({"data": ROW, "headers": {}}),
    "an insert without a row": body_of(usual(data=None)),
    "a wrong mask": body_of(usual(headers={"columnMask": "80"})),
    "a delete without an image": body_of({"key": {"id": 1}, "value": usual("DELETE", data=None)}),
    "a key without a message": body_of({"key": 1, "value": usual()}, {"key": 1, "value": None}),
    "a key beside more": body_of({"key": 1, "value": usual(), "offset": 5}),
    "a key of lists": body_of({"key": {"id": [1]}, "value": usual()}),
    "a key that has a column twice": body_of({"key": {"a": 1, "b": 2}, "value": usual()}).replace(b'"b"', b'"a"'),
    "keys for some": body_of({"key": 1, "value": usual()}, usual()),
    "a number beyond its type": body_of(usual(data=ROW | {"tiny": 128})),
    "a text beyond its type": body_of(usual(data=ROW | {"big": str(2**64)})),
    "a container": body_of(usual(data=ROW | {"name": {}})),
    "U+0000": body_of(usual(data=ROW | {"name": "\0"})),
    "half a surrogate": body_of(usual(data=ROW | {"name": "\ud800"})),
    "an external schema id": body_of(usual(headers={"externalSchemaId": "9"})),
    "a key in escapes, twice": b'[{"data":null,"d\\u0061ta":{},"headers":{"operation":"DELETE"}}]',
    "more lists than a request may have": body_of(usual(data=ROW | {"name": [[]] * 1_000_001})),
    "a mask of many zeros": body_of(usual(headers={"columnMask": "0" * 10_000 + FULL_MASK})),
    "bytes that are not UTF-8": body_of(usual()).replace(b'"a"', b'"\xff"'),
}


@pytest.mark.parametrize("body", UNUSUAL.values(), ids=UNUSUAL)
def test_what_the_exact_path_has_to_read_or_explain_is_not_read(body: bytes) -> None:
    assert read_columnar(body, VERSION, RULES) is None


def test_a_reader_keeps_no_long_id_and_no_more_than_some_shapes() -> None:
    reader = ImageReader(RULES.schema.names, frozenset(), None)

    def is_read(*ids: str) -> bool:
        sent = [usual("UPDATE", beforeData=ROW, headers={"externalSchemaId": schema_id}) for schema_id in ids]
        [decoded] = decode_data_messages([body_of(*sent)])
        return read_or_none(reader, [decoded.columns]) is not None

    assert not is_read("9" * 10_000)
    for first in range(0, 1_000, 200):
        assert is_read(*map(str, range(first, first + 200)))
        assert len(reader._shapes._known) <= 256
    assert not is_read(*map(str, range(300)))
    assert len(reader._shapes._known) <= 256
    assert is_read("1")


@given(st.lists(bodies(), min_size=1, max_size=4))
@example([body_of(usual()), body_of(usual("DELETE"), usual())])
def test_bodies_that_are_read_together_give_what_each_gives_alone(sent: list[bytes]) -> None:
    reader = ImageReader(RULES.schema.names, frozenset(), VERSION)
    assert decode_data_messages(sent) == [found for body in sent for found in decode_data_messages([body])]
    parts = [decoded.columns for decoded in decode_data_messages(sent) if decoded is not None]
    if parts:
        alone = [read_or_none(reader, [part]) for part in parts]
        together = read_or_none(reader, parts)
        if None in alone:
            assert together is None
        else:
            assert together == [changes for read in alone if read is not None for changes in read]


OTHER = ImageReader(("other", *RULES.schema.names), frozenset(), None)


@given(st.lists(bodies(), min_size=1, max_size=4), st.data())
@example([body_of(usual()), body_of(usual("DELETE"), usual())], None)
@example([body_of(usual(data=ROW | {"real": 1, "id": -0}))], None)
@example([body_of(usual(data=ROW | {"real": 1})).replace(b'"id": 1', b'"id":-0')], None)
@example([body_of(usual(data=ROW | {"real": 1})).replace(b'"id": 1', b'"id": 2, "id": 1')], None)
@example([body_of(usual(data=ROW | {"real": 1, "name": "\0"}))], None)
def test_images_that_are_decoded_with_their_messages_give_the_same(
    sent: list[bytes], data: st.DataObject | None
) -> None:
    reader = ImageReader(RULES.schema.names, frozenset(), VERSION)
    types = [reader.image_type, None, OTHER.image_type]
    expected = [data.draw(st.sampled_from(types)) if data else reader.image_type for _ in sent]
    alone, together = decode_data_messages(sent), decode_data_messages(sent, expected)
    for one, other in zip(alone, together, strict=True):
        read = read_or_none(reader, [one.columns]) if one else None
        assert read == (read_or_none(reader, [other.columns]) if other else None)
        assert read is None or (one and one.addresses) == (other and other.addresses)
    mixed = [body.columns for body in (*alone, *together) if body]
    if mixed:
        parts = [read_or_none(reader, [part]) for part in mixed]
        assert read_or_none(reader, mixed) == (
            None if None in parts else [changes for read in parts for changes in read or ()]
        )


def test_a_body_whose_table_is_known_is_decoded_with_its_images() -> None:
    reader = ImageReader(RULES.schema.names, frozenset(), VERSION)
    [decoded] = decode_data_messages([body_of(usual(data=ROW | {"real": 1}))], [reader.image_type])
    assert type(decoded.columns.data[0]) in get_args(reader.image_type)
