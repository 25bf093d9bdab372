"""Bodies of JSON become messages: framings, records of key and value, nesting, texts, and values."""

import json
import time
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from app.domain.model.change import Change, InputLimits
from app.domain.model.table import BatchSequence
from app.domain.model.table_options import PartialUpdates, TableOptions
from app.domain.model.written_values import keep_minus_zeros
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_rules import RowRules
from app.formats.arcion.columnar import decode_columnar
from app.formats.arcion.messages import decode_arcion
from app.formats.json import texts
from app.formats.json.decoder import MessageDecoder
from app.formats.json.quote_accounting import ImageDecoder
from app.formats.json.texts import (
    MAX_NESTED_VALUES,
    SLICE,
    check_nested_values,
    first_wrong_byte,
    has_suspicious_escape,
    split,
)
from app.formats.replicate.messages import decode_replicate
from mirrorgate.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.changes import insert, update
from tests.support.samples.messages import metadata
from tests.support.samples.schemas import active_table, schema_of


class Pair(msgspec.Struct):
    key: str
    value: Any = UNSET
    inner: dict[str, str] | UnsetType = UNSET


DECODER = MessageDecoder(Pair)
MESSAGES: list[dict[str, Any]] = [
    {"key": "a", "value": '}{ \\" ]['},
    {"key": "b", "value": {"x": [1, {"y": None}]}},
    {"key": "c"},
]


def decode(body: bytes) -> list[tuple[str, Any]]:
    return [(message.key, message.value) for message in DECODER.decode(body)]


EXPECTED = [(message["key"], message.get("value", UNSET)) for message in MESSAGES]
COMPACT = [json.dumps(message).encode() for message in MESSAGES]
PRETTY = [json.dumps(message, indent=2).encode() for message in MESSAGES]


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b",".join(COMPACT) + b"]",
        b"[\n" + b",\n".join(PRETTY) + b"\n]\n",
        b"\n".join(COMPACT),
        b"\n".join(COMPACT) + b"\n",
        b"\r\n".join(COMPACT) + b"\r\n",
        b"\n\n".join(COMPACT),
        b"".join(COMPACT),
        b" \t".join(COMPACT),
        b"\n".join(PRETTY),
        b"".join(PRETTY),
        b"\xef\xbb\xbf" + b"\n".join(COMPACT),
        b"\xef\xbb\xbf  \n[" + b",".join(PRETTY) + b"]",
    ],
    ids=[
        "array",
        "pretty-printed array",
        "NDJSON",
        "NDJSON with a last newline",
        "NDJSON with CRLF",
        "NDJSON with blank lines",
        "concatenated",
        "concatenated with blanks",
        "pretty-printed one after the other",
        "pretty-printed without a blank",
        "NDJSON with a byte order mark",
        "array with a byte order mark",
    ],
)
def test_messages_may_stand_in_any_framing(body: bytes) -> None:
    assert decode(body) == EXPECTED


@pytest.mark.parametrize("body", [COMPACT[1], PRETTY[1], b" \n" + PRETTY[1] + b"\n ", b"\xef\xbb\xbf" + COMPACT[1]])
def test_one_object_is_one_message(body: bytes) -> None:
    assert decode(body) == EXPECTED[1:2]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 9007199254740993),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("0.1", Decimal("0.1")),
        ("1.10", Decimal("1.10")),
        ("1e400", Decimal("1e400")),
        ("-0.0", Decimal("-0.0")),
        (r'"é\u00e9\ud83d\ude00"', "éé\U0001f600"),
        (r'"\\u0000"', "\\u0000"),
        (r'"\\\\u0000"', "\\\\u0000"),
    ],
)
def test_a_value_is_read_exactly(text: str, value: Any) -> None:
    assert decode(f'{{"key":"a","value":{text}}}'.encode()) == [("a", value)]


@pytest.mark.parametrize("body", [b"", b" \n\t", b"\xef\xbb\xbf", b"[]", b"[ ]"])
def test_a_body_without_a_message_is_an_empty_request(body: bytes) -> None:
    with rejected(Code.EMPTY_REQUEST):
        DECODER.decode(body)


GOOD = b'{"key":"a"}'


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'"text"', "must start with { or ["),
        (b"1", "must start with { or ["),
        (b"table=1&x=2", "must start with { or ["),
        (b"\xff\xfe{\x00}\x00", "not UTF-8 at byte 0"),
        (b'{"key":"\xff"}', "not UTF-8 at byte 8"),
        (b'{"key":"\xed\xa0\x80"}', "not UTF-8 at byte 8"),
        (GOOD + b"x", "between messages at byte 11"),
        (GOOD + b"," + GOOD, "between messages at byte 11"),
        (GOOD + b"\n" + GOOD + b"\nx", "between messages at byte 23"),
        (GOOD + b"}", "unexpected } at byte 11"),
        (GOOD + GOOD[:-1], "starts at byte 11 does not end"),
        (b'{"key":"a', "starts at byte 0 does not end"),
        (b"[" + GOOD, "not valid JSON"),
        (b"[" + GOOD + b",]", "not valid JSON"),
        (b"[" + GOOD + b"]x", "not valid JSON"),
        (rb'{"key":"\u0000"}', "U+0000 at byte 8"),
        (rb'{"key":"\\\u0000"}', "U+0000 at byte 10"),
    ],
)
def test_a_malformed_body_is_rejected_with_the_byte(body: bytes, detail: str) -> None:
    with rejected(Code.MALFORMED_JSON) as rejection:
        DECODER.decode(body)
    assert detail in rejection.detail


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e99999999999999999999",
        "01",
        ".5",
        "+1",
        "0x1",
        "'a'",
        "True",
        "undefined",
        r'"\ud800"',
        r'"\udc00\ud800"',
        r'"\x41"',
        '"\x01"',
        "[1,]",
        "{,}",
        "[" * 100_000 + "]" * 100_000,
    ],
    ids=lambda value: value[:24],
)
@pytest.mark.parametrize("framing", ["{}", "[{}]", '{{"key":"a"}}\n{}', '[{{"key":"a"}},{}]'])
def test_a_malformed_message_makes_the_request_malformed(value: str, framing: str) -> None:
    with rejected(Code.MALFORMED_JSON):
        DECODER.decode(framing.format(f'{{"key":"b","value":{value}}}').encode())


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        ("{}", ""),
        ('{"key":1}', "/key"),
        ('{"key":null}', "/key"),
        ('{"key":"a","inner":1}', "/inner"),
        ('{"key":"a","inner":{"a.b":1}}', "/inner/a.b"),
    ],
)
@pytest.mark.parametrize("framing", ['{{"key":"a"}}\n{}', '{{"key":"a"}}{}', '[{{"key":"a"}},{}]'])
def test_a_message_of_another_shape_is_named_by_index_and_pointer(message: str, pointer: str, framing: str) -> None:
    with rejected(places=[(Code.MALFORMED_MESSAGE, 1, pointer, None)]):
        DECODER.decode(framing.format(message).encode())


@pytest.mark.parametrize("body", [b'{"id":%s}', b'[{"id":1},{"id":-%s}]', b'{"id":1}\n{"x":{"y":%s}}'])
def test_an_integer_with_too_many_digits_is_named_as_such(body: bytes) -> None:
    MessageDecoder(dict[str, Any]).decode(body % (b"1" * 4_299))
    with rejected() as rejection:
        MessageDecoder(dict[str, Any]).decode(body % (b"1" * 4_301))
    assert "an integer has too many digits" in rejection.text


@pytest.mark.parametrize("body", [b"[1]", b"[null]", b'["a"]', b"[[]]"])
def test_a_message_that_is_no_object_is_rejected(body: bytes) -> None:
    with rejected(places=[(Code.MALFORMED_MESSAGE, 0, "", None)]):
        DECODER.decode(body)


@pytest.mark.parametrize("body", [b'{"' + b'\\"' * 500_000, b'{"a":' * 200_000, b'{"key":"' + b"\\\\" * 500_000])
def test_a_body_made_to_be_slow_is_rejected_in_time_that_grows_with_its_length(body: bytes) -> None:
    started = time.process_time()
    with rejected():
        DECODER.decode(body)
    assert time.process_time() - started < 2


def test_a_rejection_never_repeats_a_value() -> None:
    for body in (b'{"key":7391}', b'{"key":"canary-7391" x}', b'{"key":"canary-7391"', b'{"key":"a"}7391{"key":"b"}'):
        with rejected() as rejection:
            DECODER.decode(body)
        assert "7391" not in rejection.text


@pytest.mark.parametrize(
    ("exists", "pointer"),
    [
        ('{"a": "1", "b/c": true}', "/exists/b~1c"),
        ('{"a": [], "b": "1"}', "/exists/a"),
        ('{"a": 1.5, "b": 1}', "/exists/a"),
        ("[]", "/exists"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_by_its_own_pointer(exists: str, pointer: str) -> None:
    body = f'{{"tableName": {{"name": "t"}}, "opType": "I", "exists": {exists}}}'
    with rejected(places=[(Code.MALFORMED_MESSAGE, 0, pointer, None)]):
        decode_arcion(body.encode())


def test_a_column_of_metadata_is_named_by_its_own_pointer() -> None:
    message = metadata("S.T", {"ID": "INT4", "A": {"type": 7}}, ("ID",))
    with rejected() as rejection:
        decode_replicate(json.dumps([message]).encode())
    assert rejection.places[0][2] == "/message/tableStructure/tableColumns/A/type"


COLUMNS = ("id", "é x", "c")
IMAGE_DECODER = ImageDecoder(COLUMNS, str)
IMAGES = st.fixed_dictionaries({}, optional=dict.fromkeys(COLUMNS, st.text(max_size=5)))


@given(images=st.lists(IMAGES, min_size=1, max_size=5), escaped=st.booleans())
def test_values_are_in_the_order_of_the_columns(images: list[dict[str, str]], *, escaped: bool) -> None:
    written = [Raw(json.dumps(image, ensure_ascii=escaped).encode()) for image in images]
    if any("\\u0000" in json.dumps(image) or (escaped and "\\ud" in json.dumps(image)) for image in images):
        with pytest.raises(ValueError, match=r"U\+0000"):
            IMAGE_DECODER.decode(written)
        return
    rows, is_full = IMAGE_DECODER.decode(written)
    assert rows == [tuple(image.get(name, UNSET) for name in COLUMNS) for image in images]
    assert is_full is all(len(image) == len(COLUMNS) for image in images)


@pytest.mark.parametrize(
    "image",
    ['{"id": "1", "id": "1"}', '{"id": "1", "other": "2"}', '{"id": 1}', '{"id": null}', "[]", '{"id": "\\u0000"}'],
)
def test_what_an_image_must_not_have_is_an_error(image: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        IMAGE_DECODER.decode([Raw(b'{"c": "1"}'), Raw(image.encode())])


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_names_that_msgspec_cannot_take_are_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="Renamed"):
        ImageDecoder([name], str)


MESSAGE = {"data": {"ID": 1}, "headers": {"operation": "INSERT"}}


@pytest.mark.parametrize("keyed", [None, True])
@pytest.mark.parametrize("key", [None, 7, "7", {"ID": 1}, {"schema": None, "payload": {"ID": 1}}, [1, 2]])
@pytest.mark.parametrize("value", [MESSAGE, {}, None])
def test_an_object_of_key_and_value_is_a_record(key: Any, value: Any, keyed: bool | None) -> None:
    assert split(0, {"key": key, "value": value}, keyed) == (key, value, "/value")


NO_RECORDS = [
    MESSAGE,
    None,
    {},
    {"key": 1},
    {"value": MESSAGE},
    {"key": 1, "value": "a text"},
    {"key": 1, "value": 2},
    {"key": 1, "value": [MESSAGE]},
    {"key": 1, "value": MESSAGE, "headers": {}},
    {"Key": 1, "Value": MESSAGE},
    [1, MESSAGE],
    "key",
]


@pytest.mark.parametrize("element", NO_RECORDS)
def test_any_other_element_is_the_message_itself(element: Any) -> None:
    assert split(0, element, None) == (UNSET, element, "")


@pytest.mark.parametrize("element", [*NO_RECORDS, {"key": 1, "value": MESSAGE}, {"key": 1, "value": None}])
def test_keyed_false_reads_every_element_as_the_message_itself(element: Any) -> None:
    assert split(0, element, False) == (UNSET, element, "")


@pytest.mark.parametrize("element", NO_RECORDS)
def test_keyed_true_rejects_an_element_of_another_shape(element: Any) -> None:
    with rejected(places=[(Code.MALFORMED_MESSAGE, 3, "", None)]):
        split(3, element, True)


TOO_MANY_LISTS = b"[" + b"[]," * (MAX_NESTED_VALUES + 9) + b"[]]"
LIMITS = InputLimits(messages=1, value_bytes=2**24)
ARCION = {"tableName": {"namespace": {"catalog": "c", "schema": "s"}, "name": "t"}, "opType": "I", "exists": {"a": "1"}}


def message(**members: Any) -> bytes:
    return json.dumps(ARCION | {"after": {"a": "1"}} | members).encode().replace(b'"many"', TOO_MANY_LISTS)


@pytest.mark.parametrize(
    ("decode", "body"),
    [
        (decode_arcion, message(cursor="many")),
        (decode_arcion, message(operationcount="many")),
        (decode_arcion, message(after={"a": "many"})),
        (decode_arcion, message(unknown="many")),
        (
            decode_replicate,
            b'{"data": {"ID": 1}, "headers": {"operation": "INSERT", "timestamp": ' + TOO_MANY_LISTS + b"}}",
        ),
    ],
)
def test_a_body_of_millions_of_empty_lists_is_rejected(decode: Callable[..., object], body: bytes) -> None:
    with rejected(Code.TOO_MANY_NESTED_VALUES):
        decode(body, limits=LIMITS)


def test_a_columnar_body_is_not_read_for_a_cursor_or_an_address_of_millions_of_lists() -> None:
    assert decode_columnar([message(cursor="many")]) == [None]
    assert decode_columnar([message(cursor={"position": 7})]) != [None]
    assert decode_columnar([message(tableName=ARCION["tableName"] | {"unknown": "many"})]) == [None]


def test_brackets_in_texts_do_not_count() -> None:
    text = json.dumps({"a": '"[{' * MAX_NESTED_VALUES}).encode()
    check_nested_values(text, 1)


def test_messages_may_have_the_objects_that_they_are_made_of() -> None:
    own = b"{{{{{{{{}}}}}}}}"
    check_nested_values(own * MAX_NESTED_VALUES, MAX_NESTED_VALUES)
    with rejected():
        check_nested_values(own * MAX_NESTED_VALUES, MAX_NESTED_VALUES // 2)


class Message(msgspec.Struct):
    key: str


GOOD_TEXT = ("a", "é", "語", "😀")
CUT_OR_WRONG = "80 c0 c3 e080 e8aa eda0 eda080 f09f f09f98 f490 f5 ff"
PIECES = st.sampled_from([*(text.encode() for text in GOOD_TEXT), *map(bytes.fromhex, CUT_OR_WRONG.split())])
BODIES = st.lists(PIECES | st.binary(max_size=3), max_size=12).map(b"".join)


def in_one_piece(body: bytes) -> int | None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


@given(BODIES, st.integers(4, 9))
@example(b"aaa\xe8", 4)
@example(b"aaa\xf0\x9f\x98\x80\xf0\x9f", 4)
def test_the_first_wrong_byte_is_that_of_decoding_in_one_piece(body: bytes, size: int) -> None:
    with patch.object(texts, "SLICE", size):
        assert first_wrong_byte(body) == in_one_piece(body)


@given(BODIES, st.integers(-4, 4))
def test_slices_of_their_real_length_are_cut_as_well(middle: bytes, shift: int) -> None:
    body = b"a" * (SLICE + shift) + middle + b"a" * SLICE
    assert first_wrong_byte(body) == in_one_piece(body)


def test_a_large_body_with_one_emoji_is_checked_in_little_memory() -> None:
    message = b'{"key":"a","skipped":"' + b"a" * 2**16 + b'"}'
    body = b"\n".join([message] * 64 + [message.replace(b"aa", "😀".encode(), 1)])
    tracemalloc.start()
    try:
        assert first_wrong_byte(body) is None
        assert MessageDecoder(Message).decode_well_formed(body) == [Message("a")] * 65
        assert tracemalloc.get_traced_memory()[1] < len(body) // 4  # as one text it would take four times its bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("escape", "expected"),
    [
        (rb"\u0000", True),
        (rb"\ud83d\ude00", True),
        (rb"\uDBFF", True),
        (rb"\\u0000", True),  # may be wrong
        (rb"\u00e9\u0022\u000a\ud7ff", False),
        (rb"u0000 ud800", False),
    ],
)
def test_an_escape_of_what_is_no_text_is_suspicious(escape: bytes, *, expected: bool) -> None:
    assert has_suspicious_escape(b'{"a":"' + escape + b'"}') is expected


SCHEMA: Final = schema_of({"id": "int64", "s": "string", "j": "json", "f": "float64"}, ["id"], ["id"])
COMPLETE: Final = TableOptions(partial_updates=PartialUpdates.COMPLETE)
WRITTEN: Final = (
    *("1e5", "1E5", "1E+5", "1.0e-7", "0.0000001", "-0.00000012", "0.0000000", "-0", "-0.0", "-0e0", "0e-7"),
    *("1.50", "0.1", "9007199254740993", "1e-400", "123456789012345678901234567890.10"),
)


def arcion_body(number: str, *, blank: str) -> bytes:
    values = f'{{"id":"1","s":{blank}{number},"j":{{"v":{blank}{number},"l":[{number},"-0, -0"]}},"f":0}}'
    exists = '{"id":"1","s":"1","j":"1","f":"1"}'
    return f'{{"tableName":{{"name":"t"}},"opType":"I","after":{values},"exists":{exists}}}'.encode()


def replicate_body(number: str, *, blank: str) -> bytes:
    values = f'{{"id":1,"s":{blank}{number},"j":{{"v":{blank}{number},"l":[{number},"-0, -0"]}},"f":0}}'
    return f'{{"data":{values},"headers":{{"operation":"INSERT"}}}}'.encode()


def of_arcion(body: bytes) -> list[Change]:
    return [entry.change for entry in decode_arcion(body)]


def of_replicate(body: bytes) -> list[Change]:
    return [message.change for message in decode_replicate(body).changes]


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize(("write", "read"), [(arcion_body, of_arcion), (replicate_body, of_replicate)])
@pytest.mark.parametrize("number", WRITTEN)
def test_a_number_lands_in_text_columns_byte_for_byte(
    number: str, write: Callable[..., bytes], read: Callable[[bytes], list[Change]], blank: str
) -> None:
    overlay = ImageOverlay(active_table(SCHEMA, COMPLETE), {})

    def landed(changes: list[Change]) -> list[dict[str, Any]]:
        rows, layer = overlay.complete(landing_rows(changes, RowRules.of(overlay.table)))
        overlay.adopt(layer, BatchSequence(1))
        return rows.batch.to_pylist()

    for changes in (read(write(number, blank=blank)), [update(None, {"id": 1, "f": 1})], [update(None, {"id": 1})]):
        [row] = landed(changes)
        assert row["s"] == number
        assert row["j"] == f'{{"v":{number},"l":[{number},"-0, -0"]}}'


@pytest.mark.parametrize("body", [b'{"a":"x: -0, y","b":-0}', b'[{"a": -0 ,"b":"\\": -0,"}]', b'{"a":[1e-0,-0]}'])
def test_only_minus_zeros_outside_of_texts_are_written_otherwise(body: bytes) -> None:
    kept = keep_minus_zeros(body)
    assert kept != body
    assert json.loads(kept, parse_float=str, parse_int=str) == json.loads(
        body, parse_float=str, parse_int=lambda text: "-0.0e-0000000" if text == "-0" else text
    )


@pytest.mark.parametrize(("write", "read"), [(arcion_body, of_arcion), (replicate_body, of_replicate)])
@pytest.mark.parametrize("separator", [b"", b"\n", b" "])
def test_minus_zeros_keep_their_sign_in_every_framing(
    write: Callable[..., bytes], read: Callable[[bytes], list[Change]], separator: bytes
) -> None:
    for change in read(separator.join([write("-0", blank=" ")] * 2)):
        assert str(change.after["s"]) == "-0"


@pytest.mark.parametrize("value", [{"a": [1, None]}, [], ["x"]])
def test_an_object_or_list_lands_in_a_string_column_as_json_text(value: Any) -> None:
    [row] = landing_rows([insert({"id": 1, "s": value, "j": None, "f": None})], SCHEMA).batch.to_pylist()
    assert json.loads(row["s"]) == value


@pytest.mark.parametrize("column_type", ["float32", "float64"])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_number_that_is_not_zero_never_lands_as_zero(column_type: str, *, as_text: bool) -> None:
    schema = schema_of({"id": "int64", "f": column_type}, ["id"])
    [change] = of_arcion(
        b'{"tableName":{"name":"t"},"opType":"I","after":{"id":1,"f":%s},"exists":{"id":1,"f":1}}'
        % (b'"-1e-400"' if as_text else b"-1e-400")
    )
    with rejected() as rejection:
        landing_rows([change], schema)
    assert [(code, column) for code, _, _, column in rejection.places] == [(Code.BAD_VALUE, "f")]
    zeros = [insert({"id": 1, "f": zero}) for zero in ("0", "-0.0", "0e-999", "0.000", 0)]
    assert [row["f"] for row in landing_rows(zeros, schema).batch.to_pylist()] == [0.0] * 5
    texts = [insert({"id": 1, "f": zero}) for zero in ("0", "1.5", "0.0e5")]
    assert [row["f"] for row in landing_rows(texts, schema).batch.to_pylist()] == [0.0, 1.5, 0.0]
